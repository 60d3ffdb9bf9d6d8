// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"cmp"
	"os"
	"strings"
	"testing"
)

func TestURLs(t *testing.T) {
	data, err := os.ReadFile("testdata/urls.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cases++
		raw, want, ok := strings.Cut(line, " = ")
		if !ok {
			raw, want, _ = strings.Cut(line, " ! ")
		}
		raw = strings.TrimSpace(raw)
		a, err := parseURL(raw)
		got := strings.Join([]string{a.scheme, cmp.Or(a.user, "-"), cmp.Or(a.host, "-"), a.path}, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", raw, got, want)
		}
	}
	if cases < 30 {
		t.Errorf("%d cases: the file was not read", cases)
	}
}

// Whatever a URL is, its password is in no error, and what is read is read the
// same again from what is shown.
func FuzzURL(f *testing.F) {
	for _, raw := range []string{
		"https://git.example.com/fleet.git", "ssh://git@git.example.com:22/~x", "git@git.example.com:fleet.git", "file:///srv", "x", "://", "a:b@c:d", "ssh://[::1]/x",
	} {
		f.Add(raw, "../base.git")
	}
	f.Fuzz(func(t *testing.T, raw, relative string) {
		const password = "CANARYCANARY"
		if scheme, rest, ok := strings.Cut(raw, "://"); ok && scheme != "file" {
			if _, err := parseURL(scheme + "://user:" + password + "@" + rest); err == nil || strings.Contains(err.Error(), password) {
				t.Errorf("%q with a password: %v", raw, err)
			}
		}
		a, err := parseURL(raw)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x00") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		if b, err := a.relative(relative); err == nil && (b.scheme != a.scheme || b.host != a.host || b.user != a.user) {
			t.Errorf("%q of %q leads to %+v", relative, raw, b)
		}
		if a.scheme == "http" || a.scheme == "https" {
			if again, err := parseURL(a.String()); err != nil || again != a {
				t.Errorf("%q is %+v, and again %+v, %v", raw, a, again, err)
			}
		}
	})
}
