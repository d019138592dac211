package main

import (
	"bytes"
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"math"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/seed16c08ea7/workqueue"
	"github.com/seed16c08ea7/workqueue/debugpage"
)

// This file has the calls and pages of the second address, for operators.

// retry tries a failed or waiting job now. The failures of the job count from 0 again.
func (s *service) retry(w http.ResponseWriter, r *http.Request) {
	j, ok := parse(r.PathValue("job"))
	if !ok {
		http.NotFound(w, r)
		return
	}
	answer(w, j, s.step(j, s.again(j, retryPriority)))
}

// again is the change of a retry. The limiter forgets the job too, or its wait would be the later of the two. A single job
// goes before all others of its tenant: behind a backlog, now would be in an hour.
func (s *service) again(j job, priority int) change {
	return func(_ *bbolt.Tx, r *record) error {
		if r.State == unknown || r.State == done {
			return errUnknown
		}
		s.queueOf(j).Wake(j)
		s.queueOf(j).Forget(j)
		r.beginAnew()
		return s.enter(j, r, max(r.Priority, priority))
	}
}

// discard forgets an open or failed job, with its key: no try will help, or somebody has done the work by other means. A
// record that cannot be read goes too. A try that has begun goes on to its end. The queue forgets the job within the
// transaction: afterwards a client could have posted the job again, and the removal would take the new job away.
func (s *service) discard(w http.ResponseWriter, r *http.Request) {
	j, _ := parse(r.PathValue("job"))
	removed := false
	err := s.db.Update(func(tx *bbolt.Tx) error {
		key := []byte(j.String())
		for _, in := range []state{open, failed} {
			bucket := tx.Bucket([]byte(in))
			if text := bucket.Get(key); text != nil {
				slog.Warn("job discarded", "job", j, "state", in, "record", string(text))
				removed = in == open && s.queueOf(j).Remove(j)
				s.queueOf(j).Forget(j)
				return errors.Join(bucket.Delete(key), tx.Bucket(payloads).Delete(key))
			}
		}
		return errUnknown
	})
	if err != nil && removed { // On a full disk the job is still open, and nothing would try it before the next start.
		s.queueOf(j).Add(j)
	}
	answer(w, j, err)
}

