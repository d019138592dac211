package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seed16c08ea7/workqueue"
)

// This file has the life of a job: accepted over HTTP or added at the start, tried, and in the end done or given up.

// A job is an item of a queue. Two jobs are the same if all fields are equal, so the priority and the payload are in
// the database.
type job struct{ Tenant, ID string }

func (j job) String() string { return j.Tenant + "." + j.ID }

func (j job) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

var name = regexp.MustCompile(`^[\w-]{1,64}\.[\w-]{1,64}$`)

// parse reads what String returns. ok is false for any other text.
func parse(text string) (j job, ok bool) {
	tenant, id, _ := strings.Cut(text, ".")
	return job{tenant, id}, name.MatchString(text)
}

var (
	errOtherPayload = errors.New("the key has another payload")
	errShuttingDown = errors.New("shutting down")
	errUnknown      = errors.New("no such job")
)

// accept stores a job before the answer: 202 means that the job is on the disk and in the queue. The
// tenant is in the path, and the client chooses the priority. If tenants are strangers, take the tenant
// from the credentials, and what its plan allows from your own data.
func (s *service) accept(w http.ResponseWriter, r *http.Request) {
	// A client without an answer sends the job again under the same key: both requests are one job, also after the job is
	// done. Another payload under the key is refused: a receiver that knows the key would drop the payload.
	key := strings.Trim(r.Header.Get("Idempotency-Key"), `"`)
	j, ok := parse(r.PathValue("tenant") + "." + cmp.Or(key, rand.Text()))
	priority, notNumber := strconv.Atoi(cmp.Or(r.URL.Query().Get("priority"), "0"))
	payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.maxPayload))
	if errors.As(err, new(*http.MaxBytesError)) {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	} else if !ok || notNumber != nil || priority < 0 || priority > 9 || err != nil || len(payload) == 0 {
		http.Error(w, "want a payload, a priority from 0 to 9, and a tenant and an Idempotency-Key of at most 64 letters, digits, - or _", http.StatusBadRequest)
		return
	}
	sum := sha256.Sum256(payload)
	answer(w, j, s.step(j, func(tx *bbolt.Tx, stored *record) error {
		switch {
		case stored.State == unknown:
			*stored = record{Sum: sum[:], ContentType: r.Header.Get("Content-Type"), Priority: priority, Accepted: time.Now()}
			if err := tx.Bucket(payloads).Put([]byte(j.String()), payload); err != nil {
				return err
			}
		case !bytes.Equal(stored.Sum, sum[:]):
			return errOtherPayload
		case stored.State == done, stored.State == failed && s.countEach:
			return nil
		}
		return s.enter(j, stored, priority)
	}))
}

// enter opens a job in its step, and queues the job. The tries of a failed job begin anew. A worker that gets the job at
// once waits for the end of the step. Do not ask ShuttingDown before the add: the end may begin in between. A queued
// job keeps the higher priority.
func (s *service) enter(j job, r *record, priority int) error {
	if s.queueOf(j).AddWith(workqueue.AddOptions{Priority: &priority}, j) == 0 {
		return errShuttingDown
	}
	if r.State != open {
		r.State = open
		r.beginAnew()
	}
	r.Priority = max(r.Priority, priority)
	return nil
}

// answer tells a client the end of a step. After 503 the client has to try again, as after a timeout.
func answer(w http.ResponseWriter, j job, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintln(w, j)
	case errors.Is(err, errOtherPayload):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, errUnknown):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, errShuttingDown):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		slog.Error("job not stored", "job", j, "err", err)
		http.Error(w, "cannot store the job", http.StatusInternalServerError)
	}
}

