package embedded

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// NewLogger writes lines for people who watch: the time since the start instead
// of the date, and no level. Syncs that found nothing to do are in a verbose log
// only.
func NewLogger(out io.Writer, verbose bool) *slog.Logger {
	start := time.Now()
	handler := &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			switch attr.Key {
			case slog.TimeKey:
				return slog.String("t", fmt.Sprintf("%.3fs", attr.Value.Time().Sub(start).Seconds()))
			case slog.LevelKey:
				return slog.Attr{}
			}
			return attr
		},
	}
	if verbose {
		handler.Level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(out, handler))
}
