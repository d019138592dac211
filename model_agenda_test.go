package workqueue_test

import (
	"math"
	"testing"
	"time"
)

func FuzzAgenda(f *testing.F) {
	f.Fuzz(func(t *testing.T, script []byte) {
		t.Parallel()
		d := &agendaDuel{t: t}
		for i := 0; i+1 < len(script); i += opSize {
			switch op, arg := script[i], script[i+1]; op % 8 {
			case 0, 1, 3:
				d.schedule(float64(op>>3), time.Duration(arg)-100)
			case 2:
				d.debounce(float64(op>>3), time.Duration(arg)-100, time.Duration(arg^op)-100)
			case 4:
				d.schedule(math.NaN(), time.Duration(arg))
			case 6:
				d.remove(float64(op >> 3))
			case 7:
				d.reschedule(float64(op>>3), time.Duration(arg)-100)
			case 5:
				d.agenda.SetTicket(max(d.agenda.Ticket(), math.MaxUint32-uint32(arg)))
			default:
				for range arg % 8 {
					d.pop()
				}
			}
		}
	})
}
