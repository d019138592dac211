package ctrlqueue

import (
	"fmt"

	"github.com/go-logr/logr"
	"github.com/seed16c08ea7/workqueue"
	clientgo "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// metricsProvider returns the provider for the current registry of controller-runtime. A program
// may replace the registry; each registry remembers its provider. Queues show in the series of
// controller-runtime and in our own.
//
// If this version of controller-runtime has other help texts, queues call
// controller-runtime's own provider. The seven series are right then, apart from the priority,
// and ours are missing.
func metricsProvider(logger logr.Logger) (p workqueue.MetricsProvider) {
	defer func() {
		if reason := recover(); reason != nil {
			logger.Info("The metrics of this version of controller-runtime are not known. "+
				"The depth of queues has no priority, and only the series of Kubernetes are shown.", "reason", fmt.Sprint(reason))
			p = workqueue.AdaptMetricsProvider(theirProvider())
		}
	}()
	return workqueue.NewPrometheusProvider(metrics.Registry, workqueue.PrometheusOptions{})
}

// theirProvider returns the provider of controller-runtime, whose type is internal.
// New has it as the default of an option. A queue without a name has no metrics.
func theirProvider() clientgo.MetricsProvider {
	var options *priorityqueue.Opts[int]
	priorityqueue.New("", func(o *priorityqueue.Opts[int]) { options = o }).ShutDown()
	return options.MetricProvider
}
