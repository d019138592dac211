package realworld_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
)

// A fate is what becomes of a request: a status code is the answer to a request that was not
// sent, and 0 sends the request.
type fate int

// lost sends the request, and loses the answer.
const lost fate = -1

var errLost = errors.New("the answer to the request is lost")

// faults are the transport of a controller. They count its writes, and decide their fates.
type faults struct {
	// fate decides about a request. Several goroutines call fate at a time.
	fate func(r *http.Request) fate

	succeeded, conflicts, failed atomic.Int64
}

func (f *faults) wrap(next http.RoundTripper) http.RoundTripper {
	// The clients of Fleets and of Deployments each have a transport. The counters are shared.
	return roundTripper(func(r *http.Request) (*http.Response, error) { return f.roundTrip(next, r) })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f *faults) roundTrip(next http.RoundTripper, r *http.Request) (response *http.Response, err error) {
	switch fate := f.fate(r); fate {
	case 0:
		response, err = next.RoundTrip(r)
	case lost:
		if response, err = next.RoundTrip(r); err == nil {
			_ = response.Body.Close()
			response, err = nil, errLost
		}
	default:
		if r.Body != nil {
			_ = r.Body.Close() // RoundTrip must close the body.
		}
		response = &http.Response{
			StatusCode: int(fate), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: make(http.Header), Body: http.NoBody, Request: r,
		}
	}
	if isWrite(r) {
		f.count(response, err)
	}
	return response, err
}

func (f *faults) count(response *http.Response, err error) {
	switch {
	case err != nil || response.StatusCode == http.StatusTooManyRequests || response.StatusCode >= http.StatusInternalServerError:
		f.failed.Add(1)
	case response.StatusCode == http.StatusConflict: // Also of a create of an object that exists.
		f.conflicts.Add(1)
	default:
		f.succeeded.Add(1)
	}
}

// isWrite reports whether the request is of a worker: informers only list and watch.
func isWrite(r *http.Request) bool { return r.Method != http.MethodGet }

// some lets 1 of 10 writes fail: half of these before, and half after the server has done them.
func some(r *http.Request) fate {
	if isWrite(r) {
		switch rand.IntN(20) {
		case 0:
			return http.StatusInternalServerError
		case 1:
			return lost
		}
	}
	return 0
}
