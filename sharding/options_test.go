package sharding

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		set  func(*Options)
		want string
	}{
		{func(*Options) {}, ""},
		{func(o *Options) { o.Name = "" }, "Name"},
		{func(o *Options) { o.Name = "Upper" }, "Upper"},
		{func(o *Options) { o.Name = strings.Repeat("x", 41) }, "40"},
		{func(o *Options) { o.Namespace = "" }, "Namespace"},
		{func(o *Options) { o.Slots = -1 }, "-1"},
		{func(o *Options) { o.MaxMoving = -1 }, "-1"},
		{func(o *Options) { o.Settle = -time.Second }, "-1s"},
		{func(o *Options) { o.LeaseDuration = 30500 * time.Millisecond }, "30.5s"},
		{func(o *Options) {
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod, o.CancelBound, o.Slots = time.Second, 500*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond, 8
		}, "2 s at least"},
		{func(o *Options) { o.CancelBound = 10 * time.Second }, "LeaseDuration"},
		{func(o *Options) { o.CancelBound = math.MaxInt64 }, "LeaseDuration"},
		{func(o *Options) { o.RenewDeadline = math.MaxInt64 }, "LeaseDuration"},
		{func(o *Options) { o.RetryPeriod = math.MaxInt64 }, "RetryPeriod"},
		{func(o *Options) { o.LeaseDuration = (math.MaxInt32 + 1) * time.Second }, "LeaseDuration"},
		{func(o *Options) { o.Identity = "pod-\xff" }, "pod-\\xff"},
		{func(o *Options) { o.RetryPeriod = 11 * time.Second }, "RetryPeriod"},
		{func(o *Options) { o.Slots = 499 }, ""},
		{func(o *Options) { o.Slots = 500 }, "100 writes"},
		{func(o *Options) { o.Slots, o.Force = 1024, true }, ""},
	} {
		o := Options{Name: "set", Namespace: "ns"}
		tc.set(&o)
		_, err := New(&rest.Config{Host: "localhost"}, o)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%+v: error %v, want %q", o, err, tc.want)
		}
	}
}

// TestNew looks at the clients: no limit of the controller's client, a timeout for requests and
// none for watches, and HTTP/1.1 for requests.
func TestNew(t *testing.T) {
	var mu sync.Mutex
	var protocols []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		protocols = append(protocols, r.Proto)
		w.WriteHeader(http.StatusNotFound)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	cfg := &rest.Config{Host: server.URL, QPS: 5, Burst: 1, Timeout: time.Hour, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	s, err := New(cfg, Options{Name: "set", Namespace: "ns", Identity: "pod"})
	if err != nil {
		t.Fatal(err)
	}
	for client, timeout := range map[coordination.LeasesGetter]time.Duration{s.writes: 10 * time.Second, s.reads: 0} {
		c := client.(*coordination.CoordinationV1Client).RESTClient().(*rest.RESTClient)
		if c.GetRateLimiter() != nil {
			t.Error("the client has a limit of requests")
		}
		if c.Client.Timeout != timeout {
			t.Errorf("the client has a timeout of %v, want %v", c.Client.Timeout, timeout)
		}
	}
	for _, c := range []coordination.LeasesGetter{s.writes, s.reads} {
		if _, err := c.Leases("ns").Get(t.Context(), "x", metav1.GetOptions{}); err == nil {
			t.Error("a Get has succeeded")
		}
	}
	if want := []string{"HTTP/1.1", "HTTP/2.0"}; !slices.Equal(protocols, want) {
		t.Errorf("the protocols are %v, want %v", protocols, want)
	}
	if cfg.QPS != 5 || cfg.Timeout != time.Hour || len(cfg.NextProtos) > 0 {
		t.Error("New has changed the config of the caller")
	}
}

// request has the form of the requests of controller-runtime.
type request struct{ types.NamespacedName }

// TestSlotOf pins slots: replicas of different versions must agree.
func TestSlotOf(t *testing.T) {
	s, err := New(&rest.Config{}, Options{Name: "set", Namespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	for want, items := range map[int][]any{
		16: {"ns/name", cache.NewObjectName("ns", "name"), types.NamespacedName{Namespace: "ns", Name: "name"},
			request{types.NamespacedName{Namespace: "ns", Name: "name"}}, object("name"), cache.DeletedFinalStateUnknown{Key: "ns/name"}},
		7: {"name", cache.NewObjectName("", "name"), types.NamespacedName{Name: "name"}, &metav1.ObjectMeta{Name: "name"}},
	} {
		for _, item := range items {
			if got := s.SlotOf(item); got != want {
				t.Errorf("%T %v has slot %d, want %d", item, item, got, want)
			}
		}
	}
	s.options.Key = func(item any) string {
		namespace, _, _ := strings.Cut(KeyOf(item), "/")
		return namespace
	}
	if s.SlotOf("ns/a") != s.SlotOf("ns/b") {
		t.Error("items of a group have different slots")
	}
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "int") {
			t.Errorf("KeyOf(1) panicked with %v, want the type", p)
		}
	}()
	KeyOf(1)
}

// TestSlotsAreEven hashes keys of similar names.
func TestSlotsAreEven(t *testing.T) {
	const slots, keys = 32, 100_000
	var n [slots]int
	for i := range keys {
		n[hash(fmt.Sprintf("default/object-%06d", i))%slots]++
	}
	if low, high := slices.Min(n[:]), slices.Max(n[:]); low < keys/slots*95/100 || high > keys/slots*105/100 {
		t.Errorf("%d to %d keys in a slot, want %d within 5 %%", low, high, keys/slots)
	}
}

// TestAssign checks the spread, and how many slots move when a member comes or goes.
func TestAssign(t *testing.T) {
	for _, tc := range []struct {
		slots, members int
		most           float64 // slots that move for a join or a leave, over the least possible
	}{
		{1, 3, 3}, {32, 1, 1.01}, {32, 3, 1.5}, {256, 3, 1.2}, {256, 30, 3}, {1024, 100, 4.5}, {5, 9, 9},
	} {
		moved := 0
		const rounds = 10
		for round := range rounds {
			var members []string
			for i := range tc.members + 1 {
				members = append(members, fmt.Sprintf("pod-%d-%04d_uuid", round, i))
			}
			all, joined, left := assign(members[1:], tc.slots), assign(members, tc.slots), assign(members[:tc.members], tc.slots)
			load := make(map[string]int)
			for slot := range all {
				load[all[slot]]++
				if joined[slot] != all[slot] {
					moved++
				}
				if left[slot] != joined[slot] {
					moved++
				}
			}
			for _, m := range members[1:] {
				if n := load[m]; n < tc.slots/tc.members || n > (tc.slots+tc.members-1)/tc.members {
					t.Errorf("%d slots, %d members: %s has %d", tc.slots, tc.members, m, n)
				}
			}
		}
		least := 2 * float64(tc.slots) / float64(tc.members+1)
		if ratio := float64(moved) / rounds / least; ratio > tc.most {
			t.Errorf("%d slots, %d members: %.1f times as many slots move as must", tc.slots, tc.members, ratio)
		}
	}
	if got := assign(nil, 3); !slices.Equal(got, []string{"", "", ""}) {
		t.Errorf("without members: %q", got)
	}
}
