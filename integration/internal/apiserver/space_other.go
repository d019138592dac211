//go:build !linux && !darwin

package apiserver

import "errors"

// freeSpace is not known.
func freeSpace(string) (uint64, error) { return 0, errors.ErrUnsupported }
