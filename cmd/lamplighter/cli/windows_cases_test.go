// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lamplighter.dev/cmd/lamplighter/cli"
	"lamplighter.dev/cmd/lamplighter/show"
)

// windowCases is reconcile/window/testdata/windows.json: answers that follow
// from the rules alone.
type windowCases struct {
	Rows []struct {
		ID, TimeZone, Schedule, Duration string
		At                               time.Time
		Open                             bool
		Start, Close                     time.Time
	}
	Precedence struct {
		TimeZone string
		Windows  map[string]struct{ Schedule, Duration string }
		Freeze   struct{ Start, End time.Time }
		Estimate string
		Rows     []struct {
			ID                       string
			At                       time.Time
			Open, Frozen, MayStart   bool
			EffectiveClose, NextOpen time.Time
		}
	}
}

func readWindowCases(t *testing.T) windowCases {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, "reconcile", "window", "testdata", "windows.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases windowCases
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

const (
	fleetAgent = `apiVersion: apps/v1
kind: DaemonSet
metadata: {name: exporter, namespace: shop}
spec:
  updateStrategy: {type: OnDelete}
  selector: {matchLabels: {app: exporter}}
  template:
    metadata: {labels: {app: exporter}}
    spec: {containers: [{name: exporter, image: "exporter:v1"}]}
`
	fleetWindow = `---
apiVersion: lamplighter.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: %s}
spec: {timeZone: %s, schedule: %q, duration: %s}
`
	fleetFreeze = `---
apiVersion: lamplighter.dev/v1alpha1
kind: Freeze
metadata: {name: %s}
spec: {start: %q, end: %q}
`
	fleetPolicy = `---
apiVersion: lamplighter.dev/v1alpha1
kind: UpgradePolicy
metadata: {name: exporters}
spec:
  daemonSets: [{namespace: shop, name: exporter}]
  windows: [%s]
  visitDuration: %s
`
)

// TestWindowsAnswersEveryCase asks the command about every row: those that can
// never be open, or never shut, are refused.
func TestWindowsAnswersEveryCase(t *testing.T) {
	refused := map[string]string{
		"10": `spec.schedule: "0 0 30 2 *" never fires`,
		"11": "spec.duration: 36h reaches the next opening every time, so it never closes",
	}
	rows := readWindowCases(t).Rows
	if len(rows) < 35 {
		t.Fatalf("only %d rows", len(rows))
	}
	for _, row := range rows {
		t.Run(row.ID, func(t *testing.T) {
			dir := writeFleet(t, fleetAgent+
				fmt.Sprintf(fleetWindow, "nights", row.TimeZone, row.Schedule, row.Duration)+fmt.Sprintf(fleetPolicy, "nights", "5m"))
			code, stdout, stderr := runCommand(t, "windows", dir, "--at", row.At.Format(time.RFC3339Nano), "-o", "json")
			if want, ok := refused[row.ID]; ok {
				if code != 2 || stdout != "" || !strings.Contains(stderr, want) {
					t.Errorf("exit %d, %q, %q: want it refused with %q", code, stdout, stderr, want)
				}
				return
			}
			got := oneInstant(t, code, stdout, stderr)
			state, verb := "shut", "nights opens "
			if row.Open {
				state, verb = "open", "nights opened "
			}
			if got.State != state || got.By != "nights" || !strings.Contains(got.Why, verb) {
				t.Errorf("got %+v, want %s, and why: %s", got, state, verb)
			}
			if row.Open && (!instantOf(t, got.Until).Equal(row.Close) || instantOf(t, got.Opened).After(row.Start)) {
				t.Errorf("open from %s until %s, want from %s until %s", got.Opened, got.Until, row.Start, row.Close)
			}
			if !row.Open && got.Opened+got.LastStart != "" {
				t.Errorf("shut, and %+v", got)
			}
		})
	}
}

// TestWindowsAnswersEveryPrecedenceCase does so for the rows on windows that
// overlap and a freeze.
func TestWindowsAnswersEveryPrecedenceCase(t *testing.T) {
	p := readWindowCases(t).Precedence
	fleet := fleetAgent + fmt.Sprintf(fleetFreeze, "year-end", p.Freeze.Start.Format(time.RFC3339), p.Freeze.End.Format(time.RFC3339))
	for _, name := range []string{"A", "B"} {
		w := p.Windows[name]
		fleet += fmt.Sprintf(fleetWindow, strings.ToLower(name), p.TimeZone, w.Schedule, w.Duration)
	}
	dir := writeFleet(t, fleet+fmt.Sprintf(fleetPolicy, "a, b", p.Estimate))
	if len(p.Rows) < 6 {
		t.Fatalf("only %d rows", len(p.Rows))
	}
	for _, row := range p.Rows {
		t.Run(row.ID, func(t *testing.T) {
			code, stdout, stderr := runCommand(t, "windows", dir, "--at", row.At.Format(time.RFC3339Nano), "-o", "json")
			got := oneInstant(t, code, stdout, stderr)
			state, why := "shut", "shut: a opens "
			switch {
			case row.Open:
				state, why = "open", "a opened "
			case row.Frozen:
				state, why = "frozen", "frozen by year-end until "
			}
			if got.State != state || !strings.Contains(got.Why, why) {
				t.Errorf("got %+v, want %s, and why: %s", got, state, why)
			}
			if row.Open && !instantOf(t, got.Until).Equal(row.EffectiveClose) {
				t.Errorf("until %s, want %s", got.Until, row.EffectiveClose)
			}
			if mayStart := got.LastStart != "" && !row.At.After(instantOf(t, got.LastStart)); mayStart != row.MayStart {
				t.Errorf("last start %q: may start %v, want %v", got.LastStart, mayStart, row.MayStart)
			}
			if late := strings.Contains(got.Why, "too late to start"); late != (row.Open && !row.MayStart) {
				t.Errorf("why: %s", got.Why)
			}
			if !row.NextOpen.IsZero() && !instantOf(t, got.Opens).Equal(row.NextOpen) {
				t.Errorf("next open %s, want %s", got.Opens, row.NextOpen)
			}
		})
	}
}

func writeFleet(t *testing.T, manifests string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "fleet.yaml"), []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runCommand runs lamplighter in this process.
func runCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return code, out.String(), errs.String()
}

func oneInstant(t *testing.T, code int, stdout, stderr string) show.Instant {
	t.Helper()
	var answer show.Instants
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != 0 || len(answer.Instants) != 1 {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	return answer.Instants[0]
}

func instantOf(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
