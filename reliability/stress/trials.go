package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A trial is a run with some of the faults. A queue may fail with a fault, and still
// be tested with the others.
type trial struct {
	name string
	faults
}

var trials = []trial{
	{"no faults", faults{}},
	{"workers panic", faults{Workers: true}},
	{"drain", faults{Drain: true}},
	{"two drains", faults{Drain: true, Twice: true}},
	{"two shutdowns", faults{Twice: true}},
	{"spurious Done", faults{Spurious: true}},
	{"clock leaps", faults{Clock: true}},
	{"limiter fails", faults{Limiter: true}},
	{"storage fails", faults{Storage: true}},
}

// tryAll makes each trial in a process of its own, for an equal part of the
// time.
func tryAll(o *options) (rows []row) {
	for _, trial := range trials {
		t := try(o, trial.name, o.Duration/time.Duration(len(trials)))
		rows = append(rows, row{o.impl.name + ", " + trial.name, t})
	}
	return rows
}

// try starts a process and reads its tally. A process that dies is a violation. try
// kills a process that runs a minute too long, which is a violation too.
func try(o *options, name string, d time.Duration) *tally {
	cmd := exec.Command(os.Args[0], "-child", name, "-impl", o.impl.name, "-duration", d.String(),
		"-seed", strconv.FormatUint(o.Seed, 10), "-goroutines", strconv.Itoa(o.goroutines), "-patience", "2s")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	t := newTally()
	if err := cmd.Start(); err != nil {
		t.violation(died, "%v", err)
		return t
	}
	timer := time.AfterFunc(d+time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Wait()
	if json.Unmarshal(stdout.Bytes(), t) != nil {
		first, _, _ := strings.Cut(stderr.String(), "\n")
		t.violation(died, "%v: %s", err, first)
	}
	return t
}

// runTrial runs in the process of a trial, and prints the tally for try.
func runTrial(o *options, name string) {
	for _, trial := range trials {
		if trial.name == name {
			o.faults = trial.faults
			if err := json.NewEncoder(os.Stdout).Encode(stress(o)); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			return
		}
	}
	fmt.Fprintf(os.Stderr, "there is no trial %q\n", name)
	os.Exit(2)
}