// payload answers with the text that a client has posted, while the job is open or failed.
func (s *service) payload(w http.ResponseWriter, r *http.Request) {
	var payload []byte
	err := s.db.View(func(tx *bbolt.Tx) error {
		payload = bytes.Clone(tx.Bucket(payloads).Get([]byte(r.PathValue("job"))))
		return nil
	})
	if err != nil || payload == nil {
		http.Error(w, fmt.Sprint(cmp.Or(err, errUnknown)), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream") // A page of a client would run in the browser of the operator.
	_, _ = w.Write(payload)                                    // The client may be gone.
}

// retryFailed tries all failed jobs, or those with a text in their error.
func (s *service) retryFailed(w http.ResponseWriter, r *http.Request) {
	s.changeFailed(w, r, "jobs are tried again", func(j job) change { return s.again(j, 0) })
}

// discardFailed forgets all failed jobs, or those with a text in their error, with their keys.
func (s *service) discardFailed(w http.ResponseWriter, r *http.Request) {
	s.changeFailed(w, r, "jobs are discarded", func(j job) change {
		return func(_ *bbolt.Tx, r *record) error {
			slog.Warn("job discarded", "job", j, "err", r.Error)
			*r = record{}
			return nil
		}
	})
}

// changeFailed makes a change to each failed job, and says how many jobs were changed. A record that cannot be read stays:
// discard takes such a job by its name.
func (s *service) changeFailed(w http.ResponseWriter, r *http.Request, what string, c func(j job) change) {
	failures, err := s.failures("", math.MaxInt)
	var jobs []job
	for _, f := range failures {
		if f.State == failed && strings.Contains(f.Error, r.FormValue("error")) { // A record that cannot be read has no state.
			jobs = append(jobs, f.Job)
		}
	}
	err = errors.Join(err, s.steps(jobs, func(j job) change {
		return func(tx *bbolt.Tx, r *record) error {
			if r.State != failed { // Somebody else has changed the job since the look.
				return nil
			}
			return c(j)(tx, r)
		}
	}))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, len(jobs), what)
}

// backup answers with a copy of the database at one moment. The file grows while a client reads slowly, as the pages of
// the copy are not used again.
func (s *service) backup(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Disposition", `attachment; filename="jobs.db"`)
	err := s.db.View(func(tx *bbolt.Tx) error {
		w.Header().Set("Content-Length", fmt.Sprint(tx.Size())) // So that a client notices a copy that was cut short.
		_, err := tx.WriteTo(w)
		return err
	})
	if err != nil {
		slog.Error("a backup was cut short", "err", err)
	}
}

// show answers with the record of a job, and with the state and the wait that the queue knows.
func (s *service) show(w http.ResponseWriter, r *http.Request) {
	j, _ := parse(r.PathValue("job"))
	about := struct {
		State  state
		Record record
		Item   *workqueue.ItemInfo[job] `json:",omitempty"`
		Hold   hold
		Tenant time.Time `json:",omitzero"` // until when its tenant rests; in the year 9999 in a pause
	}{Hold: s.held(), Tenant: s.rests(j.Tenant)}
	err := s.db.View(func(tx *bbolt.Tx) (err error) {
		about.Record, err = load(tx, j)
		about.State = about.Record.State
		return err
	})
	if err != nil || about.State == unknown {
		http.Error(w, fmt.Sprint(cmp.Or(err, errUnknown)), http.StatusNotFound)
		return
	}
	if item, ok := s.queueOf(j).Find(j); ok {
		about.Item = &item
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(about) // The client may be gone.
}

var jobsPage = template.Must(template.New("jobs").Parse(`<!DOCTYPE html><title>Jobs</title>
<p>{{.Hold}} {{with .Paused}}Paused tenants: {{.}} {{end}}{{with .Resting}}Tenants whose receivers want a rest: {{.}} {{end}}<a href="/debug/workqueue/">What waits, and why</a></p>
<form method="post" action="/pause?on=true"><button>pause</button></form>
<form method="post" action="/pause?on=false"><button>go on</button></form>
<form method="post" action="/call-now"><button>forget the time of the receiver</button></form>
<form method="post" action="/wake"><button>end all waits</button></form>
<p>{{.Open}} jobs are open, and {{.Failed}} have failed.</p>
<form method="post" action="/retry-failed"><button>retry all</button></form>
{{range .Failures}}<form method="post" action="/jobs/{{.Job}}/retry"><button>retry</button> <button formaction="/jobs/{{.Job}}/discard">discard</button> {{.Job}} {{.Error}}</form>
{{end}}{{with .Next}}<a href="/jobs?after={{.}}">more</a>{{end}}`))

// overview is the first page for an operator: who holds all jobs back, and the failed jobs.
func (s *service) overview(w http.ResponseWriter, r *http.Request) {
	failures, err := s.failures(r.FormValue("after"), listed)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	about := struct {
		Hold     hold
		Paused   []string `json:",omitempty"` // tenants, by an operator
		Resting  []string `json:",omitempty"` // tenants, by their receiver
		Open     int
		Failed   int
		Failures []failure
		Next     string `json:",omitempty"` // the after of the next page
	}{Hold: s.held(), Paused: s.heldTenants(true), Resting: s.heldTenants(false), Open: s.count(open), Failed: s.count(failed), Failures: failures}
	if len(failures) == listed {
		about.Next = failures[listed-1].Job.String()
	}
	if r.FormValue("format") == "json" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(about) // The client may be gone.
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = jobsPage.Execute(w, about)
}

// wake ends the wait of a job, or of all jobs: after an outage the jobs are tried now, unless a hold keeps them back.
func (s *service) wake(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, s.wakeNow(r.FormValue("job")), "woken")
}

func (s *service) wakeNow(name string) (n int) {
	for _, q := range []*queue{s.paying, s.others} {
		n += q.WakeFunc(func(j job) bool { return name == "" || j.String() == name })
	}
	return n
}

// pause holds all jobs back, or those of a tenant, or lets them go.
func (s *service) pause(w http.ResponseWriter, r *http.Request) {
	on, err := strconv.ParseBool(r.FormValue("on"))
	if err != nil {
		http.Error(w, "want on=true or on=false", http.StatusBadRequest)
		return
	}
	if tenant := r.FormValue("tenant"); tenant != "" {
		if err := s.pauseTenant(tenant, on); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, "Paused tenants:", strings.Join(s.heldTenants(true), ", "))
		return
	}
	s.answerHold(w, func(h *hold) {
		switch {
		case !on:
			h.PausedAt = time.Time{}
		case !h.paused():
			h.PausedAt = time.Now()
		}
	})
}

