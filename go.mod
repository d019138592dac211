module github.com/seed16c08ea7/workqueue

// What is required here is lifted in every program that uses the library. So each
// line is the lowest that the code needs, or that all programs have which were
// looked at, and its reason names the version. A higher one needs a new reason.

// 1.25: WaitGroup.Go, and testing/synctest in the tests
go 1.25

require (
	// v1.4.2: as client-go v0.31 to v0.34
	github.com/go-logr/logr v1.4.2
	// v1.23.2: constant native histograms came with v1.22; v1.25.0 changes
	// api/prometheus/v1 and stops volcano from compiling
	github.com/prometheus/client_golang v1.23.2
	// v0.6.2: as client_golang v1.23.2
	github.com/prometheus/client_model v0.6.2
	// v0.9.0: as client-go v0.33 to v0.35
	golang.org/x/time v0.9.0
	// v0.0.0-20251002143259-bc988d571ff4: as client-go v0.35
	k8s.io/utils v0.0.0-20251002143259-bc988d571ff4
)

// What client_golang v1.23.2 requires, and its tests.
require (
	github.com/beorn7/perks v1.0.1 // indirect; v1.0.1: by client_golang
	github.com/cespare/xxhash/v2 v2.3.0 // indirect; v2.3.0: by client_golang
	github.com/kr/text v0.2.0 // indirect; v0.2.0: by tests of yaml
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect; v0.0.0-20191010083416-a7dc8b61c822: by prometheus/common
	github.com/prometheus/common v0.66.1 // indirect; v0.66.1: by client_golang
	github.com/prometheus/procfs v0.16.1 // indirect; v0.16.1: by client_golang
	go.yaml.in/yaml/v2 v2.4.2 // indirect; v2.4.2: by prometheus/common
	golang.org/x/sys v0.35.0 // indirect; v0.35.0: by client_golang
	google.golang.org/protobuf v1.36.8 // indirect; v1.36.8: by client_golang
)
