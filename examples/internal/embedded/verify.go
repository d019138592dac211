package embedded

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/seed16c08ea7/workqueue/examples/internal/mirror"
)

// verdict is what a comparison of the whole cluster found.
type verdict struct {
	sources  int      // ConfigMaps that want a mirror
	mirrors  int      // Secrets that carry our label
	problems []string // one line for each name that did not converge, sorted
}

// verify compares every source with every mirror. It asks the API server and
// nobody else: neither the caches nor the controller's own functions have a
// say in whether the controller did its work.
func verify(ctx context.Context, client kubernetes.Interface) (verdict, error) {
	configMaps, err := client.CoreV1().ConfigMaps(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return verdict{}, err
	}
	secrets, err := client.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return verdict{}, err
	}

	mirrors := managed(secrets.Items)
	v := verdict{mirrors: len(mirrors)}
	for i := range configMaps.Items {
		source := &configMaps.Items[i]
		if source.Labels[mirror.Label] != "true" {
			continue
		}
		v.sources++
		name := cache.MetaObjectToName(source)
		if problem := difference(source, mirrors[name]); problem != "" {
			v.problems = append(v.problems, fmt.Sprintf("%s: %s", name, problem))
		}
		delete(mirrors, name)
	}
	for name := range mirrors {
		v.problems = append(v.problems, fmt.Sprintf("%s: mirror without a source", name))
	}
	slices.Sort(v.problems)
	return v, nil
}

// managed returns the Secrets that carry our label, by name.
func managed(secrets []corev1.Secret) map[cache.ObjectName]*corev1.Secret {
	mirrors := make(map[cache.ObjectName]*corev1.Secret)
	for i := range secrets {
		if secret := &secrets[i]; secret.Labels[mirror.ManagedLabel] == mirror.ManagedValue {
			mirrors[cache.MetaObjectToName(secret)] = secret
		}
	}
	return mirrors
}

// difference says how a mirror falls short of its source, or nothing.
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
