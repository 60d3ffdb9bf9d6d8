// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lamplighter.dev/reconcile/policy"
)

// readAnswer reads "answer KIND SUBJECT REPLY AGE MISSES [ended=AGE] [MESSAGE]". The
// SUBJECT of Admission and Room is DAEMONSET@REVISION@NODE; of a gate it is its URL.
func (s *scene) readAnswer(w []string) {
	s.t.Helper()
	if s.observed.Answers == nil {
		s.observed.Answers = Answers{}
	}
	a := Answer{Reply: Reply(w[3]), At: s.now.Add(-age(s.t, w[4])), Misses: number(s.t, w[5])}
	message := w[6:]
	if len(message) > 0 && strings.HasPrefix(message[0], "ended=") {
		a.Ended, message = s.now.Add(-age(s.t, message[0][len("ended="):])), message[1:]
	}
	a.Message = strings.Trim(strings.Join(message, " "), `"`)
	s.observed.Answers[s.question(w[1], w[2])] = a
}

func (s *scene) question(kind, subject string) Question {
	s.t.Helper()
	q := Question{Kind: QuestionKind(kind)}
	switch parts := strings.Split(subject, "@"); {
	case (q.Kind == Admission || q.Kind == Room) && len(parts) == 3:
		q.DaemonSet, q.Revision, q.Node = nameOf(parts[0]), parts[1], parts[2]
	case q.Kind == HTTPGate:
		q.HTTP = policy.HTTPGate{URL: subject, ExpectedStatus: 200}
	case q.Kind == PrometheusGate:
		q.Prometheus = policy.PrometheusGate{URL: subject, Query: "up", Comparison: policy.Comparison{Operator: ">", Threshold: 0}}
	case q.Kind == JobGate:
		q.Node, _, _ = strings.Cut(subject, "/")
		q.Job = s.jobName(subject)
	default:
		s.t.Fatalf("answer: unknown question %q %q", kind, subject)
	}
	return q
}

// readObjection reads "objection POLICY DAEMONSET@REVISION|GATE AGE [unknown]".
func (s *scene) readObjection(w []string) Objection {
	s.t.Helper()
	o := Objection{Policy: w[1], Since: s.now.Add(-age(s.t, w[3])), Message: "no room", Unknown: slices.Contains(w, "unknown")}
	if set, revision, aboutPod := strings.Cut(w[2], "@"); aboutPod {
		o.DaemonSet, o.Revision = "ns/"+set, revision
	} else {
		o.Gate = w[2]
	}
	return o
}

func (s *scene) formatAsking(p Plan) string {
	var b strings.Builder
	for _, o := range p.Ledger.Objections {
		about := o.Gate
		if about == "" {
			about = short(o.DaemonSet) + "@" + o.Revision
		}
		fmt.Fprintf(&b, "objection %s %s since %s", o.Policy, about, s.relative(o.Since))
		if o.Unknown {
			b.WriteString(" unknown")
		}
		fmt.Fprintf(&b, " (%s)\n", o.Message)
	}
	for _, u := range p.Uncordons {
		fmt.Fprintf(&b, "uncordon %s (%s)", u.Node, u.Policy)
		if u.MarkOnly {
			b.WriteString(" the mark only")
		}
		b.WriteString("\n")
	}
	for _, j := range p.Jobs {
		fmt.Fprintf(&b, "job %s %s of %s@%s\n", j.Node, j.Gate.Name, j.Policy, j.Revision)
	}
	for _, q := range p.Questions {
		subject := q.HTTP.URL + q.Prometheus.URL
		if q.Kind == Admission || q.Kind == Room {
			subject = q.DaemonSet.Name + "@" + q.Revision + "@" + q.Node
		}
		if q.Kind == JobGate {
			subject = q.Node
		}
		fmt.Fprintf(&b, "ask %s %s\n", q.Kind, subject)
	}
	return b.String()
}

// readGate reads "gate=[WAVE/]NAME:KIND:SUBJECT": http and prometheus with a host,
// condition with a type that has to be True.
func (s *scene) readGate(p *policy.UpgradePolicy, text string) {
	s.t.Helper()
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 {
		s.t.Fatalf("gate: %q is not NAME:KIND:SUBJECT", text)
	}
	wave, name, ofWave := strings.Cut(parts[0], "/")
	if !ofWave {
		name = wave
	}
	g := policy.Gate{Name: name}
	switch parts[1] {
	case "http":
		g.HTTP = policy.HTTPGate{URL: parts[2], ExpectedStatus: 200}
	case "prometheus":
		g.Prometheus = policy.PrometheusGate{URL: parts[2], Query: "up", Comparison: policy.Comparison{Operator: ">", Threshold: 0}}
	case "before", "after": // with a timeout
		g.Job = policy.JobGate{When: policy.Before, Spec: "{}", Timeout: age(s.t, parts[2])}
		if parts[1] == "after" {
			g.Job.When = policy.After
		}
	case "condition":
		g.NodeCondition = policy.NodeCondition{Type: parts[2], Status: "True"}
	default:
		s.t.Fatalf("gate: unknown kind %q", parts[1])
	}
	if !ofWave {
		p.Gates = append(p.Gates, g)
		return
	}
	for i := range p.Waves {
		if p.Waves[i].Name == wave {
			p.Waves[i].Gates = append(p.Waves[i].Gates, g)
		}
	}
}

// checkGates holds the visits that a plan starts against the gates of their
// waves.
func (c *check) checkGates(t reporter, p Plan) {
	t.Helper()
	started := c.started(p)
	for _, d := range p.Decisions {
		_, open := c.visits[visitKey{d.Policy, d.Node}]
		if (d.Action != Evict || open) && !started[visitKey{d.Policy, d.Node}] {
			continue
		}
		node, pol := c.nodes[d.Node], c.policies[d.Policy]
		for _, g := range pol.GatesOf(pol.WaveOf(node.Labels)) {
			q, asks := questionOf(g)
			since := c.now.Sub(c.obs.Answers[q].At)
			switch {
			case asks && !c.obs.Supposed && (c.obs.Answers[q].Reply != Yes || since < 0 || since >= 30*time.Second):
				t.Errorf("I12: starts on %s though nobody knows that gate %s is open", d.Node, g.Name)
			case g.Job.When != "":
			case !asks && conditionOf(&node, g.NodeCondition.Type) != g.NodeCondition.Status:
				t.Errorf("I12: starts on %s though gate %s is shut", d.Node, g.Name)
			}
		}
	}
}

// checkAsked holds evictions of a plan against what is known: none without a yes
// that counts, unless a pod of the revision was admitted before.
func (c *check) checkAsked(t reporter, p Plan) {
	t.Helper()
	for _, d := range p.Decisions {
		set := c.sets[d.DaemonSet.String()]
		if d.Action != Evict || c.obs.Supposed || c.obs.Ledger.Governed[d.DaemonSet.String()].Proven == set.Revision || c.runs(set.UID, set.Revision) {
			continue
		}
		admitted := false
		for q, a := range c.obs.Answers {
			since := c.now.Sub(a.At)
			admitted = admitted || (q.Kind == Admission && q.DaemonSet == d.DaemonSet && q.Revision == set.Revision &&
				a.Reply == Yes && since >= 0 && since < 30*time.Second)
		}
		if !admitted {
			t.Errorf("evicts on %s for %s of %s, which nobody has admitted", d.Node, set.Revision, d.DaemonSet)
		}
	}
}