// resume adds the jobs of the last run, the oldest first, and goes on with its hold.
func (s *service) resume() error {
	type left struct {
		job
		record
	}
	var jobs []left
	var over []job
	killed := false
	err := s.db.View(func(tx *bbolt.Tx) error {
		s.resumeHold(tx.Bucket(settings).Get([]byte("hold")))
		paused := tx.Bucket(settings).Cursor()
		for key, _ := paused.Seek([]byte(pausedTenant)); strings.HasPrefix(string(key), pausedTenant); key, _ = paused.Next() {
			s.restTenant(strings.TrimPrefix(string(key), pausedTenant), pauseEnds)
		}
		return tx.Bucket([]byte(open)).ForEach(func(key, _ []byte) error {
			j, _ := parse(string(key))
			r, err := load(tx, j)
			killed = killed || strings.HasPrefix(r.Error, notEnded)
			switch {
			case err != nil: // Of another version of this program. The other jobs go on.
				slog.Error("a job has no record that can be read", "job", j, "err", err)
				over = append(over, j)
			case r.Tries >= s.maxAttempts: // A kill came during the last try, or before the job was given up.
				slog.Error("job given up", "job", j, "err", r.Error)
				over = append(over, j)
			default:
				jobs = append(jobs, left{j, r})
			}
			return nil
		})
	})
	if killed { // Maybe before a Retry-After was stored.
		s.probe()
	}
	if err := s.setAside(over); err != nil {
		slog.Error("the failed jobs are not among the failed ones before the next start", "err", err)
	}
	slices.SortStableFunc(jobs, func(a, b left) int { return a.Accepted.Compare(b.Accepted) })
	for _, l := range jobs {
		// Many starts would use up the tries without the wait, and with a whole wait at each start the job of a process
		// that starts often would never be tried. A clock that was set back makes no wait longer than it can be.
		rest := min(time.Until(l.NextTry), s.backoffAfter(l.Failures)+s.longestHold)
		s.queueOf(l.job).AddWith(workqueue.AddOptions{Priority: &l.Priority, After: rest, Firm: true}, l.job)
	}
	return err
}

// backoffAfter returns the wait after so many failures in a row. Each job has its own, with jitter: the default of
// controllers lets only ten retries a second through, so the last of 200 jobs that fail together would wait for 10 s.
func (p policy) backoffAfter(failures int) (wait time.Duration) {
	limiter := workqueue.NewTypedItemBackoffRateLimiter[job](p.backoff)
	for range failures {
		wait = limiter.When(job{})
	}
	return wait
}

// notEnded comes before the error of a try while the next try is at work, and for ever if a kill ends it.
const notEnded = "the last try has not ended"

// begin counts a try before its work. A count after the work, or the MaxAttempts of Run, which counts in memory, would
// forget the try that ends the process: such a job would end it after each start, for ever.
func (s *service) begin(j job) (payload []byte, before record, err error) {
	err = s.step(j, func(tx *bbolt.Tx, r *record) error {
		if r.State != open {
			return errUnknown
		} else if r.Tries >= s.maxAttempts {
			return workqueue.Permanent(errors.New(r.Error))
		}
		before = *r
		r.Tries++
		r.Failures++ // A kill ends the try without a word, and the next start goes on with this wait.
		r.NextTry = time.Now().Add(s.backoffAfter(r.Failures))
		if r.Error == "" {
			r.Error = notEnded
		} else if !strings.HasPrefix(r.Error, notEnded) {
			r.Error = notEnded + "; before: " + r.Error
		}
		payload = bytes.Clone(tx.Bucket(payloads).Get([]byte(j.String())))
		return nil
	})
	return payload, before, err
}

// do is the handler of the queues. Its error decides when the job is tried again. The last try is permanent: a try that
// an event or an operator brings counts too, and so does one during which the process is killed.
func (s *service) do(ctx context.Context, j job) error {
	payload, before, err := s.begin(j)
	if errors.Is(err, errUnknown) {
		return nil // Discarded, or posted again in its last try, which was a success.
	} else if err != nil {
		return err
	}
	held := s.held()
	if rest := held.rest(); rest > 0 { // A hold has begun since the hand-out: this is no try.
		err := s.step(j, func(_ *bbolt.Tx, r *record) error {
			r.Error = before.Error
			r.takeBack()
			return nil
		})
		return errors.Join(err, workqueue.DeferFor(rest))
	}
	err = s.try(ctx, j, before.ContentType, payload)
	if held.Probing > 0 {
		s.heard(held, err)
	}
	return s.end(ctx, j, before, err)
}

