package main

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

// An event is a body to deliver to a URL.
type event struct {
	URL  string
	Body []byte
}

// An outbox has the events that are not delivered yet. A real program keeps them in a
// table of its database: the next start delivers the rest of the last run.
type outbox struct {
	client http.Client

	mu     sync.Mutex
	last   int
	events map[string]event
}

// newOutbox returns an empty outbox.
func newOutbox() *outbox {
	return &outbox{
		client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}},
		events: make(map[string]event),
	}
}

// put stores an event and returns its name.
func (o *outbox) put(e event) (id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	id = "event-" + strconv.Itoa(o.last)
	o.events[id] = e
	return id
}

// left returns the names of the events that are not delivered yet.
func (o *outbox) left() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.events))
}

// remove forgets an event after its delivery or its last attempt.
func (o *outbox) remove(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.events, id)
}

func (o *outbox) get(id string) (event, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	e, ok := o.events[id]
	return e, ok
}

// deliver makes an attempt, and removes the event after a success. Any answer but a
// success is a *statusError.
func (o *outbox) deliver(ctx context.Context, id string) error {
	e, ok := o.get(id)
	if !ok {
		return nil
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(e.Body))
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
		o.remove(id)
		return nil
	}
	seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
	return &statusError{Code: response.StatusCode, RetryAfter: time.Duration(seconds) * time.Second}
}

// A statusError is an answer other than a success.
type statusError struct {
	Code       int
	RetryAfter time.Duration // 0 if the receiver has not said
}

func (e *statusError) Error() string { return fmt.Sprintf("the receiver answered %d", e.Code) }

// permanent reports whether a retry is useless, because the request itself is refused.
func (e *statusError) permanent() bool {
	return e.Code/100 == 4 && e.Code != http.StatusTooManyRequests && e.Code != http.StatusRequestTimeout
}
