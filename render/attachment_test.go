// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"strings"
	"testing"

	"lamplighter.dev/render"
)

func TestAttachment(t *testing.T) {
	tree := directory(t, map[string]string{
		"base/freezes.yaml":       configMap,
		"base/holidays.ics":       "base",
		"clusters/a/holidays.ics": "a",
		"calendars/de.ics":        "de",
		"base/large.ics":          strings.Repeat("x", 2048),
		"base/directory/x":        "x",
		"base/link.ics":           "-> ../calendars/de.ics",
		"base/out.ics":            "-> ../../outside.yaml",
	})
	from := render.Object{File: "base/freezes.yaml"}
	for _, tt := range []struct{ name, want, err string }{
		{"holidays.ics", "base", ""},
		{"./holidays.ics", "base", ""},
		{"../clusters/a/holidays.ics", "a", ""},
		{"/calendars/de.ics", "de", ""},
		{"link.ics", "de", ""},
		{"gone.ics", "", "base/gone.ics: does not exist"},
		{"/gone.ics", "", "gone.ics: does not exist"},
		{"large.ics", "", "base/large.ics: is larger than 1 KiB"},
		{"directory", "", "base/directory: is not a file"},
		{"../../outside.yaml", "", "../../outside.yaml: leaves the repository"},
		{"/../outside.yaml", "", "../outside.yaml: leaves the repository"},
		{"out.ics", "", "base/out.ics: leaves the repository"},
		{"https://example.com/a.ics?token=x", "", "https://example.com/a.ics: is remote: copy it into the repository"},
		{" ", "", "is empty"},
		{"a\nb.ics", "", "does not exist"},
	} {
		data, err := render.Attachment(tree, from, tt.name, 1024)
		if string(data) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) && tt.name != "a\nb.ics" {
			t.Errorf("%q: %q, %v, want %q, %q", tt.name, data, err, tt.want, tt.err)
		}
	}
	if _, err := render.Attachment(tree, render.Object{}, "holidays.ics", 1024); err == nil || !strings.Contains(err.Error(), "begin with a slash") {
		t.Errorf("an object from nowhere: %v", err)
	}
	if data, err := render.Attachment(tree, render.Object{}, "/calendars/de.ics", 1024); err != nil || string(data) != "de" {
		t.Errorf("an object from nowhere: %q, %v", data, err)
	}
}
