package apiserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// space is the size of a build with empty caches, in bytes: 2.4 GB in GOCACHE, 0.8 GB in
// GOMODCACHE, and the rest for the programs and the linker.
const space = 4e9

// free is freeSpace, except in tests.
var free = freeSpace

// checkSpace refuses a build that would fill a disk. A full disk would fail the build
// only after minutes, and would harm all other programs of the machine.
func (b builder) checkSpace() error {
	var caches struct{ GOCACHE, GOMODCACHE string }
	if err := b.run(b.work, &caches, "env", "-json", "GOCACHE", "GOMODCACHE"); err != nil {
		return err
	}
	for _, dir := range []string{caches.GOCACHE, caches.GOMODCACHE, os.TempDir(), b.work} {
		switch bytes, err := free(existing(dir)); {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			return err
		case bytes < space:
			return fmt.Errorf("the build of kube-apiserver needs %.1f GB, and %s has %.1f GB left: make room, or set GOCACHE, GOMODCACHE, TMPDIR and XDG_CACHE_HOME to directories of another disk",
				space/1e9, dir, float64(bytes)/1e9)
		}
	}
	return nil
}

// existing returns the directory, or the closest existing directory above.
func existing(dir string) string {
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return dir
}
