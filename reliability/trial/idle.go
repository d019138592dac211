package trial

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// awaitIdle waits until the processes of a group have done nothing for the time limit,
// and reports false if stop was closed before. A thread that waits for a processor counts
// as busy, so other programs on the machine make no difference. Only Linux tells the states of threads.
func awaitIdle(group int, limit time.Duration, stop <-chan struct{}) bool {
	const pause = 100 * time.Millisecond
	if runtime.GOOS != "linux" {
		<-stop
		return false
	}
	var used uint64
	for since := time.Duration(0); since < limit; since += pause {
		select {
		case <-stop:
			return false
		case <-time.After(pause):
		}
		if now, runnable := activity(group); runnable || now > used+1 {
			used, since = now, 0
		}
	}
	return true
}

// activity returns the processor time of a group in ticks, mostly of 10 ms, and whether
// anyRuns holds for a process of the group.
func activity(group int) (used uint64, runnable bool) {
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		stat := readStat(process)
		if len(stat) < 13 || stat[2] != strconv.Itoa(group) {
			continue
		}
		for _, field := range stat[11:13] {
			ticks, _ := strconv.ParseUint(field, 10, 64)
			used += ticks
		}
		runnable = runnable || anyRuns(process)
	}
	return used, runnable
}

// anyRuns reports whether a thread of the process runs, or waits for a processor or a disk.
func anyRuns(process string) bool {
	threads, _ := filepath.Glob(process + "/task/*")
	return slices.ContainsFunc(threads, func(thread string) bool {
		stat := readStat(thread)
		return len(stat) > 0 && (stat[0] == "R" || stat[0] == "D")
	})
}

// readStat returns the fields of a stat file that follow the name of the program: the
// state, the parent, the group, and so on. Without the process there are no fields.
func readStat(dir string) []string {
	text, _ := os.ReadFile(filepath.Join(dir, "stat"))
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}
