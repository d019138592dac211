package workqueue

import "reflect"

// This file is about items that differ from themselves, such as a NaN.

// equal exists because a comparison of a variable with itself, which only a
// NaN fails, looks like a mistake.
func equal[T comparable](a, b T) bool { return a == b }

// reflexive reports whether the type alone tells that its values are equal to
// themselves. For other types each item is asked, see BenchmarkCycle for what
// that costs.
func reflexive(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128, reflect.Interface:
		return false
	case reflect.Array:
		return reflexive(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !reflexive(t.Field(i).Type) {
				return false
			}
		}
	}
	return true
}
