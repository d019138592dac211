package mirror

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

// A Client watches and writes ConfigMaps and Secrets.
//
// It needs only client-go's REST client. Most programs use the clientset,
// k8s.io/client-go/kubernetes, with the same calls for every kind of Kubernetes. The
// clientset would double the packages that a first `make run` compiles.
type Client struct{ rest rest.Interface }

// NewClient returns a client of the API server that the config names.
func NewClient(config *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	return &Client{client}, err
}

// informer returns an informer on a resource in a namespace, or in all namespaces.
func (c *Client) informer(resource, namespace string, example runtime.Object) cache.SharedIndexInformer {
	return cache.NewSharedIndexInformerWithOptions(
		cache.NewListWatchFromClient(c.rest, resource, namespace, fields.Everything()),
		example,
		cache.SharedIndexInformerOptions{
			ResyncPeriod: resync,
			Indexers:     cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		})
}

func (c *Client) createSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.rest.Post().Namespace(secret.Namespace).Resource("secrets").Body(secret).Do(ctx).Error()
}

// updateSecret fails with a conflict if the secret is not the newest state.
func (c *Client) updateSecret(ctx context.Context, secret *corev1.Secret) error {
	return c.rest.Put().Namespace(secret.Namespace).Resource("secrets").Name(secret.Name).Body(secret).Do(ctx).Error()
}

// deleteSecret spares a new Secret of the same name: the UID must match.
func (c *Client) deleteSecret(ctx context.Context, name cache.ObjectName, uid types.UID) error {
	precondition := metav1.NewPreconditionDeleteOptions(string(uid))
	return c.rest.Delete().Namespace(name.Namespace).Resource("secrets").Name(name.Name).Body(precondition).Do(ctx).Error()
}
