// Command http-worker works off mails over HTTP, with nothing but Go's own library.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

type leased struct {
	ID, Token string
	Payload   json.RawMessage // Absent when the bytes are no JSON: those are in payload_base64, and none of ours.
	Attempt   int
}

type settle struct {
	Token   string `json:"token"`
	Outcome string `json:"outcome"`
	Error   string `json:"error,omitempty"`
}

// problem is how the server says no.
type problem struct{ Code, Message string }

func (p *problem) Error() string { return p.Code + ": " + p.Message }

// More patience than the longest wait that is asked for.
var client = http.Client{Timeout: 45 * time.Second}

func call(url string, request, answer interface{}) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	response, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return errors.Unwrap(err) // Without the URL, which the caller knows.
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		told := &problem{Code: response.Status}
		json.NewDecoder(response.Body).Decode(told) // If it is none of the server's own, the status must do.
		return told
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func work(server string, job leased) error {
	end := settle{Token: job.Token, Outcome: "ack"}
	if err := send(job.Payload, job.Attempt); errors.Is(err, errUnreadable) {
		end.Outcome, end.Error = "bury", err.Error() // No try would help. `auxo kick` when somebody has looked at it.
		fmt.Fprintln(os.Stderr, "buried:", err)
	} else if err != nil {
		end.Outcome, end.Error = "fail", err.Error() // Again by the job's own policy, or dead after its last try.
		fmt.Fprintln(os.Stderr, "again:", err)
	}
	var told *problem
	err := call(server+"/v1/settle", end, &struct{}{})
	if errors.As(err, &told) && told.Code == "lease_lost" {
		fmt.Fprintln(os.Stderr, "lost:", job.ID) // It took longer than its ttr. Somebody else has it; nothing was changed.
		return nil
	}
	return err
}

func run(server, queue string, count int) error {
	for count != 0 {
		request := map[string]interface{}{"queues": []string{queue}, "wait": "30s", "worker": "go-" + strconv.Itoa(os.Getpid())}
		var answer struct{ Jobs []leased }
		if err := call(server+"/v1/lease", request, &answer); err != nil {
			return err
		}
		for _, job := range answer.Jobs {
			if err := work(server, job); err != nil {
				return err
			}
			count--
		}
	}
	return nil
}

func main() {
	count, err := -1, error(nil)
	if len(os.Args) == 3 {
		count, err = strconv.Atoi(os.Args[2])
	}
	if len(os.Args) < 2 || len(os.Args) > 3 || err != nil {
		fmt.Fprintln(os.Stderr, "usage: http-worker QUEUE [COUNT]")
		os.Exit(2)
	}
	address := os.Getenv("AUXO_HTTP")
	if address == "" {
		address = "127.0.0.1:8000"
	}
	if err := run("http://"+address, os.Args[1], count); err != nil {
		fmt.Fprintf(os.Stderr, "error: %s: %v\n", address, err)
		os.Exit(1)
	}
}
