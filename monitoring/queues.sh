#!/usr/bin/env bash
# queues.sh reads the metrics of a program twice, and prints a line for each of its queues: the letter of
# docs/operating.md to read, what the second reading has, and by how much the counts have grown.
#
#	monitoring/queues.sh localhost:8080/metrics [SECONDS]
#
# SECONDS is the time between the readings, 10 by default. Take more if an item takes longer. A queue without a
# letter works or has nothing to do.
set -euo pipefail
address=${1:?the address of the metrics, such as localhost:8080/metrics} seconds=${2:-10}

reading() {
	local metrics
	metrics=$(curl -sSf "$address")
	grep '^workqueue_.*[{,]name="' <<<"$metrics" || true # After a shutdown there may be none.
}

(reading; sleep "$seconds"; echo; reading) | awk -v seconds="$seconds" '
!NF { last = 1; next } # the empty line between the readings
{
	queue = $0; sub(/.*[{,]name="/, "", queue); sub(/".*/, "", queue)
	series = substr($0, 11); sub(/[{].*/, "", series) # without workqueue_
	if (series == "results_total") { run[queue] = 1; series = $0; sub(/.*result="/, "", series); sub(/".*/, "", series) }
	value[queue, series, last + 0] += $NF # The sum is over the label priority.
	if (!seen[queue]++) queues[++total] = queue
}
function was(series) { return value[q, series, 0] }
function is(series) { return value[q, series, 1] }
function grew(series) { return is(series) - was(series) }
function mean(sum, count) { return count ? sprintf("%.3g", sum / count) : "-" }
function letter() {
	if (!((q, "workers", 1) in value)) return "A" # It was shut down between the readings.
	if (is("depth") && !is("workers") && !was("workers")) return "B"
	if (bad && !good || bad > good && bad > seconds) return "C"
	if (is("longest_running_processor_seconds") > 60 && grew("longest_running_processor_seconds") > seconds / 2) return "D"
	if (was("oldest_item_age_seconds") >= 1 && is("oldest_item_age_seconds") >= 1) {
		older = grew("oldest_item_age_seconds") > seconds / 20
		if (older && grew("paced_seconds_total") > seconds / 2) return "E"
		if (older && was("in_flight") >= was("workers") && is("in_flight") >= is("workers")) return "F"
		if (was("in_flight") < was("workers") && is("in_flight") < is("workers") && grew("paced_seconds_total") <= seconds / 10) return "G"
	}
	if (is("waiting") && !is("depth") && !is("in_flight") && !grew("work_duration_seconds_count")) return "H"
	if (grew("adds_total") > seconds && grew("duplicates_total") >= grew("adds_total")) return "I"
	if (grew("given_up")) return "C"
	return "-"
}
END {
	if (!total) { print "there is no series of a queue" >"/dev/stderr"; exit 1 }
	row = "%-24s %-6s %7s %9s %7s %7s %8s %8s %8s %8s %7s %7s %7s %7s %7s %7s\n"
	printf row, "queue", "letter", "workers", "in flight", "depth", "waiting", "oldest", "longest", "work was", "is",
		"good", "failed", "adds", "dupl.", "limited", "paced"
	for (i = 1; i <= total; i++) {
		q = queues[i]
		good = grew("succeeded") + grew("requeued") + grew("readded") + grew("deferred")
		bad = grew("failed") + grew("given_up")
		if (!run[q]) { # A loop by hand. A wait of the limiter is counted before the item has ended.
			bad = grew("rate_limited_total")
			good = grew("work_duration_seconds_count") - bad
			if (good < 0) good = 0
		}
		answer = letter()
		printf row, q, answer, is("workers"), is("in_flight"), is("depth"), is("waiting"),
			sprintf("%.1f", is("oldest_item_age_seconds")), sprintf("%.1f", is("longest_running_processor_seconds")),
			mean(was("work_duration_seconds_sum"), was("work_duration_seconds_count")),
			mean(grew("work_duration_seconds_sum"), grew("work_duration_seconds_count")),
			good, bad, grew("adds_total"), grew("duplicates_total"), grew("rate_limited_total"), sprintf("%.1f", grew("paced_seconds_total"))
	}
	print "A queue that is missing here was shut down before, or has no name or no provider: see A."
}'
