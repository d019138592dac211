package ctrlqueue

import (
	"fmt"
	"reflect"
	"sync"

	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// providers has the provider for each value of metrics.Registry so far: a program may replace
// the registry, and put it back. Collectors stay registered.
//
// A registry that cannot be compared, such as a struct with a slice, is known by its type: a
// program does not make two registries of the type.
var providers = struct {
	mu  sync.Mutex
	all map[any]workqueue.MetricsProvider // guarded by mu
}{all: make(map[any]workqueue.MetricsProvider)}

// metricsProvider returns the provider for the current registry of controller-runtime.
func metricsProvider() workqueue.MetricsProvider {
	providers.mu.Lock()
	defer providers.mu.Unlock()
	var key any = metrics.Registry
	if v := reflect.ValueOf(key); v.IsValid() && !v.Comparable() {
		key = v.Type()
	}
	p := providers.all[key]
	if p == nil {
		p = newProvider(metrics.Registry)
		providers.all[key] = p
	}
	return p
}

// newProvider returns a provider that shows queues in the registry, in the series of
// controller-runtime and in our own. If this version of controller-runtime has other help
// texts, queues call controller-runtime's own provider. The seven series are right then,
// apart from the priority, and ours are missing.
func newProvider(r metrics.RegistererGatherer) (p workqueue.MetricsProvider) {
	defer func() {
		if reason := recover(); reason != nil {
			log.Log.WithName("workqueue").Info("The metrics of this version of controller-runtime are not known. "+
				"The depth of queues has no priority, and only the series of Kubernetes are shown.", "reason", fmt.Sprint(reason))
			p = workqueue.AdaptMetricsProvider(theirProvider())
		}
	}()
	return workqueue.NewPrometheusProvider(r, workqueue.PrometheusOptions{})
}

// theirProvider returns the provider of controller-runtime, whose type is internal.
// New has it as the default of an option. A queue without a name has no metrics.
func theirProvider() clientgo.MetricsProvider {
	var options *priorityqueue.Opts[int]
	priorityqueue.New("", func(o *priorityqueue.Opts[int]) { options = o }).ShutDown()
	return options.MetricProvider
}
