// Command http-producer pushes two mails over HTTP, with nothing but Go's own library.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"
)

type mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

type job struct {
	Payload     mail   `json:"payload"`
	Key         string `json:"key"`
	OnDuplicate string `json:"on_duplicate"`
	Priority    *int   `json:"priority,omitempty"` // Zero is most urgent, so leaving it out must be something else.
	Delay       string `json:"delay,omitempty"`
}

type answer struct {
	Code, Message string
	Results       []struct {
		OK    struct{ ID string }
		Error *struct{ Code, Message string }
	}
}

func produce(server, queue, name string) error {
	urgent := 0
	// A key makes the job unique, and with `return` the push can be repeated: the answer is the same id.
	body, err := json.Marshal([]job{
		{Payload: mail{name, "welcome"}, Key: "welcome:" + name, OnDuplicate: "return", Priority: &urgent},
		{Payload: mail{name, "how do you like it?"}, Key: "reminder:" + name, OnDuplicate: "return", Delay: "1s"},
	})
	if err != nil {
		return err
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Post(server+"/v1/queues/"+url.PathEscape(queue)+"/jobs", "application/json", bytes.NewReader(body))
	if err != nil {
		return errors.Unwrap(err) // Without the URL, which the caller knows.
	}
	defer response.Body.Close()
	var told answer
	if err := json.NewDecoder(response.Body).Decode(&told); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", told.Code, told.Message)
	}
	for _, result := range told.Results { // Each job of an array has its own answer.
		if result.Error != nil {
			return fmt.Errorf("%s: %s", result.Error.Code, result.Error.Message)
		}
		fmt.Println(result.OK.ID)
	}
	return nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: http-producer QUEUE NAME")
		os.Exit(2)
	}
	address := os.Getenv("AUXO_HTTP")
	if address == "" {
		address = "127.0.0.1:8000"
	}
	if err := produce("http://"+address, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "error: %s: %v\n", address, err)
		os.Exit(1)
	}
}
