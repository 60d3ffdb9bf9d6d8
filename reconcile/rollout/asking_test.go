// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// readAnswer reads "answer KIND SUBJECT REPLY AGE MISSES [MESSAGE]". The SUBJECT of
// Admission and Room is DAEMONSET@REVISION@NODE.
func (s *scene) readAnswer(w []string) {
	s.t.Helper()
	if s.observed.Answers == nil {
		s.observed.Answers = Answers{}
	}
	s.observed.Answers[s.question(w[1], w[2])] = Answer{
		Reply: Reply(w[3]), At: s.now.Add(-age(s.t, w[4])), Misses: number(s.t, w[5]), Message: strings.Trim(strings.Join(w[6:], " "), `"`),
	}
}

func (s *scene) question(kind, subject string) Question {
	s.t.Helper()
	q := Question{Kind: QuestionKind(kind)}
	switch parts := strings.Split(subject, "@"); {
	case (q.Kind == Admission || q.Kind == Room) && len(parts) == 3:
		q.DaemonSet, q.Revision, q.Node = nameOf(parts[0]), parts[1], parts[2]
	default:
		s.t.Fatalf("answer: unknown question %q %q", kind, subject)
	}
	return q
}

// readObjection reads "objection POLICY DAEMONSET@REVISION AGE [unknown]".
func (s *scene) readObjection(w []string) Objection {
	s.t.Helper()
	set, revision, _ := strings.Cut(w[2], "@")
	return Objection{
		Policy: w[1], DaemonSet: "ns/" + set, Revision: revision, Since: s.now.Add(-age(s.t, w[3])),
		Message: "no room", Unknown: slices.Contains(w, "unknown"),
	}
}

func (s *scene) formatAsking(p Plan) string {
	var b strings.Builder
	for _, o := range p.Ledger.Objections {
		fmt.Fprintf(&b, "objection %s %s@%s since %s", o.Policy, short(o.DaemonSet), o.Revision, s.relative(o.Since))
		if o.Unknown {
			b.WriteString(" unknown")
		}
		fmt.Fprintf(&b, " (%s)\n", o.Message)
	}
	for _, q := range p.Questions {
		fmt.Fprintf(&b, "ask %s %s@%s@%s\n", q.Kind, q.DaemonSet.Name, q.Revision, q.Node)
	}
	return b.String()
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
