// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"strings"
	"time"

	"lamplighter.dev/reconcile/policy"
)

// readMeasured reads "measured POLICY COUNT DURATION [of=DAEMONSET] [drain=DURATION]
// [before=GATE:DURATION] [after=GATE:DURATION]": a drain is a part of the whole, as are the Jobs
// before the visit; those after it are not.
func (s *scene) readMeasured(w []string) Visit {
	s.t.Helper()
	settled := s.now.Add(-day)
	v := Visit{Policy: w[1], Node: "x", Outcome: Settled, Finished: settled}
	evicted := settled.Add(-age(s.t, w[3]))
	of := s.policyOf(w[1]).DaemonSets[0].String()
	for _, word := range w[4:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "before":
			gate, ran, _ := strings.Cut(value, ":")
			v.Jobs = append(v.Jobs, JobRun{Gate: gate, Started: evicted, Ended: evicted.Add(age(s.t, ran))})
			evicted = evicted.Add(age(s.t, ran))
		case "of":
			of = nameOf(value).String()
		case "drain":
			v.Drain = Drainage{Since: evicted, Done: evicted.Add(age(s.t, value))}
			evicted = v.Drain.Done
		case "after":
			gate, ran, _ := strings.Cut(value, ":")
			v.Jobs = append(v.Jobs, JobRun{Gate: gate, Started: settled, Ended: settled.Add(age(s.t, ran))})
		default:
			s.t.Fatalf("measured: unknown word %q", word)
		}
	}
	v.Steps = []Step{{DaemonSet: of, To: "x", Evicted: evicted, Settled: settled}}
	return v
}

func (s *scene) policyOf(name string) policy.UpgradePolicy {
	s.t.Helper()
	i := slices.IndexFunc(s.policies, func(p policy.UpgradePolicy) bool { return p.Name == name })
	if i < 0 {
		s.t.Fatalf("no policy %q yet", name)
	}
	return s.policies[i]
}

// readVisit reads "visit POLICY NODE [drain=AGE or AGE/AGE [draindecided=AGE/TERM]] DAEMONSET:FROM>TO(evicted=AGE,
// gone=AGE,replaced=AGE,settled=AGE,retried,problem=WORD)...".
func (s *scene) readVisit(w []string) Visit {
	s.t.Helper()
	v := Visit{Policy: w[1], Node: w[2], Commit: "c0", Started: s.now.Add(-time.Hour)}
	for _, word := range w[3:] {
		if value, isDrain := strings.CutPrefix(word, "drain="); isDrain { // SINCE, and DONE after a slash
			since, done, isDone := strings.Cut(value, "/")
			if v.Drain.Since = s.now.Add(-age(s.t, since)); isDone {
				v.Drain.Done = s.now.Add(-age(s.t, done))
			} else {
				v.Drain.Message = "2 pods are left"
			}
			continue
		}
		if value, isDecided := strings.CutPrefix(word, "draindecided="); isDecided { // AGE, and the TERM after a slash
			decided, term, _ := strings.Cut(value, "/")
			v.Drain.Decided, v.Drain.Term = s.now.Add(-age(s.t, decided)), number(s.t, term)
			continue
		}
		if value, isJob := strings.CutPrefix(word, "job="); isJob {
			v.Jobs = append(v.Jobs, s.readJobRun(w[2], value))
			continue
		}
		head, rest, _ := strings.Cut(strings.TrimSuffix(word, ")"), "(")
		name, revisions, _ := strings.Cut(head, ":")
		from, to, _ := strings.Cut(revisions, ">")
		step := Step{DaemonSet: "ns/" + name, From: from, To: to, Pod: uid(w[2], name, from), GraceSeconds: 30}
		for attribute := range strings.SplitSeq(rest, ",") {
			switch key, value, _ := strings.Cut(attribute, "="); key {
			case "evicted":
				step.Evicted = s.now.Add(-age(s.t, value))
			case "gone":
				step.Gone = s.now.Add(-age(s.t, value))
			case "replaced":
				step.Replaced = s.now.Add(-age(s.t, value))
			case "settled":
				step.Settled = s.now.Add(-age(s.t, value))
			case "problem":
				step.Problem = value
			case "retried":
				step.Retried = true
			default:
				s.t.Fatalf("visit: unknown attribute %q", attribute)
			}
		}
		v.Steps = append(v.Steps, step)
	}
	return v
}
