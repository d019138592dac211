// Package mirror is the job of the example controllers: for every ConfigMap with a label,
// keep a Secret with the same data.
package mirror

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

const (
	// Label set to "true" on a ConfigMap asks for a Secret of the same name with
	// the same data.
	Label = "example.com/mirror"

	// ManagedLabel with ManagedValue marks a Secret as ours. A Secret without the label
	// is never touched, whatever its name.
	ManagedLabel = "app.kubernetes.io/managed-by"
	ManagedValue = "mirror-controller"

	// resync is how often the informers send every cached object to the handlers again. A
	// correct controller needs no resync. If a bug loses a key, a resync brings the key
	// back.
	resync = 10 * time.Minute
)

// A Queue takes the names of objects that may need work.
type Queue interface {
	Add(name cache.ObjectName)
}

// A Mirror keeps a Secret in step with each labelled ConfigMap.
type Mirror struct {
	client     *Client
	informers  []cache.SharedIndexInformer
	configMaps corelisters.ConfigMapLister
	secrets    corelisters.SecretLister
	caches     []cache.DoneChecker
	queue      Queue
	log        *slog.Logger
}

// Serve starts the informers on a namespace, or on all namespaces if the name is empty,
// and calls work. The informers run until work returns, even after ctx is done: the last
// syncs, too, need a cache that follows the cluster.
func Serve(ctx context.Context, config *rest.Config, namespace string, queue Queue, log *slog.Logger, work func(ctx context.Context, m *Mirror) error) error {
	client, err := NewClient(config)
	if err != nil {
		return err
	}
	m, err := newMirror(client, namespace, queue, log)
	if err != nil {
		return err
	}
	var informers sync.WaitGroup
	// Deferred first, so done last: unwatch must stop the informers before Wait can
	// return.
	defer informers.Wait()
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer unwatch()
	for _, informer := range m.informers {
		informers.Go(func() { informer.RunWithContext(watching) })
	}
	return work(ctx, m)
}

// newMirror returns a mirror whose informers are not started yet.
func newMirror(client *Client, namespace string, q Queue, log *slog.Logger) (*Mirror, error) {
	configMaps := client.informer("configmaps", namespace, &corev1.ConfigMap{})
	secrets := client.informer("secrets", namespace, &corev1.Secret{})
	m := &Mirror{
		client:     client,
		informers:  []cache.SharedIndexInformer{configMaps, secrets},
		configMaps: corelisters.NewConfigMapLister(configMaps.GetIndexer()),
		secrets:    corelisters.NewSecretLister(secrets.GetIndexer()),
		queue:      q,
		log:        log,
	}
	// Both kinds share a handler because source and mirror share their name. The events
	// of Secrets bring back a mirror that somebody removed. At the start, the events of
	// Secrets also find a mirror whose source was deleted while no controller ran.
	for _, informer := range m.informers {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    m.enqueue,
			UpdateFunc: func(_, obj any) { m.enqueue(obj) },
			DeleteFunc: m.enqueue,
		})
		if err != nil {
			return nil, fmt.Errorf("adding an event handler: %w", err)
		}
		// An informer is synced when its cache holds the first list. The registration is
		// synced later, when the handler has seen the list and added every key.
		m.caches = append(m.caches, registration.HasSyncedChecker())
	}
	return m, nil
}

// enqueue adds the name of an object that may need work. An add too many is cheap,
// because the queue merges adds of the same name. A missing add is a bug.
func (m *Mirror) enqueue(obj any) {
	// A deletion in a gap of the watch arrives as a tombstone. The object in a tombstone
	// is out of date, but the name is right.
	name, err := cache.DeletionHandlingObjectToName(obj)
	if err != nil {
		m.log.Error("event without a name", "object", obj, "err", err)
		return
	}
	if _, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		m.log.Info("deletion found by a new list", "key", name)
	}
	m.queue.Add(name)
}

// WaitForCaches waits until the caches are full, and reports false if ctx is done before.
// An earlier sync would delete good mirrors: without its source in the cache, a mirror
// looks like an orphan.
func (m *Mirror) WaitForCaches(ctx context.Context) bool {
	return cache.WaitFor(ctx, "", m.caches...)
}

// Sync makes the Secret of a name match the ConfigMap of the same name. Sync looks only
// at the present state, never at an event. So events may be merged, repeated or missed.
func (m *Mirror) Sync(ctx context.Context, key cache.ObjectName) error {
	source, err := m.source(key)
	if err != nil {
		return err
	}
	mirror, err := m.secrets.Secrets(key.Namespace).Get(key.Name)
	switch {
	case apierrors.IsNotFound(err):
		return m.create(ctx, source)
	case err != nil:
		return err
	case mirror.Labels[ManagedLabel] != ManagedValue:
		if source == nil {
			return nil
		}
		return fmt.Errorf("secret %s is in the way and not ours", key)
	case source == nil:
		return m.remove(ctx, mirror)
	}
	return m.update(ctx, source, mirror)
}

// source returns the ConfigMap if its label asks for a mirror, otherwise nil.
func (m *Mirror) source(key cache.ObjectName) (*corev1.ConfigMap, error) {
	source, err := m.configMaps.ConfigMaps(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) || err == nil && source.Labels[Label] != "true" {
		return nil, nil
	}
	return source, err
}

func (m *Mirror) create(ctx context.Context, source *corev1.ConfigMap) error {
	if source == nil {
		return nil
	}
	mirror := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: source.Namespace,
			Name:      source.Name,
			Labels:    map[string]string{ManagedLabel: ManagedValue},
		},
		Data: mirrorData(source),
	}
	return m.logged("secret created", mirror, m.client.createSecret(ctx, mirror))
}

func (m *Mirror) update(ctx context.Context, source *corev1.ConfigMap, mirror *corev1.Secret) error {
	data := mirrorData(source)
	if maps.EqualFunc(mirror.Data, data, bytes.Equal) {
		m.log.Debug("secret is up to date", "key", cache.MetaObjectToName(mirror))
		return nil
	}
	// Only a copy may change: an object of a lister belongs to the cache and all its
	// readers.
	mirror = mirror.DeepCopy()
	mirror.Data = data
	return m.logged("secret updated", mirror, m.client.updateSecret(ctx, mirror))
}

func (m *Mirror) remove(ctx context.Context, mirror *corev1.Secret) error {
	// The cache may be behind, and the mirror gone already.
	err := m.client.deleteSecret(ctx, cache.MetaObjectToName(mirror), mirror.UID)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return m.logged("secret deleted", mirror, err)
}

// logged logs a successful write. A failed write is logged where the retry is decided.
func (m *Mirror) logged(message string, mirror *corev1.Secret, err error) error {
	if err == nil {
		m.log.Info(message, "key", cache.MetaObjectToName(mirror))
	}
	return err
}

func mirrorData(source *corev1.ConfigMap) map[string][]byte {
	data := make(map[string][]byte, len(source.Data)+len(source.BinaryData))
	maps.Copy(data, source.BinaryData)
	for name, value := range source.Data {
		data[name] = []byte(value)
	}
	return data
}
