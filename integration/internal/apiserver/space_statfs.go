//go:build linux || darwin

package apiserver

import "syscall"

// freeSpace returns how many bytes this user may write to the disk of a directory.
func freeSpace(dir string) (uint64, error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		return 0, err
	}
	return uint64(disk.Bavail) * uint64(disk.Bsize), nil
}
