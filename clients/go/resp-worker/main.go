// Command resp-worker works off mails with a client of Redis and Disque's commands, and keeps its job however long one takes.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

const tries = 3 // ADDJOB has no limit of its own.

// delivery is one handing out of a job. Its id names just this one, so it can be used on any connection, and nobody who was
// too late can end somebody else's.
type delivery struct {
	id      string
	payload []byte
	attempt int
}

// next answers nil when there was nothing to do for a while.
func next(auxo redis.Conn, queue string) (*delivery, error) {
	// The client must have more patience than the server is asked for.
	jobs, err := redis.Values(redis.DoWithTimeout(auxo, 40*time.Second,
		"GETJOB", "TIMEOUT", 30000, "WITHCOUNTERS", "FROM", queue))
	if err == redis.ErrNil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	job, err := redis.Values(jobs[0], nil)
	if err != nil {
		return nil, err
	}
	var (
		d               delivery
		nacks, silences int
		name            string
	)
	_, err = redis.Scan(job, &name, &d.id, &d.payload, &name, &nacks, &name, &silences)
	d.attempt = nacks + silences + 1
	return &d, err
}

// keep prolongs a delivery three times per RETRY until done is closed. WORKING answers how long that is in seconds.
func keep(pool *redis.Pool, id string, done <-chan struct{}) {
	for {
		auxo := pool.Get()
		retry, err := redis.Int(auxo.Do("WORKING", id))
		auxo.Close()
		if err != nil || retry == 0 {
			return // The job is not ours any more. The end of the work will tell.
		}
		select {
		case <-done:
			return
		case <-time.After(time.Duration(retry) * time.Second / 3):
		}
	}
}

func work(pool *redis.Pool, auxo redis.Conn, d *delivery) error {
	done := make(chan struct{})
	go keep(pool, d.id, done)
	failure := send(d.payload, d.attempt)
	close(done)

	ended, err := end(auxo, d, failure)
	if err == nil && ended == 0 {
		fmt.Fprintln(os.Stderr, "lost:", d.id) // Somebody else has the job by now, and nothing was changed.
	}
	return err
}

// end answers how many deliveries were ended: none if this one was no longer ours.
func end(auxo redis.Conn, d *delivery, failure error) (int, error) {
	switch {
	case failure == nil:
		return redis.Int(auxo.Do("ACKJOB", d.id))
	case !errors.Is(failure, errUnreadable) && d.attempt < tries:
		fmt.Fprintln(os.Stderr, "again:", failure)
		return redis.Int(auxo.Do("NACK", d.id)) // At once. AUXO.SETTLE … fail waits by the job's backoff.
	}
	// Disque would go on until the job's TTL is over. Here it can be put aside with the reason, for `auxo kick`.
	fmt.Fprintln(os.Stderr, "buried:", failure)
	_, err := auxo.Do("AUXO.SETTLE", d.id, "bury", "error", failure.Error())
	if err != nil && strings.HasPrefix(err.Error(), "LEASE_LOST") {
		return 0, nil
	}
	return 1, err
}

func run(address, queue string, count int) error {
	// The server closes a connection that was silent for minutes; a sign of life must not be the first to notice.
	pool := &redis.Pool{MaxIdle: 2, IdleTimeout: time.Minute, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", address, redis.DialConnectTimeout(5*time.Second), redis.DialReadTimeout(10*time.Second))
	}}
	defer pool.Close()
	auxo := pool.Get()
	defer auxo.Close()
	for count != 0 {
		d, err := next(auxo, queue)
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		if err := work(pool, auxo, d); err != nil {
			return err
		}
		count--
	}
	return nil
}

func main() {
	count, err := -1, error(nil)
	if len(os.Args) == 3 {
		count, err = strconv.Atoi(os.Args[2])
	}
	if len(os.Args) < 2 || len(os.Args) > 3 || err != nil {
		fmt.Fprintln(os.Stderr, "usage: resp-worker QUEUE [COUNT]")
		os.Exit(2)
	}
	address := os.Getenv("AUXO_RESP")
	if address == "" {
		address = "127.0.0.1:7711"
	}
	if err := run(address, os.Args[1], count); err != nil {
		fmt.Fprintf(os.Stderr, "error: %s: %v\n", address, err)
		os.Exit(1)
	}
}
