# `make run` is the command of the README, and `make test` has all tests. `make help` lists
# the others: it prints what stands behind ## at each target. Durations there are of
# two cores, with a filled build cache.

MODULES     := . compat ctrlqueue examples integration otel reliability sharding
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOCYCLO     := github.com/fzipp/gocyclo/cmd/gocyclo@v0.6.0
GOCOGNIT    := github.com/uudashr/gocognit/cmd/gocognit@v1.3.0
RUNS        := 40000
HISTORIES   := 1000000
ROUNDS      := 20000
DURATION    := 60s
CHECKS      := api,licences,builds,proxy
RACED       := ctrlqueue examples integration otel sharding

# Tests of reliability, and of the root, that run without the race detector only: they have one goroutine, or compile
# the same program both times. NoGoroutineIsLeft sees less with the detector.
BUBBLES     := HotItemIsPaced|PaceOfAMillion|BoundsOfTheOrder|NoGoroutineIsLeft
BUILDS      := PageDoesNotKeepMethods

# The ten minutes that go test gives the tests of a package are not much more than what
# those of compat/swap take on two cores that have other work.
HANGS       := -timeout 1h
FLAGS       := $(HANGS) -vet=off -shuffle=on

# A program with the race detector sleeps for a second before it ends, for reports that are being printed.
export GORACE ?= atexit_sleep_ms=100

.PHONY: all help quick run test race-root race-reliability race-compat $(RACED:%=race-%) plain lint vet tidy cyclo prose test-swap test-386 fuzz bench bench-smoke slower pictures cover scale integration page apiserver apiserver-test realworld simulate linearizability ends stress soak mutate explore planted night minimums release-check swap-programs

all: lint test ## the linters and all tests

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## /\1	/p' $(MAKEFILE_LIST) | while IFS='	' read -r target what; do \
		printf '%-16s %s\n' "$$target" "$$what"; done

# What to run while editing. The race detector and the other modules are left to
# `make test`.
quick: ## vet and the root tests without the race detector; under 30 s on an idle machine
	go vet ./...
	go test -vet=off -shuffle=on ./...

# `go list` fetches the modules without a line for each of them. What it cannot
# fetch, `go run` tries again, and says why.
run: ## a controller at work, until all its objects have converged
	@echo 'Fetching the modules of examples/controller: some 30 MB the first time.'
	@go list -C examples -deps ./controller >/dev/null 2>&1 || true
	@echo 'Building it: less than a minute on two idle cores the first time, a second from then on.'
	@go run -C examples ./controller

# Every test of every module but those of the command swap, which build programs and ask the
# module proxy for minutes. The modules are tested two at a time: a linker, and a test that waits, leaves a
# core idle. go vet is a part of `make lint`, with more analyzers than go test has. The packages named
# envtest and realworld need a kube-apiserver: only `make apiserver-test` and `make realworld` link them.
test: ## every test of every module, with the race detector; 1.5 minutes, and 4 with the compiling after a change of the root
	@$(MAKE) --no-print-directory -j2 race-reliability race-root race-compat $(RACED:%=race-%) plain

$(RACED:%=race-%): race-%:
	go test -C $* $(FLAGS) -race $$(go list -C $* ./... | grep -vE '/(envtest|realworld)$$')

race-root:
	go test $(FLAGS) -race -skip '$(BUILDS)' ./...

race-reliability:
	go test -C reliability $(FLAGS) -race -skip '$(BUBBLES)' $$(go list -C reliability ./... | grep -v /planted$$)

race-compat:
	go test -C compat $(FLAGS) -race $$(go list -C compat ./... | grep -vE '/compat/(swap|pictures|bench/report)')

# The root suite runs a second time without the race detector, under which the budgets for memory and
# allocations mean nothing. What follows has one goroutine, or plays more without the detector.
plain:
	go test $(FLAGS) ./...
	go test $(FLAGS) -tags explore ./internal/explore
	go test -C compat $(FLAGS) ./pictures ./bench/report
	go test -C reliability $(FLAGS) -run '$(BUBBLES)' .
	go test -C reliability $(FLAGS) ./planted

# The command runs in processes of its own, which the race detector does not see.
test-swap: ## the command swap on programs that it makes; 4 to 7 minutes
	go test -C compat $(HANGS) -shuffle=on ./swap/...

lint: vet tidy cyclo ## gofmt, vet, staticcheck, go mod tidy, bounds on functions, no linkname; 1 to 2 minutes
	@test -z "$$(gofmt -l .)" || { echo 'not gofmt-ed:'; gofmt -l .; exit 1; }
	@! grep -rn '^//go:linkname' --include='*.go' . || { echo 'nothing here reaches for what others do not export'; exit 1; }
	@! go list -deps . | grep -E '^k8s.io/(client-go|apimachinery|klog)' || { echo 'the library must not depend on these'; exit 1; }
	go build -tags workqueue_noprometheus . ./wait ./debugpage ./workqueuetest
	@! go list -deps -tags workqueue_noprometheus . | grep prometheus || { echo 'the build tag must leave Prometheus out'; exit 1; }

