// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	tests := []struct {
		name   string
		events string
		ok     bool
		want   string // end of the output
	}{{
		name: "subtests count, their parent does not",
		events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"run","Package":"p","Test":"TestA/two"}
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA/two"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Elapsed":1.25}`,
		ok:   true,
		want: "ok    p  3 tests, 1.2s\n1 packages ok\n3 passed, 0 failed\n",
	}, {
		name: "a failure shows its output and counts once",
		events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"output","Package":"p","Test":"TestA/one","Output":"got 2, want 1\n"}
{"Action":"fail","Package":"p","Test":"TestA/one"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
		want: "FAIL  p\n      got 2, want 1\nFAIL  p: TestA/one\n0 packages ok\n0 passed, 1 failed\n",
	}, {
		name: "a parent that fails by itself is a failure",
		events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
		want: "1 passed, 1 failed\n",
	}, {
		name: "a skipped test is not ok",
		events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p"}`,
		want: "1 passed, 0 failed, 1 skipped\n",
	}, {
		name: "a package that does not build is a failure",
		events: `
{"ImportPath":"p [p.test]","Action":"build-output","Output":"./a.go:3:1: syntax error\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
		want: "FAIL  p\n      ./a.go:3:1: syntax error\n      FAIL\tp [build failed]\n" +
			"FAIL  p (no test of it failed: see its output)\n0 packages ok\n0 passed, 1 failed\n",
	}, {
		name: "a test that never ended is a failure",
		events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}`,
		want: "FAIL  p: TestA (never ended)\n0 packages ok\n0 passed, 1 failed\n",
	}, {
		name:   "a package whose events stop is a failure",
		events: `{"Action":"start","Package":"p"}`,
		want:   "FAIL  p: never ended\n0 packages ok\n0 passed, 1 failed\n",
	}, {
		name: "a package without tests is no package",
		events: `
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"?   \tp\t[no test files]\n"}
{"Action":"skip","Package":"p"}`,
		want: "0 packages ok\n0 passed, 0 failed\n",
	}, {
		name: "go that ends with an error and without an event is a failure",
		events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}
{"Action":"exit","Package":"the other module"}`,
		want: "FAIL  the other module: go test ended with an error\n1 packages ok\n1 passed, 1 failed\n",
	}, {
		name:   "no test at all is not ok",
		events: "go: go.mod file not found",
		want:   "go: go.mod file not found\n0 packages ok\n0 passed, 0 failed\n",
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			totals, err := read(strings.NewReader(strings.TrimSpace(tt.events)), &out)
			if err != nil {
				t.Fatal(err)
			}
			totals.print(&out)
			if got := totals.ok(); got != tt.ok {
				t.Errorf("ok: got %v, want %v", got, tt.ok)
			}
			if got := out.String(); !strings.HasSuffix(got, tt.want) {
				t.Errorf("got:\n%s\nwant as its end:\n%s", got, tt.want)
			}
		})
	}
}
