package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

var errUnreadable = errors.New("not a mail")

// mail is what a job is here. Takes (seconds) and Fails (tries) stand for what real work does: it lasts, and it goes wrong at
// first.
type mail struct {
	To, Text string
	Takes    float64
	Fails    int
}

// send is the work itself: it prints the mail.
func send(payload []byte, attempt int) error {
	var m mail
	if json.Unmarshal(payload, &m) != nil || m.To == "" || m.Text == "" {
		return errUnreadable // No further try will make it one.
	}
	time.Sleep(time.Duration(m.Takes * float64(time.Second)))
	if attempt <= m.Fails {
		return fmt.Errorf("the mailbox of %s is busy", m.To)
	}
	fmt.Printf("%s: %s\n", m.To, m.Text)
	return nil
}