// callNow forgets the time of the receiver, and ends the waits of the jobs, which may have heard the time: an operator
// knows better.
func (s *service) callNow(w http.ResponseWriter, _ *http.Request) {
	s.wakeNow("")
	s.answerHold(w, func(h *hold) { h.NotBefore = time.Time{} })
}

func (s *service) answerHold(w http.ResponseWriter, change func(h *hold)) {
	if err := s.changeHold(change); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintln(w, s.held())
}

// withError adds the last error to the name of a job, so that a search of the page finds all jobs of an error.
func (s *service) withError(text string) string {
	j, ok := parse(text)
	if !ok {
		return text // The name of a tenant.
	}
	_ = s.db.View(func(tx *bbolt.Tx) error { // The page is there after the database is closed.
		if r, err := load(tx, j); err == nil && r.Error != "" {
			text += fmt.Sprintf(", try %d: %s", r.Tries, r.Error)
		}
		return nil
	})
	return text
}

// admin has what only the inside may see.
func (s *service) admin(metrics http.Handler, password string) http.Handler {
	page := debugpage.New(debugpage.Options{Title: "service", Redact: s.withError})
	debugpage.Add(page, "paying", s.paying)
	debugpage.Add(page, "others", s.others)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if !s.ready.Load() {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
		}
	})
	guard := func(inner http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			user, given, _ := r.BasicAuth()
			if password == "" || user != "admin" || subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 0 {
				w.Header().Set("WWW-Authenticate", `Basic realm="workqueue"`)
				http.Error(w, "want a password", http.StatusUnauthorized)
				return
			}
			inner(w, r)
		}
	}
	mux.HandleFunc("/debug/workqueue/", guard(page.ServeHTTP))
	mux.HandleFunc("GET /jobs/{job}", guard(s.show))
	mux.HandleFunc("GET /jobs/{job}/payload", guard(s.payload))
	mux.HandleFunc("POST /jobs/{job}/discard", guard(s.discard))
	mux.HandleFunc("POST /jobs/{job}/retry", guard(s.retry))
	mux.HandleFunc("GET /jobs", guard(s.overview))
	mux.HandleFunc("POST /retry-failed", guard(s.retryFailed))
	mux.HandleFunc("POST /discard-failed", guard(s.discardFailed))
	mux.HandleFunc("GET /backup", guard(s.backup))
	mux.HandleFunc("POST /wake", guard(s.wake))
	mux.HandleFunc("POST /pause", guard(s.pause))
	mux.HandleFunc("POST /call-now", guard(s.callNow))
	mux.HandleFunc("/debug/pprof/", guard(pprof.Index)) // All but the CPU profile.
	mux.HandleFunc("/debug/pprof/profile", guard(pprof.Profile))
	return http.NewCrossOriginProtection().Handler(mux) // Browsers send the password for other sites too.
}
