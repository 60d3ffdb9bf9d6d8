// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/reconcile/policy"
)

// TestCases runs testdata/*.txt. Each file has cases one after another: what is
// observed, as the functions in scene_test.go read it, and after "-- want --"
// the plan. Durations are ages: "ready=10s" is Ready since 10 seconds.
func TestCases(t *testing.T) {
	for _, file := range casefile.Files(t, "testdata/*.txt") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		for i, text := range strings.Split(string(data), "\n== ") {
			title, body, _ := strings.Cut(strings.TrimPrefix(text, "== "), "\n")
			if i > 0 {
				out.WriteString("\n")
			}
			if title == "" || !strings.Contains(body, "-- want --\n") {
				t.Fatalf("%s: case %d has no title, or wants nothing", file, i+1)
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+title, func(t *testing.T) {
				body = runCase(t, body)
			})
			out.WriteString("== " + title + "\n" + body)
		}
		if *casefile.Update {
			if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// runCase returns the case with the plan that was got.
func runCase(t *testing.T, body string) string {
	t.Helper()
	input, want, _ := strings.Cut(body, "-- want --\n")
	s := readScene(t, input)
	plan := New(s.observed, s.policies, s.now)
	got := formatPlan(plan, s)
	if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); diff != "" && !*casefile.Update {
		t.Errorf("plan differs (-want +got):\n%s", diff)
	}
	checkConstant(t, s, plan)
	checkShuffled(t, s, plan)
	checkForecast(t, s.observed, s.policies, s.now)
	return input + "-- want --\n" + got
}

func formatPlan(p Plan, s *scene) string {
	var b strings.Builder
	for _, d := range p.Decisions {
		prefix := ""
		if len(s.policies) > 1 {
			prefix = d.Policy + ": "
		}
		fmt.Fprintf(&b, "%s%-5s %-6s %-4s %-13s %s", prefix, d.Action, d.Node, d.DaemonSet.Name, d.State, d.Reason)
		if !d.Until.IsZero() {
			fmt.Fprintf(&b, " until %s", s.relative(d.Until))
		}
		if d.Message != "" {
			fmt.Fprintf(&b, " (%s)", d.Message)
		}
		if d.Action == Evict {
			fmt.Fprintf(&b, " pod %s", d.Pod.UID)
		}
		b.WriteString("\n")
	}
	for _, v := range p.Ledger.Visits {
		fmt.Fprintf(&b, "visit %s %s%s\n", v.Policy, v.Node, s.formatSteps(v))
	}
	for _, v := range p.Ledger.Finished[min(s.finished, len(p.Ledger.Finished)):] {
		fmt.Fprintf(&b, "finished %s %s%s %s, took %s\n", v.Policy, v.Node, s.formatSteps(v), v.Outcome, v.Took())
	}
	for _, f := range p.Ledger.Failures {
		fmt.Fprintf(&b, "failure %s %s %s %s", f.Policy, f.Node, short(f.DaemonSet), f.Revision)
		if f.Acknowledged {
			b.WriteString(" acknowledged")
		}
		fmt.Fprintf(&b, " (%s)\n", f.Message)
	}
	for _, w := range p.Ledger.Waves {
		fmt.Fprintf(&b, "settled %s %s %s", w.Policy, w.Wave, s.relative(w.Settled))
		if w.Soaked {
			b.WriteString(" soaked")
		}
		b.WriteString("\n")
	}
	for _, l := range p.Ledger.Leaks {
		fmt.Fprintf(&b, "leak %s %s %s %s", l.Node, short(l.DaemonSet), l.Revision, l.Cause)
		if l.Message != "" {
			fmt.Fprintf(&b, " (%s)", l.Message)
		}
		if l.Pod == "" {
			b.WriteString(", going")
		}
		b.WriteString("\n")
	}
	for _, r := range p.Ledger.Reversals {
		fmt.Fprintf(&b, "reversal %s %s %s>%s of %s at %s\n", r.Policy, short(r.DaemonSet), r.From, r.To, r.Template, r.Commit)
	}
	for _, set := range s.policies {
		for _, name := range set.DaemonSets {
			if now := p.Ledger.Governed[name.String()].Settled; set.OnFailure == policy.Revert && now != s.observed.Ledger.Governed[name.String()].Settled {
				fmt.Fprintf(&b, "all settled %s %s\n", name.Name, now)
			}
		}
	}
	for _, p := range p.Ledger.Proceeds {
		fmt.Fprintf(&b, "proceed %s until %s\n", p.Policy, s.relative(p.Until))
	}
	b.WriteString(s.formatAsking(p))
	forecast := Simulate(s.observed, s.policies, s.now)
	for _, p := range p.Policies {
		b.WriteString(formatStatus(p, forecast.Of(p.Name), s))
	}
	if !p.NextLook.IsZero() {
		fmt.Fprintf(&b, "look again %s\n", s.relative(p.NextLook))
	}
	return jobNames.ReplaceAllString(b.String(), "$1")
}

// jobNames end with a digest, which says nothing to a reader.
var jobNames = regexp.MustCompile(`(lamplighter-[a-z-]+)-[0-9a-f]{18}`)

func formatStatus(p PolicyStatus, o Outlook, s *scene) string {
	line := fmt.Sprintf("policy %s: %d of %d nodes remain, %d blocked, %d of %d out of service",
		p.Name, p.Remaining, p.Nodes, p.Blocked, p.OutOfService, p.MaxUnavailable)
	if p.Halted {
		line += ", halted"
	}
	if p.Remaining > 0 && !o.Ends().IsZero() {
		line += ", done " + s.relative(o.Ends())
	}
	if o.Never != "" && o.Ends().IsZero() {
		line += ", never: " + o.Never
	}
	line += "\n"
	if p.Unhalting != "" {
		line += "warning: " + p.Unhalting + "\n"
	}
	for _, w := range p.Waves {
		line += fmt.Sprintf("wave %s: %d of %d nodes settled, %d blocked, %d of %d out of service, %s",
			w.Name, w.Settled, w.Nodes, w.Blocked, w.OutOfService, w.MaxUnavailable, w.State)
		if !w.SoakUntil.IsZero() {
			line += " until " + s.relative(w.SoakUntil)
		}
		if w.Message != "" {
			line += " (" + w.Message + ")"
		}
		line += "\n"
	}
	return line
}

func (s *scene) formatSteps(v Visit) string {
	var b strings.Builder
	if !v.Drain.Since.IsZero() {
		fmt.Fprintf(&b, " draining %s", s.relative(v.Drain.Since))
		if !v.Drain.Done.IsZero() {
			fmt.Fprintf(&b, " done %s", s.relative(v.Drain.Done))
		}
	}
	for _, r := range v.Jobs {
		fmt.Fprintf(&b, "  job %s %s", r.Gate, s.relative(r.Started))
		switch {
		case r.Failed:
			fmt.Fprintf(&b, " failed %s", s.relative(r.Ended))
		case !r.Ended.IsZero():
			fmt.Fprintf(&b, " done %s", s.relative(r.Ended))
		}
	}
	for _, step := range v.Steps {
		fmt.Fprintf(&b, "  %s:%s>%s %s", short(step.DaemonSet), step.From, step.To, s.relative(step.Evicted))
		if !step.Gone.IsZero() {
			fmt.Fprintf(&b, " gone %s", s.relative(step.Gone))
		}
		if !step.Replaced.IsZero() {
			fmt.Fprintf(&b, " replaced %s", s.relative(step.Replaced))
		}
		if !step.Settled.IsZero() {
			fmt.Fprintf(&b, " settled %s", s.relative(step.Settled))
		}
	}
	return b.String()
}

// relative writes an instant as it is from now.
func (s *scene) relative(t time.Time) string {
	switch d := t.Sub(s.now); {
	case d == 0:
		return "now"
	case d > 0:
		return "+" + d.String()
	default:
		return d.String()
	}
}

func short(daemonSet string) string {
	_, name, _ := strings.Cut(daemonSet, "/")
	return name
}