vet: ## go vet and staticcheck in all modules
	go vet -tags explore . ./internal/... && go run $(STATICCHECK) -tags explore -checks all,-ST1000 . ./internal/...
	@for m in $(MODULES); do (cd $$m && go vet ./... && go run $(STATICCHECK) -checks all,-ST1000 ./...) || exit 1; done

tidy: ## fail if a go.mod is not tidy
	@for m in $(MODULES); do go -C $$m mod tidy -diff || exit 1; done

# Functions of the library fit a screen; tests may be longer.
cyclo: ## fail if a function of the library is too complex
	@go run $(GOCYCLO) -over 15 -ignore _test.go .
	@go run $(GOCOGNIT) -over 20 -ignore _test.go .

# Words such as "it", "that" and "one" make sentences short and unclear. Models have 2.4 to 5.3
# of them in 100 words of comment. The count shows where to read again, and fails nothing.
# `make prose FILES=500` prints all files.
POINTING := it|that|this|these|those|they|what|one|such
FILES    := 20

prose: ## words that point, of 100 in comments and on pages: the worst files, then sources, tests and pages
	@for f in $$(git ls-files '*.go' '*.md'); do \
		case $$f in *.go) grep -oE '//.*' $$f ;; *) awk '/^ *```/ { code = !code; next } !code && !/^    /' $$f ;; esac | \
		tr -cs "A-Za-z'" '\n' | tr A-Z a-z | \
		awk -v f=$$f 'NF { n++ } /^($(POINTING))$$/ { k++ } END { print k+0, n+0, f }'; \
	done >.prose
	@awk '$$2 > 100 { printf "%4.1f  %s\n", 100*$$1/$$2, $$3 }' .prose | sort -rn | head -$(FILES)
	@awk '{ g = $$3 ~ /_test.go$$/ ? "tests" : $$3 ~ /.md$$/ ? "pages" : "sources"; k[g] += $$1; n[g] += $$2; k["all"] += $$1; n["all"] += $$2 } \
		END { for (g in n) printf "%4.1f  %s\n", 100*k[g]/n[g], g }' .prose | sort -k2; rm -f .prose

# Every program that uses the library is lifted to what its go.mod requires.
minimums: ## the root tests with the lowest Go and modules, and with the newest; 2 minutes
	.ci/minimums

# Changes nothing. Compares with the last tag v*, and says so if there is none.
release-check: ## API, licences, other systems, and the modules from a proxy; up to 6 minutes the first time
	.ci/release $(CHECKS)

# Their own tests before and after the swap, with the guard test of docs/migrating.md, and a program with all names
# of each release of client-go. Fetches them.
swap-programs: ## real programs, swapped; 8 minutes, and longer the first time
	go run -C compat ./swap/real

# The positions in the line and the heap are 32 bits wide, an int is not always. Some
# kernels of 64 bits run no program of 32: there the tests are built and not run, and the
# output says so.
test-386: ## the root tests with an int of 32 bits; 13 s
	GOARCH=386 go vet ./...
	@if GOARCH=386 go test -run '^$$' ./wait 2>&1 | grep -q 'exec format error'; then \
		echo 'This machine runs no program of 32 bits. The tests are built only.'; \
		GOARCH=386 go test -exec true ./...; \
	else \
		GOARCH=386 go test $(HANGS) -short -shuffle=on ./...; fi

# Counts the inputs: up to Go 1.26 a fuzz target that is given a time fails now
# and then at its end (golang/go#75804). That of compat, which plays every input
# on two implementations, takes ten times as long for each.
fuzz: ## each fuzz target for RUNS inputs; 6 minutes
	@for p in . ./wait ./internal/agenda; do for t in $$(go test -list '^Fuzz' $$p | grep ^Fuzz); do \
		go test -run '^$$' -fuzz "^$$t$$" -fuzztime $(RUNS)x -fuzzminimizetime 10x $$p || exit 1; done; done
	go test -C compat -run '^$$' -fuzz '^FuzzDifferential$$' -fuzztime $$(($(RUNS) / 10))x -fuzzminimizetime 10x .

# The long form of what `make test` does with 9,000 histories.
linearizability: ## HISTORIES concurrent histories against the specification; long
	go test -C reliability -timeout 24h -v -run Linearizable ./linearizability -histories $(HISTORIES)

# The end of a hand-out, the end of Run, a RemoveFunc and a Barrier at the same moment. `make test` plays
# 300 rounds. Runs that end together play ten times as many.
ends: ## ROUNDS of each program in which several goroutines end a hand-out; 3 minutes
	go test -C reliability -count=1 $(HANGS) -v -run 'RemoveFunc|BarrierAndEachEnd|OneRunSucceeds|NothingIsLost' . -rounds $(ROUNDS)

# All methods from 32 goroutines, with faults, and accounts of what comes of it.
stress: ## all methods at once, with faults, for DURATION
	go run -C reliability -race ./stress -duration $(DURATION)

