package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// cache sets c.cached to a swapped copy of the client-go that an environment builds,
// and makes it if it is not there.
func (c *call) cache(ctx context.Context, p *program, env []string) (*module, error) {
	m, err := p.clientGo(ctx, env)
	if err != nil {
		return nil, err
	}
	if err := known(m); err != nil {
		return nil, err
	}
	if c.cached, err = c.cacheName(m); err != nil {
		return nil, err
	}
	if _, err := os.Stat(c.cached); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	return m, c.fill(ctx, p, m)
}

// fill makes the copy in the cache, by a rename: another call may look for it.
func (c *call) fill(ctx context.Context, p *program, m *module) error {
	caches := filepath.Dir(c.cached)
	if err := os.MkdirAll(caches, 0o777); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(caches, "unfinished-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	copied := filepath.Join(tmp, "client-go")
	if err := c.copyModule(ctx, p, m, copied); err != nil {
		return err
	}
	// Of two calls at once, the second finds the work done.
	if err := os.Rename(copied, c.cached); err != nil && !sameFile(c.cached, c.cached) {
		return err
	}
	return nil
}

// layout is a part of the name of a copy. It changes with what copyModule does.
const layout = "1"

// cacheName returns the directory of a copy. The name follows from the content, so
// what has it is complete and current.
func (c *call) cacheName(m *module) (string, error) {
	content := strings.Join([]string{layout, m.source(), c.library.version, aliases}, "\n")
	if m.isDir() {
		sum, err := sumTree(m.Dir)
		if err != nil {
			return "", err
		}
		content += sum
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(caches, "workqueue-swap", "client-go-"+m.Version+"-"+sumText([]byte(content))[:16]), nil
}
