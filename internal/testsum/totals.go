// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of "go test -json"; see "go doc test2json". Builds report
// under ImportPath, tests under Package.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// totals is what all packages add up to. A test with subtests counts as its
// subtests, unless it failed by itself.
type totals struct {
	packages, passed int
	failed, skipped  []string // "package: test", in the order they ended
}

// ok tells whether everything that ran passed, and something ran.
func (t totals) ok() bool {
	return len(t.failed) == 0 && len(t.skipped) == 0 && t.passed > 0
}

func (t totals) print(w io.Writer) {
	for _, name := range t.failed {
		fmt.Fprintf(w, "FAIL  %s\n", name)
	}
	for _, name := range t.skipped {
		fmt.Fprintf(w, "SKIP  %s (a test that does not run proves nothing: make it run or delete it)\n", name)
	}
	fmt.Fprintf(w, "%d packages ok\n", t.packages)
	if len(t.skipped) > 0 {
		fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", t.passed, len(t.failed), len(t.skipped))
		return
	}
	fmt.Fprintf(w, "%d passed, %d failed\n", t.passed, len(t.failed))
}

// suite is one package under test.
type suite struct {
	result map[string]string   // test → its last action; "run" until it ended
	output map[string][]string // test → what it printed; "" is the package
}

// read adds up all events of r and writes a line per package to w, as each ends.
func read(r io.Reader, w io.Writer) (totals, error) {
	var t totals
	suites := make(map[string]*suite)
	builds := make(map[string][]string)
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(w, lines.Text()) // go itself speaks plainly when it cannot start
			continue
		}
		switch {
		case e.Action == "build-output":
			builds[e.ImportPath] = append(builds[e.ImportPath], e.Output)
		case e.Action == "build-fail":
		case e.Action == "exit": // not go's: see the Makefile
			if len(t.failed) == 0 {
				t.failed = append(t.failed, e.Package+": go test ended with an error")
			}
		default:
			s := suites[e.Package]
			if s == nil {
				s = &suite{result: make(map[string]string), output: make(map[string][]string)}
				suites[e.Package] = s
			}
			s.add(e)
			if e.Test == "" && ended(e.Action) {
				t.end(w, e, s, builds[e.FailedBuild])
				delete(suites, e.Package)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(suites)) {
		t.failed = append(t.failed, name+": never ended")
	}
	return t, lines.Err()
}

func ended(action string) bool { return action == "pass" || action == "fail" || action == "skip" }

func (s *suite) add(e event) {
	switch {
	case e.Action == "output":
		s.output[e.Test] = append(s.output[e.Test], e.Output)
	case e.Test != "" && (e.Action == "run" || ended(e.Action)):
		s.result[e.Test] = e.Action
	}
}

// end takes a finished package into the totals.
func (t *totals) end(w io.Writer, e event, s *suite, build []string) {
	before := len(t.failed) + len(t.skipped)
	passed := t.passed
	var broken []string
	for _, name := range slices.Sorted(maps.Keys(s.result)) {
		full := e.Package + ": " + name
		result := s.result[name]
		switch {
		case result == "skip":
			t.skipped = append(t.skipped, full)
		case s.explained(name, result):
		case result == "pass":
			t.passed++
		case result == "run":
			t.failed = append(t.failed, full+" (never ended)")
			broken = append(broken, name)
		default:
			t.failed = append(t.failed, full)
			broken = append(broken, name)
		}
	}
	if e.Action == "fail" && len(broken) == 0 {
		t.failed = append(t.failed, e.Package+" (no test of it failed: see its output)")
	}
	switch {
	case e.Action == "fail":
		fmt.Fprintf(w, "FAIL  %s\n", e.Package)
		dump(w, build)
		for _, name := range broken {
			dump(w, s.output[name])
		}
		dump(w, s.output[""])
	case len(t.failed)+len(t.skipped) > before:
		fmt.Fprintf(w, "SKIP  %s\n", e.Package)
	case len(s.result) > 0:
		t.packages++
		fmt.Fprintf(w, "ok    %s  %d tests, %.1fs\n", e.Package, t.passed-passed, e.Elapsed)
	}
}

// explained tells whether the subtests of a test say all there is to say.
func (s *suite) explained(name, result string) bool {
	subtests, same := 0, false
	for other, r := range s.result {
		if strings.HasPrefix(other, name+"/") {
			subtests++
			same = same || r != "pass"
		}
	}
	return subtests > 0 && (result == "pass" || same)
}

func dump(w io.Writer, output []string) {
	for _, line := range output {
		fmt.Fprint(w, "      ", strings.TrimSuffix(line, "\n"), "\n")
	}
}
