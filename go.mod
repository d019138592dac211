module github.com/seed16c08ea7/workqueue

go 1.26

require (
	github.com/go-logr/logr v1.4.3
	golang.org/x/time v0.15.0
	k8s.io/utils v0.0.0-20260626114624-be93311217bd
)
