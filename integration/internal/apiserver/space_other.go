//go:build !linux && !darwin

package apiserver

import "errors"

// freeSpace is unknown on other systems, so checkSpace checks nothing.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