# One round that lasts, on a queue with all features.
soak: DURATION = 10m
soak: ## stress without a failure of foreign code, for DURATION; fails if memory or goroutines grow
	go run -C reliability ./stress -soak -duration $(DURATION)

# Measures against client-go for some minutes and fills BENCHMARKS.md. With ROWS, such as Run/, it
# fills the tables of which all rows match.
bench: ## measure against client-go: BENCHMARKS.md and its picture; 20 minutes
	go run -C compat ./bench/report -run '$(ROWS)' -page ../BENCHMARKS.md
	go run -C compat ./pictures

# Marks the rows that are slower, and fails for none: a busy machine is slower, too.
BASE := @bench/base
slower: ## each row beside the commit BASE, each program in 3 layouts; ROWS are the rows
	go run -C compat ./bench/report -base $(BASE) -benchtime 50ms -rounds 15 -run '$(ROWS)'

pictures: ## draw the plots of docs and examples from the tables of the pages; 10 s
	go run -C compat ./pictures

# 1k to 10M items, 1 to 10,000 workers, 1 to 100,000 queues and names. Takes 3 GB of memory.
scale: ## how cost grows: the tables and the picture of one process in docs/scaling.md; 10 minutes
	go run -C compat ./bench/report -scale -benchtime 100ms
	go run -C compat ./pictures

bench-smoke: ## one short run of each benchmark, to see that it works; 16 s
	go run -C compat ./bench/report -smoke

# Takes the programs from the PATH, or else downloads and unpacks the Debian package
# prometheus; nothing is installed.
integration: ## alert rules against promtool, and series and dashboard against a real Prometheus; 4 min
	go run -C integration ./prometheus ..

# Takes Chromium from the PATH, or else downloads and unpacks the Debian package.
page: ## the page of debugpage in a real browser, against the queue; 30 s
	go run -C integration ./page ..

# kube-apiserver and etcd, built from Go modules, once for each user. They are started
# on loopback by what needs them, and end with it.
apiserver: ## build kube-apiserver and etcd into the cache; 4 to 7 minutes, once
	go run -C integration ./apiserver

# A reconciler that reads its own writes. Replicas that share 2,000 objects, and are killed, stopped and
# cut off. Managers on either queue are in realworld.
apiserver-test: ## a real kube-apiserver: reads of own writes, and replicas; 2 minutes
	dir=$$(go run -C integration ./apiserver) && \
		KUBEBUILDER_ASSETS=$$dir go test -C ctrlqueue -v -count=1 -timeout 30m ./envtest && \
		KUBEBUILDER_ASSETS=$$dir go test -C sharding -v -count=1 -timeout 30m ./envtest

# The short form has the race detector, the long form writes the table of docs/realworld.md.
realworld: ## scenarios on a real kube-apiserver, on both queues; SHORT=1 for fewer objects
	dir=$$(go run -C integration ./apiserver) && \
		KUBEBUILDER_ASSETS=$$dir go test -C integration -v -count=1 $(HANGS) $(if $(SHORT),-race -short) ./realworld \
			$(if $(SHORT),,-page ../../docs/realworld.md)

# 100 replicas, 1,024 slots and 10,000,000 keys: the table and the picture of docs/scaling.md.
simulate: ## replicas that share their keys, under virtual time; 3 minutes
	go test -C sharding -v -count=1 -timeout 1h -run '^TestSimulation$$' . -long -csv $(CURDIR)/samples.csv
	go run -C compat ./pictures -samples $(CURDIR)/samples.csv && rm samples.csv

cover: ## coverage of the root module, by function
	go test -covermode=atomic -coverprofile=cover.out .
	go tool cover -func=cover.out

# Changes the library in one place after the other, for about an hour. Fails if more of a file goes
# unnoticed than reliability/mutate/living.txt says.
mutate: ## change the library in one place after the other; an hour
	go run -C reliability ./mutate
	go run -C reliability ./mutate -dir ../wait
	for p in agenda fifo gate histogram registry spread; do \
		go run -C reliability ./mutate -dir ../internal/$$p -also .. || exit 1; done

# internal/explore/doc.go says what is played and checked. make test plays the programs of a Typed.
explore: ## every interleaving of small programs, against the contract; 10 minutes
	go test -count=1 $(HANGS) -tags explore ./internal/explore -v -long

# Each bug is an edit, and has a test that must notice it: see reliability/planted/faults.
planted: ## plant known bugs in the library, one after the other; 10 minutes
	go run -C reliability ./planted

# `make -k night` goes on after a failure.
night: RUNS = 100000
night: HISTORIES = 300000
night: DURATION = 10m
night: minimums release-check test-swap swap-programs fuzz stress soak explore planted linearizability ends simulate apiserver-test realworld slower mutate ## what takes longer than CI; 3 hours
	go test $(HANGS) -count=3 -run '^TestModel' .
	go test -C examples $(HANGS) -count=8 -run '^TestKilledUnderLoad$$' ./service
