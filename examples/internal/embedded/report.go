package embedded

import (
	"errors"
	"fmt"
	"io"
	"time"
)

// report is the result of a run.
type report struct {
	events   eventCounts
	counts   counts
	injected int // writes of the controller that failed on purpose
	refused  int // writes that failed for another reason, mostly a conflict
	atStop   int // items queued when the controller was told to stop
	left     int // items queued when the controller ended
	verdict  verdict
}

// print writes the numbers, and the names without the right mirror.
func (r *report) print(out io.Writer) {
	e, c := r.events, r.counts
	fmt.Fprintf(out, `
cluster  %d ConfigMaps created, %d changes to them, %d deleted
         %d Secrets changed or deleted behind the controller's back
writes   %d of the controller failed on purpose, %d because the object had just changed
queue    %d adds of a key, one for each event that the controller saw
         %d more after a failure, to retry
         %d hand-outs of a key to a worker were enough for all of them:
         the other %d (%d%%) found their key in the queue, which holds it once
         %d times a key was added while a worker held it; it was handed out again after that
         %d times two workers held the same key
backoff  a key failed up to %d times in a row; the longest wait for a retry was %v
drain    %d keys were queued when the controller was told to stop, %d when it ended
result   %d ConfigMaps ask for a Secret, %d Secrets of the controller exist
`,
		e.creates, e.updates, e.deletes, e.spoilt,
		r.injected, r.refused,
		c.adds, c.retries, c.handOuts,
		c.merged(), c.merged()*100/max(1, c.adds+c.retries),
		c.readds, c.overlaps,
		c.attempts, c.backoff.Round(time.Millisecond),
		r.atStop, r.left,
		r.verdict.sources, r.verdict.mirrors)
	for _, problem := range r.verdict.problems {
		fmt.Fprintln(out, "        ", problem)
	}
}

// judge prints the verdict. It returns an error if a name did not converge or two workers
// held the same key. err is the reason if the run was cut short.
func (r *report) judge(out io.Writer, err error) error {
	if n := r.counts.overlaps; n > 0 {
		err = errors.Join(err, fmt.Errorf("%d times two workers held the same key", n))
	}
	if n := len(r.verdict.problems); n > 0 {
		fmt.Fprintf(out, "NOT CONVERGED: %d names differ; -v logs what led to it\n", n)
		return errors.Join(fmt.Errorf("%d names did not converge", n), err)
	}
	if err != nil {
		fmt.Fprintln(out, "FAILED: what was done until the error converged")
		return err
	}
	fmt.Fprintf(out, "CONVERGED: each of the %d ConfigMaps equals its Secret, and no Secret is left over\n", r.verdict.sources)
	return nil
}
