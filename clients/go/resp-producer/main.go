// Command resp-producer adds two mails to a queue with a client of Redis and Disque's commands.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/gomodule/redigo/redis"
)

type mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: resp-producer QUEUE NAME")
		os.Exit(2)
	}
	address := os.Getenv("AUXO_RESP")
	if address == "" {
		address = "127.0.0.1:7711"
	}
	if err := produce(address, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %s: %v\n", address, err)
		os.Exit(1)
	}
}

func produce(address, queue, name string) error {
	auxo, err := redis.Dial("tcp", address,
		redis.DialConnectTimeout(5*time.Second), redis.DialReadTimeout(10*time.Second))
	if err != nil {
		return err
	}
	defer auxo.Close()

	// RETRY is the time that a worker has for it. The 0 is Disque's timeout, which has no effect here.
	if err := add(auxo, mail{name, "welcome"}, queue, "RETRY", 60); err != nil {
		return err
	}
	// The queue keeps it until it is due: we need not wait, nor even live that long.
	return add(auxo, mail{name, "how do you like it?"}, queue, "RETRY", 60, "DELAY", 1)
}

func add(auxo redis.Conn, m mail, queue string, options ...interface{}) error {
	payload, err := json.Marshal(m)
	if err != nil {
		return err
	}
	// The id comes back when the job is on the disk.
	id, err := redis.String(auxo.Do("ADDJOB", append([]interface{}{queue, payload, 0}, options...)...))
	if err != nil {
		return err
	}
	fmt.Println(id)
	return nil
}
