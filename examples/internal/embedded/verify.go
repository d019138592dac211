package embedded

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue/examples/internal/mirror"
)

// verdict is the result of a comparison of the whole cluster.
type verdict struct {
	sources  int      // ConfigMaps whose label asks for a mirror
	mirrors  int      // Secrets with our label
	problems []string // a line for each name without the right mirror, sorted
}

// verify compares every source with every mirror, and reads both from the API server
// only. The controller's caches and functions may have the very bug for verify to find.
func verify(c *Cluster) verdict {
	configMaps, _ := c.configMaps.list()
	secrets, _ := c.secrets.list()
	mirrors := managed(secrets)
	v := verdict{mirrors: len(mirrors)}
	for _, source := range configMaps {
		if source.Labels[mirror.Label] != "true" {
			continue
		}
		v.sources++
		name := nameOf(source)
		if problem := difference(source, mirrors[name]); problem != "" {
			v.problems = append(v.problems, fmt.Sprintf("%s: %s", name, problem))
		}
		delete(mirrors, name)
	}
	for name := range mirrors {
		v.problems = append(v.problems, fmt.Sprintf("%s: mirror without a source", name))
	}
	slices.Sort(v.problems)
	return v
}

// managed returns the Secrets with our label, by name.
func managed(secrets []*corev1.Secret) map[cache.ObjectName]*corev1.Secret {
	mirrors := make(map[cache.ObjectName]*corev1.Secret)
	for _, secret := range secrets {
		if secret.Labels[mirror.ManagedLabel] == mirror.ManagedValue {
			mirrors[nameOf(secret)] = secret
		}
	}
	return mirrors
}

// difference describes how a mirror differs from its source, or returns "".
func difference(source *corev1.ConfigMap, mirror *corev1.Secret) string {
	if mirror == nil {
		return "no mirror"
	}
	if got, want := len(mirror.Data), len(source.Data)+len(source.BinaryData); got != want {
		return fmt.Sprintf("mirror has %d values, source has %d", got, want)
	}
	for key, want := range source.Data {
		if got, ok := mirror.Data[key]; !ok || string(got) != want {
			return fmt.Sprintf("mirror has %s=%q, source has %q", key, got, want)
		}
	}
	for key, want := range source.BinaryData {
		if got, ok := mirror.Data[key]; !ok || string(got) != string(want) {
			return fmt.Sprintf("mirror has %s=%q, source has %q", key, got, want)
		}
	}
	return ""
}
