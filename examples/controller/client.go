package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// A client is the cluster behind a kubeconfig.
//
// It needs only client-go's REST client. Most programs use the clientset,
// k8s.io/client-go/kubernetes, which has the same calls for every kind of object. The
// clientset would double the packages that a first `make run` compiles.
type client struct {
	rest      rest.Interface
	namespace string // empty for all namespaces
}

var _ cluster = (*client)(nil)

func newClient(config *rest.Config, namespace string) (*client, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	api, err := rest.RESTClientFor(config)
	return &client{api, namespace}, err
}

func (c *client) ConfigMaps() cache.ListerWatcher {
	return cache.NewListWatchFromClient(c.rest, "configmaps", c.namespace, fields.Everything())
}

func (c *client) Secrets() cache.ListerWatcher {
	return cache.NewListWatchFromClient(c.rest, "secrets", c.namespace, fields.Everything())
}

func (c *client) CreateSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.rest.Post().Namespace(secret.Namespace).Resource("secrets").Body(secret).Do(ctx).Error()
}

func (c *client) UpdateSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.rest.Put().Namespace(secret.Namespace).Resource("secrets").Name(secret.Name).Body(secret).Do(ctx).Error()
}

func (c *client) DeleteSecret(ctx context.Context, name cache.ObjectName, uid types.UID) error {
	precondition := metav1.NewPreconditionDeleteOptions(string(uid))
	return c.rest.Delete().Namespace(name.Namespace).Resource("secrets").Name(name.Name).Body(precondition).Do(ctx).Error()
}