// end stores what has become of a try, and returns what Run makes of it. The backoff is in the record and not in the
// limiter alone, which counts in memory, and does not count a try that a wake brings early: some wakes in an outage would
// use up the tries without the long waits. Of the two waits the later counts.
func (s *service) end(ctx context.Context, j job, before record, err error) error {
	verdict := workqueue.VerdictOf(err)
	cut := ctx.Err() == context.Canceled // By the end of the grace, which has as many tries at work as there are workers.
	var wait time.Duration
	notStored := s.step(j, func(_ *bbolt.Tx, r *record) error {
		if !r.Accepted.Equal(before.Accepted) { // Discarded meanwhile, and maybe posted again with another payload.
			return nil
		}
		if err == nil {
			r.State, r.Error, r.Done, r.Failures, r.NextTry = done, "", time.Now(), 0, time.Time{}
			return nil
		}
		r.Error = err.Error()
		// Both: a job that always hears of a rest would come first after each rest, and begin the next one for all others.
		wait = verdict.After + s.backoffAfter(r.Failures)
		r.NextTry = time.Now().Add(wait)
		switch {
		case s.countEach:
		case cut:
			r.takeBack()
		case verdict.Timed: // An outage of such answers gives no job up.
			r.Tries = max(0, r.Tries-1)
		}
		return nil
	})
	switch {
	case notStored != nil:
		return errors.Join(err, notStored)
	case err == nil || verdict.Outcome == workqueue.OutcomeGivenUp:
		return err
	case before.Tries+1 == s.maxAttempts && (s.countEach || !cut && !verdict.Timed):
		return workqueue.Permanent(err)
	default:
		return errors.Join(errors.New(err.Error()), workqueue.DeferFor(wait)) // The text alone: the error may name another time.
	}
}

// try makes an error of a panic: the last one is the reason why the job is given up.
func (s *service) try(ctx context.Context, j job, contentType string, payload []byte) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &workqueue.PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return s.deliver(ctx, j, contentType, payload)
}

// deliver is the work. Its error says whether the job is tried again.
func (s *service) deliver(ctx context.Context, j job, contentType string, payload []byte) error {
	// A reader that the client knows could be read again: on a broken connection the client would send a request with
	// an Idempotency-Key several times, and each would be one try here.
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.ReplaceAll(s.target, "{tenant}", j.Tenant), io.NopCloser(bytes.NewReader(payload)))
	if err != nil {
		return err // Of the target, and not of the job.
	}
	request.ContentLength = int64(len(payload))
	request.Header.Set("Idempotency-Key", j.String())
	request.Header.Set("Content-Type", contentType)
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	code, wait := response.StatusCode, time.Duration(0)
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		if wait = min(retryAfter(response.Header), s.longestHold); wait > 0 {
			s.notBefore(j.Tenant, time.Now().Add(wait)) // Before the body, which can take long.
		}
	}
	body, _ := io.ReadAll(io.LimitReader(response.Body, 1<<16)) // To its end, so that the connection is used again.
	if code/100 == 2 {
		return nil
	}
	err = errors.New(strings.Join(strings.Fields(response.Status+" "+strings.ToValidUTF8(string(body[:min(len(body), 300)]), "")), " "))
	switch {
	case wait > 0:
		return workqueue.RetryAfter(wait, err)
	case isFinal(code):
		return workqueue.Permanent(err)
	}
	return err
}

// isFinal reports whether an answer is about the job, so that no other try will help. A 401 or a 404 is about the
// receiver, and would give up the whole backlog. A 409 can mean that the receiver is still at the last try.
func isFinal(code int) bool {
	return slices.Contains([]int{400, 410, 413, 415, 422}, code)
}

// retryAfter returns the seconds or the time of the header, or none above 0.
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(max(0, min(seconds, 1e9))) * time.Second
	}
	at, _ := http.ParseTime(value)
	if now, err := http.ParseTime(h.Get("Date")); err == nil { // By the clock of the receiver.
		return at.Sub(now)
	}
	return time.Until(at) // Negative for the zero time.
}

// giveUp leaves a job to an operator. A job that was retried or posted again during its last try is tried again.
func (s *service) giveUp(_ context.Context, j job, failure error) {
	slog.Error("job given up", "job", j, "err", failure)
	err := s.step(j, func(_ *bbolt.Tx, r *record) error {
		r.Error = failure.Error()
		info, _ := s.queueOf(j).Find(j)
		switch again, retried := info.State == workqueue.ItemInFlightAgain, r.Tries == 0; {
		case r.State == unknown, retried && again:
		case again && !s.countEach:
			r.beginAnew()
		default:
			r.State, r.NextTry = failed, time.Time{}
		}
		return nil
	})
	if err != nil {
		slog.Error("the job is given up once more in a minute", "job", j, "err", err)
		s.queueOf(j).AddWith(workqueue.AddOptions{After: time.Minute, Firm: true}, j)
	}
}
