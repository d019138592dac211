package embedded

import (
	"context"
	"net"
	"sync"
)

// wire is a network in memory. With sockets the tests could not run in the
// virtual time of testing/synctest, and a firewall could object.
type wire struct {
	dialed chan net.Conn
	closed chan struct{}
	close  func()
}

func newWire() *wire {
	w := &wire{dialed: make(chan net.Conn), closed: make(chan struct{})}
	w.close = sync.OnceFunc(func() { close(w.closed) })
	return w
}

// Dial is for an [http.Transport]; all addresses lead to the listener.
func (w *wire) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case w.dialed <- there:
		return here, nil
	case <-w.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept, Close and Addr are for a [net.Listener].
func (w *wire) Accept() (net.Conn, error) {
	select {
	case conn := <-w.dialed:
		return conn, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error {
	w.close()
	return nil
}

func (w *wire) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "embedded" }
