// SPDX-License-Identifier: Apache-2.0

package gitsource

import (
	"os"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
)

func TestRefs(t *testing.T) {
	data, err := os.ReadFile("testdata/refs.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for block := range strings.SplitSeq(string(data), "\n\n") {
		var lines []string
		for line := range strings.Lines(block) {
			if !strings.HasPrefix(line, "#") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		has, asked, ok := strings.Cut(strings.Join(lines, "\n"), "--\n")
		if !ok {
			continue
		}
		refs := parseReferences(t, has)
		for line := range strings.Lines(asked) {
			if line = strings.TrimSpace(line); line != "" {
				checkRef(t, refs, line)
				cases++
			}
		}
	}
	if cases < 30 {
		t.Errorf("%d cases: the file was not read", cases)
	}
}

func digits(digit string) plumbing.Hash { return plumbing.NewHash(strings.Repeat(digit, 40)) }

func parseReferences(t *testing.T, text string) references {
	t.Helper()
	refs := references{hashes: map[string]plumbing.Hash{}, peeled: map[string]plumbing.Hash{}}
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); {
		case f[0] == "head":
			refs.head = f[1]
		case f[0] == "any":
			refs.anyCommit = true
		default:
			refs.hashes[f[0]] = digits(f[1])
			if len(f) == 4 {
				refs.peeled[f[0]] = digits(f[3])
			}
		}
	}
	return refs
}

func checkRef(t *testing.T, refs references, line string) {
	t.Helper()
	text, want, ok := strings.Cut(line, " = ")
	if !ok {
		text, want, _ = strings.Cut(line, " ! ")
		want = "! " + want
	}
	text = strings.TrimSpace(text)
	follow, err := parseRef(text)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	got, err := refs.resolve(follow)
	answer := got.name + " " + got.commit.String()[:1]
	if err != nil {
		answer = "! " + err.Error()
	}
	if answer != want {
		t.Errorf("%s\n got %s\nwant %s", text, answer, want)
	}
}

// Whatever a server lists and people ask for, the answer is a commit that was
// listed or asked for, or one line.
func FuzzRefs(f *testing.F) {
	for _, ref := range []string{"main", "semver:>=1 <2", "refs/pull/1/head", strings.Repeat("1", 40), "a..b", "v1", "-x", "refs/heads/\x00"} {
		f.Add(ref, "refs/heads/main", "refs/tags/v1.2.3")
	}
	f.Fuzz(func(t *testing.T, text, one, two string) {
		follow, err := parseRef(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x00") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		refs := references{hashes: map[string]plumbing.Hash{one: digits("1"), two: digits("2")}, peeled: map[string]plumbing.Hash{two: digits("3")}}
		if got, err := refs.resolve(follow); err == nil && got.commit != digits("1") && got.commit != digits("2") && got.commit != digits("3") {
			t.Errorf("commit %s comes from nowhere", got.commit)
		}
	})
}
