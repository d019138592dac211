package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// This file has the database: the records and the payloads of the jobs, and the steps that change them.

// A state of a job is the bucket of the database that has its record.
type state string

const (
	unknown state = ""       // never accepted, or done long ago
	open    state = "open"   // in a queue, or for the next start
	failed  state = "failed" // given up, until it is posted again or retried
	done    state = "done"   // remembered for clients who repeat a request
)

var states = []state{open, failed, done}

// The other buckets. Payloads are apart from the records, which each try writes.
var payloads, settings = []byte("payloads"), []byte("settings")

// A record is what the service knows of a job.
type record struct {
	State       state  `json:"-"` // the bucket
	Sum         []byte // of the payload
	ContentType string
	Priority    int
	Accepted    time.Time
	Tries       int       // that have begun, of all starts together
	Failures    int       // in a row, with those that are no tries: the backoff grows with each
	NextTry     time.Time `json:",omitzero"` // of an open job: the end of its wait, which only an operator ends before
	Error       string    // of the last try
	Done        time.Time `json:",omitzero"` // by the receiver
}

// beginAnew has the tries and the backoff begin anew.
func (r *record) beginAnew() { r.Tries, r.Failures, r.NextTry = 0, 0, time.Time{} }

// takeBack makes a try uncounted. The counts are 0 after a retry by hand.
func (r *record) takeBack() {
	r.Tries, r.Failures, r.NextTry = max(0, r.Tries-1), max(0, r.Failures-1), time.Time{}
}

// openDB opens the database. A second process would do each job a second time, and does not get the file. An existing
// file is only read here, so that the service starts on a full disk.
//
// The list of free pages is made at the start and not written with each step: after a backlog of large payloads the list
// is long, and each step would take twice as long for ever.
func openDB(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("open %s, which one process may use: %w", path, err)
	}
	db.MaxBatchDelay = time.Millisecond // Steps that come together are written together: a write waits for the disk.
	there := false
	err = db.View(func(tx *bbolt.Tx) error {
		there = tx.Bucket(settings) != nil
		return nil
	})
	if err == nil && !there {
		err = db.Update(func(tx *bbolt.Tx) (err error) {
			for _, bucket := range [][]byte{[]byte(open), []byte(failed), []byte(done), payloads, settings} {
				_, failure := tx.CreateBucketIfNotExists(bucket)
				err = errors.Join(err, failure)
			}
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// load returns the record of a job.
func load(tx *bbolt.Tx, j job) (r record, err error) {
	for _, r.State = range states {
		if text := tx.Bucket([]byte(r.State)).Get([]byte(j.String())); text != nil {
			return r, json.Unmarshal(text, &r)
		}
	}
	return record{}, nil
}

// A change is made to the record of a job, and to its state, in a step. All writers take turns, so the calls of a queue in
// a change belong to the step too; an error undoes the record and not the calls. Steps that come together are written
// together. If another of these steps fails, the change is called again, with the record as before.
type change func(tx *bbolt.Tx, r *record) error

// step changes a job in a transaction.
func (s *service) step(j job, c change) error {
	return s.db.Batch(func(tx *bbolt.Tx) error { return stepIn(tx, j, c) })
}

// steps changes many jobs, a thousand in a transaction.
func (s *service) steps(jobs []job, c func(j job) change) error {
	for some := range slices.Chunk(jobs, 1000) {
		err := s.db.Update(func(tx *bbolt.Tx) error {
			for _, j := range some {
				if err := stepIn(tx, j, c(j)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func stepIn(tx *bbolt.Tx, j job, c change) error {
	r, err := load(tx, j)
	if err != nil {
		return err
	}
	before := r.State
	if err := c(tx, &r); err != nil {
		return err
	}
	key := []byte(j.String())
	if before != unknown && before != r.State {
		err = tx.Bucket([]byte(before)).Delete(key)
	}
	if r.State == unknown || r.State == done {
		err = errors.Join(err, tx.Bucket(payloads).Delete(key))
	}
	if r.State == unknown {
		return err
	}
	text, unfit := json.Marshal(r)
	return errors.Join(err, unfit, tx.Bucket([]byte(r.State)).Put(key, text))
}

// setAside moves open jobs to the failed ones for an operator, as they are: a record that cannot be read goes too.
func (s *service) setAside(jobs []job) error {
	if len(jobs) == 0 {
		return nil // A start on a full disk writes nothing.
	}
	return s.db.Update(func(tx *bbolt.Tx) (err error) {
		for _, j := range jobs {
			key := []byte(j.String())
			text := bytes.Clone(tx.Bucket([]byte(open)).Get(key))
			err = errors.Join(err, tx.Bucket([]byte(failed)).Put(key, text), tx.Bucket([]byte(open)).Delete(key))
		}
		return err
	})
}

// forgetDone forgets the jobs that were done long ago, each hour until ctx ends. The workers go on meanwhile: 500,000 jobs
// take some ten seconds.
func (s *service) forgetDone(ctx context.Context) {
	hourly := time.NewTicker(time.Hour)
	defer hourly.Stop()
	for ctx.Err() == nil {
		var old []job
		err := s.db.View(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(done)).ForEach(func(key, _ []byte) error {
				j, _ := parse(string(key))
				if r, err := load(tx, j); err == nil && time.Since(r.Done) > s.keepDone {
					old = append(old, j)
				}
				return ctx.Err()
			})
		})
		for some := range slices.Chunk(old, 1000) {
			if err == nil && ctx.Err() == nil {
				err = s.steps(some, func(job) change { return func(_ *bbolt.Tx, r *record) error { *r = record{}; return nil } })
			}
		}
		if err != nil && ctx.Err() == nil {
			slog.Error("old jobs are not forgotten", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-hourly.C:
		}
	}
}

// count returns how many jobs are in a state.
func (s *service) count(in state) (n int) {
	err := s.db.View(func(tx *bbolt.Tx) error {
		n = tx.Bucket([]byte(in)).Stats().KeyN
		return nil
	})
	if err != nil {
		slog.Error("the jobs are not counted", "err", err)
	}
	return n
}

// A failure is a job that was given up.
type failure struct {
	Job job
	record
}

// failures returns the jobs that were given up, in the order of their names: those after a name, and at most so many.
func (s *service) failures(after string, most int) (some []failure, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		cursor := tx.Bucket([]byte(failed)).Cursor()
		for key, _ := cursor.Seek([]byte(after + "\x00")); key != nil && len(some) < most; key, _ = cursor.Next() {
			j, _ := parse(string(key))
			r, err := load(tx, j)
			if err != nil {
				r = record{Error: err.Error()}
			}
			some = append(some, failure{j, r})
		}
		return nil
	})
	return some, err
}
