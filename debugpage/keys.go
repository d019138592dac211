package debugpage

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxRunes is the length of a shown key.
const maxRunes = 200

// redactFailed is shown for a key if Redact has panicked. Neither the key nor the panic is shown:
// both may be secret.
const redactFailed = "(Redact has panicked)"

// A shower makes the shown texts of keys.
type shower struct {
	redact func(key string) string
}

// item returns the shown text of an item. Redact gets the whole text: a key that was cut before
// could hide from the pattern of a Redact.
func (s shower) item(item any) string {
	return s.text(textOf(item))
}

// text returns the shown form of a text that comes from keys, such as the name of a group.
func (s shower) text(text string) string { return clean(s.redacted(text)) }

func (s shower) redacted(text string) (shown string) {
	if s.redact == nil {
		return text
	}
	returned := false
	defer func() {
		if !returned {
			_ = recover()
			shown = redactFailed
		}
	}()
	shown = s.redact(text)
	returned = true
	return shown
}

// textOf returns the text of an item. A pointer without methods is shown as an address: the fields
// behind the pointer are the worker's, who may write to the fields at this moment.
func textOf(item any) string {
	switch v := item.(type) {
	case string:
		return v
	case fmt.Formatter, fmt.Stringer, error:
		return sprint(item)
	}
	if v := reflect.ValueOf(item); v.Kind() == reflect.Pointer {
		return fmt.Sprintf("(%T)(%p)", item, item)
	}
	return sprint(item)
}

// sprint is [fmt.Sprint] for values of others. fmt catches the panic of a String method and prints
// the argument of the panic, but does not catch a panic of that argument's own methods.
func sprint(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("(a %T whose text panics)", v)
		}
	}()
	return fmt.Sprint(v)
}

// clean escapes characters that do not print, as in a Go string, and cuts the text.
func clean(text string) string { return escaped(text, maxRunes) }

func escaped(text string, most int) string {
	var b strings.Builder
	runes := 0
	for i := 0; i < len(text); {
		part, size := printable(text[i:])
		if part == `\` {
			part = `\\`
		}
		if runes += utf8.RuneCountInString(part); runes > most {
			fmt.Fprintf(&b, "… (%d bytes)", len(text))
			break
		}
		b.WriteString(part)
		i += size
	}
	return b.String()
}

// searched returns the text to look for in shown texts. Unlike clean, searched keeps a backslash: the
// reader may have copied an escape from the page.
func searched(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		part, size := printable(text[i:])
		b.WriteString(part)
		i += size
	}
	return b.String()
}

// printable returns the first character of a text, escaped unless it prints, and its size in the
// text. Characters that turn the direction of the text do not print.
func printable(text string) (part string, size int) {
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Sprintf(`\x%02x`, text[0]), 1
	case !unicode.IsPrint(r):
		return strings.Trim(strconv.QuoteRuneToASCII(r), "'"), size
	}
	return text[:size], size
}
