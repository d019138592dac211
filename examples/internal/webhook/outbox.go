// Package webhook is the common part of the webhook programs. It takes events over HTTP,
// and delivers an event to its URL. The retries are up to each program.
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

// An Event is a body to deliver to a URL.
type Event struct {
	URL  string
	Body []byte
}

// An Outbox has the events that are not delivered yet. A real program keeps them in a
// table of its database: the next start delivers the rest of the last run.
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

// Left returns the names of the events that are not delivered yet.
func (o *Outbox) Left() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.events))
}

// Remove forgets an event after its delivery or its last attempt.
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

// Deliver makes an attempt, and removes the event after a success. Any answer but a
// success is a *[StatusError].
func (o *Outbox) Deliver(ctx context.Context, id string) error {
	event, ok := o.get(id)
	if !ok {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, event.URL, bytes.NewReader(event.Body))
	if err != nil {
		return err
	}
	// If an answer is lost, the receiver gets the event again, and recognizes the key.
	request.Header.Set("Idempotency-Key", id)
	response, err := o.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // Otherwise the connection cannot be used again.
	if response.StatusCode/100 == 2 {
		o.Remove(id)
		return nil
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return &StatusError{Code: response.StatusCode, RetryAfter: time.Duration(seconds) * time.Second}
}

// A StatusError is an answer other than a success.
type StatusError struct {
	Code       int
	RetryAfter time.Duration // 0 if the receiver has not said
}

func (e *StatusError) Error() string { return fmt.Sprintf("the receiver answered %d", e.Code) }

// Permanent reports whether a retry is useless, because the request itself is refused.
func (e *StatusError) Permanent() bool {
	return e.Code/100 == 4 && e.Code != http.StatusTooManyRequests && e.Code != http.StatusRequestTimeout
}
