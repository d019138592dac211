package realworld_test

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	"k8s.io/client-go/rest"
)

// key names a Fleet, and the Deployment of the same name that the Fleet owns.
type key = types.NamespacedName

// A Fleet is the custom object of the scenarios. Its Deployment shall have the replicas and the
// image of its spec.
type Fleet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              FleetSpec   `json:"spec"`
	Status            FleetStatus `json:"status"`
}

// FleetSpec is what a Deployment shall be. A change counts up the generation of the Fleet.
type FleetSpec struct {
	Replicas int32  `json:"replicas"`
	Image    string `json:"image"`
}

// FleetStatus is a subresource: a write of the status leaves the generation as it is.
type FleetStatus struct {
	ObservedGeneration int64 `json:"observedGeneration"`
}

// FleetList is the answer to a list.
type FleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Fleet `json:"items"`
}

// DeepCopy copies a Fleet.
func (f *Fleet) DeepCopy() *Fleet {
	c := *f
	f.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	return &c
}

// DeepCopyObject copies a Fleet.
func (f *Fleet) DeepCopyObject() runtime.Object { return f.DeepCopy() }

// DeepCopyObject copies a list and its Fleets.
func (l *FleetList) DeepCopyObject() runtime.Object {
	c := *l
	l.ListMeta.DeepCopyInto(&c.ListMeta)
	c.Items = make([]Fleet, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopy()
	}
	return &c
}

var (
	groupVersion = schema.GroupVersion{Group: "realworld.test", Version: "v1"}
	fleetKind    = groupVersion.WithKind("Fleet")

	// scheme knows Fleets and all kinds of Kubernetes.
	scheme = func() *runtime.Scheme {
		s := runtime.NewScheme()
		s.AddKnownTypes(groupVersion, &Fleet{}, &FleetList{})
		metav1.AddToGroupVersion(s, groupVersion)
		if err := kubescheme.AddToScheme(s); err != nil {
			panic(err)
		}
		return s
	}()
)

const definition = `{
	"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
	"metadata": {"name": "fleets.realworld.test"},
	"spec": {
		"group": "realworld.test", "scope": "Namespaced",
		"names": {"plural": "fleets", "singular": "fleet", "kind": "Fleet", "listKind": "FleetList"},
		"versions": [{
			"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
			"schema": {"openAPIV3Schema": {"type": "object", "properties": {
				"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}, "image": {"type": "string"}}},
				"status": {"type": "object", "properties": {"observedGeneration": {"type": "integer", "format": "int64"}}}
			}}}
		}]
	}
}`

// define makes Fleets known to the API server.
func define(ctx context.Context, config *rest.Config) error {
	c, err := newClients(config, metav1.NamespaceDefault)
	if err != nil {
		return err
	}
	err = c.kube.RESTClient().Post().AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").
		SetHeader("Content-Type", "application/json").Body([]byte(definition)).Do(ctx).Error()
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := c.fleets.List(ctx, metav1.ListOptions{})
		return err == nil, nil
	})
}

// clients are typed clients of one namespace.
type clients struct {
	namespace   string
	fleets      *gentype.ClientWithList[*Fleet, *FleetList]
	deployments appsclient.DeploymentInterface
	kube        *kubernetes.Clientset
}

func newClients(config *rest.Config, namespace string) (*clients, error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	custom := rest.CopyConfig(config)
	custom.GroupVersion = &groupVersion
	custom.APIPath = "/apis"
	custom.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(custom)
	if err != nil {
		return nil, err
	}
	return &clients{
		namespace: namespace, kube: kube, deployments: kube.AppsV1().Deployments(namespace),
		fleets: gentype.NewClientWithList("fleets", client, runtime.NewParameterCodec(scheme), namespace,
			func() *Fleet { return new(Fleet) }, func() *FleetList { return new(FleetList) }),
	}, nil
}

// newFleet is the Fleet of the number, with the revision as its spec.
func newFleet(i, revision int) *Fleet {
	f := &Fleet{ObjectMeta: metav1.ObjectMeta{Name: fleetName(i)}}
	f.revise(revision)
	return f
}

func fleetName(i int) string { return fmt.Sprintf("fleet-%05d", i) }

// revise sets the spec.
func (f *Fleet) revise(revision int) {
	f.Spec = FleetSpec{Replicas: int32(revision % 10), Image: fmt.Sprintf("image:%d", revision)}
}

// deployment is the Deployment that the Fleet shall have.
func (f *Fleet) deployment() *appsv1.Deployment {
	labels := map[string]string{"fleet": f.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: f.Name, Namespace: f.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(f, fleetKind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: &f.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: f.Spec.Image}}},
			},
		},
	}
}

// matches reports whether the Deployment is what the Fleet asks for.
func (f *Fleet) matches(d *appsv1.Deployment) bool {
	return *d.Spec.Replicas == f.Spec.Replicas && d.Spec.Template.Spec.Containers[0].Image == f.Spec.Image
}

// open lists what the API server shows as not done yet: Fleets without their Deployment or with
// an old status, and Deployments without their Fleet.
func (c *clients) open(ctx context.Context) (open []string, err error) {
	fleets, err := c.fleets.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	deployments, err := c.deployments.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*appsv1.Deployment)
	for i := range deployments.Items {
		byName[deployments.Items[i].Name] = &deployments.Items[i]
	}
	for i := range fleets.Items {
		f := &fleets.Items[i]
		d := byName[f.Name]
		delete(byName, f.Name)
		switch {
		case d == nil:
			open = append(open, f.Name+" has no Deployment")
		case !metav1.IsControlledBy(d, f):
			open = append(open, f.Name+" has the Deployment of a deleted Fleet")
		case !f.matches(d):
			open = append(open, fmt.Sprintf("%s has a Deployment of %s, want %s", f.Name, d.Spec.Template.Spec.Containers[0].Image, f.Spec.Image))
		case f.Status.ObservedGeneration != f.Generation:
			open = append(open, fmt.Sprintf("%s has generation %d, and observed is %d", f.Name, f.Generation, f.Status.ObservedGeneration))
		}
	}
	for name := range byName {
		open = append(open, name+" is deleted, and its Deployment is left")
	}
	return open, nil
}

// ignore returns nil for the errors that the conditions recognize.
func ignore(err error, conditions ...func(error) bool) error {
	for _, c := range conditions {
		if c(err) {
			return nil
		}
	}
	return err
}

// notFound, conflict and exists are what clients that race with each other see.
var notFound, conflict, exists = apierrors.IsNotFound, apierrors.IsConflict, apierrors.IsAlreadyExists
