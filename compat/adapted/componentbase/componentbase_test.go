package componentbase_test

import (
	"testing"
	_ "unsafe" // for go:linkname

	"github.com/seed16c08ea7/workqueue/compat/adapted"
	clientgo "k8s.io/client-go/util/workqueue"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // sets client-go's provider
)

// provider is what component-base has set. Neither package has an exported way
// to it.
//
//go:linkname provider k8s.io/client-go/util/workqueue.globalMetricsProvider
var provider clientgo.MetricsProvider

func TestAdaptedProviderOfComponentBase(t *testing.T) {
	adapted.Test(t, legacyregistry.DefaultGatherer, provider)
}
