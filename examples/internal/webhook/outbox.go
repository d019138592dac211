// Package webhook is the job of the webhook programs: to take events over HTTP, and to
// deliver each to the URL that it is for. How deliveries are retried is up to the
// program.
package webhook

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// An Event is what somebody has asked to be delivered.
type Event struct {
	URL  string
	Body []byte
}

// An Outbox has the events that are not delivered yet. A real one is a table of a
// database: what is left in it when the program ends is delivered by the next one.
type Outbox struct {
	client http.Client

	mu     sync.Mutex
	last   int
	events map[string]Event
}

// NewOutbox returns an empty outbox.
func NewOutbox() *Outbox {
	return &Outbox{
		client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
		events: make(map[string]Event),
	}
}

// Put stores an event and returns its name.
func (o *Outbox) Put(event Event) (id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	id = "event-" + strconv.Itoa(o.last)
	o.events[id] = event
	return id
}

// Left returns the names of what is not delivered.
func (o *Outbox) Left() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.events))
}

// Remove forgets an event, as it is delivered or given up.
func (o *Outbox) Remove(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.events, id)
}

func (o *Outbox) get(id string) (Event, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	event, ok := o.events[id]
	return event, ok
}

// Deliver makes one attempt, and removes the event if that succeeds. An answer that is
// not a success is a *[StatusError].
func (o *Outbox) Deliver(ctx context.Context, id string) error {
	event, ok := o.get(id)
	if !ok {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, event.URL, bytes.NewReader(event.Body))
	if err != nil {
		return err
	}
	// The receiver may get an event twice, as an answer can be lost. It knows by this.
	request.Header.Set("Idempotency-Key", id)
	response, err := o.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // Or the connection cannot be used again.
	if response.StatusCode/100 == 2 {
		o.Remove(id)
		return nil
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return &StatusError{Code: response.StatusCode, RetryAfter: time.Duration(seconds) * time.Second}
}

// A StatusError is an answer that is not a success.
type StatusError struct {
	Code       int
	RetryAfter time.Duration // 0 if the receiver has not said
}

func (e *StatusError) Error() string { return fmt.Sprintf("the receiver answered %d", e.Code) }

// Permanent reports whether another attempt would be answered in the same way.
func (e *StatusError) Permanent() bool {
	return e.Code/100 == 4 && e.Code != http.StatusTooManyRequests && e.Code != http.StatusRequestTimeout
}
