package sharding

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// SlotIndex is the name of the index of [Shards.Indexers].
const SlotIndex = "workqueue.sharding/slot"

// Handler returns a handler that passes on the events of objects whose slots this replica owns.
// The event of another replica's object is dropped. An object whose slot is gained later is
// listed then, see [Attach].
func (s *Shards) Handler(next cache.ResourceEventHandler) cache.ResourceEventHandler {
	return &gate{s, next}
}

// A gate differs from a [cache.FilteringResourceEventHandler]: the answer for an object
// changes with time, and an update must stay an update.
type gate struct {
	shards *Shards
	next   cache.ResourceEventHandler
}

func (g *gate) OnAdd(obj any, isInInitialList bool) {
	if g.shards.Owns(obj) {
		g.next.OnAdd(obj, isInInitialList)
	}
}

func (g *gate) OnUpdate(last, obj any) {
	if g.shards.Owns(obj) {
		g.next.OnUpdate(last, obj)
	}
}

func (g *gate) OnDelete(obj any) {
	if g.shards.Owns(obj) {
		g.next.OnDelete(obj)
	}
}

// Indexers returns an index of objects by slot. The values of the index are the slots as
// decimal numbers.
func (s *Shards) Indexers() cache.Indexers {
	return cache.Indexers{SlotIndex: func(obj any) ([]string, error) {
		return []string{strconv.Itoa(s.SlotOf(obj))}, nil
	}}
}

// Lister returns a list function for [Attach]: the items of all objects of a slot in an indexer
// with the index of [Shards.Indexers]. An object without an item has an error.
func Lister[T comparable](indexer cache.Indexer, item func(obj any) (T, error)) func(context.Context, int) ([]T, error) {
	return func(_ context.Context, slot int) ([]T, error) {
		objs, err := indexer.ByIndex(SlotIndex, strconv.Itoa(slot))
		if err != nil {
			return nil, err
		}
		items := make([]T, len(objs))
		for i, obj := range objs {
			if items[i], err = item(obj); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
}

// A Queue is any queue that has an Add. If the queue has a RemoveFunc too, as those of package
// workqueue have, items of lost slots are removed, and with a Forget their failures are forgotten. In other queues
// these items stay until a worker gets and drops them.
type Queue[T comparable] interface {
	Add(item T)
}

// attached is a queue without the type of its items.
type attached struct {
	add    func(ctx context.Context, slot int) error
	remove func(slot int, inFlight []*call)
}

// Attach has the items of a slot listed and added to the queue when the slot is gained, and
// removed from the queue when the slot is lost. Slots that are owned already are listed now, and
// Attach returns the errors of these lists; ctx is for them alone. list may be called concurrently. When list fails
// later, it is called again after each RetryPeriod. Attach holds for the life of the Shards.
func Attach[T comparable](ctx context.Context, s *Shards, queue Queue[T], list func(ctx context.Context, slot int) ([]T, error)) error {
	a := attached{
		add: func(ctx context.Context, slot int) error {
			items, err := list(ctx, slot)
			if err != nil {
				return fmt.Errorf("sharding: the items of slot %d were not listed: %w", slot, err)
			}
			for _, item := range items {
				queue.Add(item)
			}
			return nil
		},
		remove: func(slot int, inFlight []*call) {
			q, ok := queue.(interface{ RemoveFunc(del func(T) bool) int })
			if !ok {
				return
			}
			kept := make(map[T]bool, len(inFlight))
			for _, c := range inFlight {
				if item, ok := c.item.(T); ok { // Context takes items of any type, also those that are no key.
					kept[item] = true
				}
			}
			limited, _ := queue.(interface{ Forget(item T) })
			q.RemoveFunc(func(item T) bool {
				lost := s.SlotOf(item) == slot && !kept[item]
				if lost && limited != nil {
					limited.Forget(item)
				}
				return lost
			})
		},
	}
	// A slot that is gained from here on is listed by both, and the queue merges the adds.
	s.mu.Lock()
	s.queues = append(s.queues, a)
	s.mu.Unlock()
	var errs []error
	for _, slot := range s.Held() {
		errs = append(errs, a.add(ctx, slot))
	}
	return errors.Join(errs...)
}

func (s *Shards) attachedQueues() []attached {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queues[:len(s.queues):len(s.queues)]
}

// addKeys adds the items of a slot to all queues, and returns when to try again after an error,
// or nil.
func (s *Shards) addKeys(ctx context.Context, slot int) (again <-chan time.Time) {
	for _, q := range s.attachedQueues() {
		if err := q.add(ctx, slot); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "sharding: a slot was gained and waits for its items", "slot", slot)
			again = time.After(s.options.RetryPeriod)
		}
	}
	return again
}

// removeKeys removes the items of a slot from all queues. A handler at work keeps its item:
// RemoveFunc of package workqueue would end its context.
func (s *Shards) removeKeys(slot int) {
	inFlight := s.slots[slot].inFlight()
	for _, q := range s.attachedQueues() {
		q.remove(slot, inFlight)
	}
}

// Handle returns a handler for workqueue.Run or a loop of your own. It calls next with the
// context of [Shards.Context], and drops the items of other replicas: the error is nil. The
// error is nil also if next was cut short by the end of the ownership, as the next owner lists
// the item.
func Handle[T any](s *Shards, next func(ctx context.Context, item T) error) func(ctx context.Context, item T) error {
	handle := Reconcile(s, func(ctx context.Context, item T) (struct{}, error) { return struct{}{}, next(ctx, item) })
	return func(ctx context.Context, item T) error {
		_, err := handle(ctx, item)
		return err
	}
}

// Reconcile is [Handle] for a function with a result, which is zero when the item is dropped. For
// controller-runtime, reconcile.Func(sharding.Reconcile(shards, r.Reconcile)) is a reconciler.
func Reconcile[T, R any](s *Shards, next func(ctx context.Context, item T) (R, error)) func(ctx context.Context, item T) (R, error) {
	return func(ctx context.Context, item T) (result R, err error) {
		owned, done, err := s.Context(ctx, item)
		if err != nil {
			return result, nil
		}
		defer done()
		result, err = next(owned, item)
		if err != nil && context.Cause(owned) == ErrNotOwned {
			var none R
			return none, nil
		}
		return result, err
	}
}
