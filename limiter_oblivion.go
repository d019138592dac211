package workqueue

// An oblivion is Forget of a limiter, resolved once for the many calls of a Run. Nearly
// all items that pass have not failed. While no item has, it takes one atomic load for
// each limiter that counts, where Forget has to hash the item: one that cannot be
// hashed must panic there, and has done so in the queue here.
type oblivion[T comparable] struct {
	counts []*failures[T]
	others []TypedRateLimiter[T]
}

// add resolves a limiter. Those that are not exactly ours are called as they are.
func (o *oblivion[T]) add(limiter TypedRateLimiter[T]) {
	switch l := limiter.(type) {
	case *TypedItemExponentialFailureRateLimiter[T]:
		o.counts = append(o.counts, &l.failures)
	case *TypedItemFastSlowRateLimiter[T]:
		o.counts = append(o.counts, &l.failures)
	case *TypedBucketRateLimiter[T]: // Knows no item.
	case *TypedWithMaxWaitRateLimiter[T]:
		o.addInner(limiter, l.limiter)
	case *TypedMaxOfRateLimiter[T]:
		o.addInner(limiter, l.limiters...)
	default:
		o.others = append(o.others, limiter)
	}
}

// addInner resolves what is within a limiter, unless Forget of that is to panic for
// want of it.
func (o *oblivion[T]) addInner(limiter TypedRateLimiter[T], inner ...TypedRateLimiter[T]) {
	for _, l := range inner {
		if l == nil {
			o.others = append(o.others, limiter)
			return
		}
	}
	for _, l := range inner {
		o.add(l)
	}
}

func (o *oblivion[T]) forget(item T) {
	for _, f := range o.counts {
		f.forgetAny(item)
	}
	for _, l := range o.others {
		l.Forget(item)
	}
}
