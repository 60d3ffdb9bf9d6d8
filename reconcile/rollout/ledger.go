// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/policy"
)

// A Ledger is what the planner must remember between passes. It is a plain
// value: methods return a changed copy. The zero value is a ledger that is new
// or was lost; either way what is under way is found again from the pods.
//
// DaemonSets are written "namespace/name". All lists are sorted, so that equal
// ledgers are equal bytes.
type Ledger struct {
	Term       Term                  `json:"term,omitzero"`
	Visits     []Visit               `json:"visits,omitempty"`   // open ones, by policy and node
	Failures   []Failure             `json:"failures,omitempty"` // of revisions that are in force
	Refusals   []Refusal             `json:"refusals,omitempty"` // evictions that the API server refused
	Pauses     []Pause               `json:"pauses,omitempty"`
	Proceeds   []Proceed             `json:"proceeds,omitempty"`   // those that have not ended, by policy
	Objections []Objection           `json:"objections,omitempty"` // what speaks against evictions
	Finished   []Visit               `json:"finished,omitempty"`   // the last ones, oldest first
	Governed   map[string]Governance `json:"governed,omitempty"`   // by DaemonSet
	Waves      []SettledWave         `json:"waves,omitempty"`      // by policy and wave
	Reversals  []Reversal            `json:"reversals,omitempty"`  // by DaemonSet
	Leaks      []Leak                `json:"leaks,omitempty"`      // by DaemonSet and node
}

// A Visit takes one node from outdated to settled, for all DaemonSets of a
// policy. An open visit holds one slot of the policy's maxUnavailable.
type Visit struct {
	Policy   string    `json:"policy"`
	Node     string    `json:"node"`
	Commit   string    `json:"commit,omitempty"`
	Started  time.Time `json:"started"`
	Drain    Drainage  `json:"drain,omitzero"`
	Jobs     []JobRun  `json:"jobs,omitempty"` // of gates, in the order in which they were decided
	Steps    []Step    `json:"steps"`
	Finished time.Time `json:"finished,omitzero"`
	Outcome  Outcome   `json:"outcome,omitempty"`
}

// A Step is the part of a visit that is about one DaemonSet.
type Step struct {
	DaemonSet    string    `json:"daemonSet"`
	From         string    `json:"from,omitempty"`
	To           string    `json:"to"`
	Pod          types.UID `json:"pod,omitempty"` // the one to evict; "" when found under way
	GraceSeconds int       `json:"graceSeconds,omitempty"`
	Evicted      time.Time `json:"evicted"`            // when the eviction was last decided
	Term         int       `json:"term,omitzero"`      // in which that was; see [Term]
	Gone         time.Time `json:"gone,omitzero"`      // when the node was first seen without a pod
	Replaced     time.Time `json:"replaced,omitzero"`  // when the first new pod was created
	Settled      time.Time `json:"settled,omitzero"`   // when the new pod had settled
	Recovered    bool      `json:"recovered,omitzero"` // it had failed before it settled
	Retried      bool      `json:"retried,omitzero"`   // another pod was evicted before in this visit
	Problem      string    `json:"problem,omitempty"`  // what was said to the last try to evict, which came to nothing
	Resent       bool      `json:"resent,omitzero"`    // the pod's eviction was sent before, and what came of that is not known
}

// An Outcome says how a visit ended.
type Outcome string

const (
	// Settled: every DaemonSet settled in time.
	Settled Outcome = "settled"
	// Recovered: every DaemonSet settled, after a failure that is on record.
	Recovered Outcome = "recovered"
	// NodeGone: the node was deleted.
	NodeGone Outcome = "node gone"
	// Released: the policy or its DaemonSets are gone, or what is left on the
	// node is held by somebody.
	Released Outcome = "released"
)

// Took is how long the visit needed a window: for the Jobs before it, and while the
// node was drained and its pods were replaced. Waiting for a window between two
// DaemonSets does not count, nor do the Jobs after it.
func (v Visit) Took() time.Duration {
	before, _ := v.running()
	return before + v.afterJobs()
}

// running is for how long the Jobs of the visit ran, before it and after it.
func (v Visit) running() (before, after time.Duration) {
	for _, r := range v.Jobs {
		switch ran := r.Ended.Sub(r.Started); {
		case r.Ended.IsZero():
		case v.lastSettled() != nil && !r.Started.Before(v.lastSettled().Settled):
			after += ran
		default:
			before += ran
		}
	}
	return before, after
}

// verifying is for how long the Jobs after the visit ran.
func (v Visit) verifying() time.Duration {
	_, after := v.running()
	return after
}

// afterJobs is Took without the Jobs.
func (v Visit) afterJobs() time.Duration {
	took := v.replacing()
	if v.Drain.Done.After(v.Drain.Since) {
		took += v.Drain.Done.Sub(v.Drain.Since)
	}
	return took
}

// replacing is Took without the Jobs and the drain.
func (v Visit) replacing() time.Duration {
	var took time.Duration
	for _, s := range v.Steps {
		if s.Settled.After(s.Evicted) {
			took += s.Settled.Sub(s.Evicted)
		}
	}
	return took
}

// step finds the step about a DaemonSet.
func (v *Visit) step(daemonSet string) *Step {
	if v == nil {
		return nil
	}
	for i := range v.Steps {
		if v.Steps[i].DaemonSet == daemonSet {
			return &v.Steps[i]
		}
	}
	return nil
}

// A Failure is one node on which a revision did not settle. It stays until the
// DaemonSet has another revision, also when the node recovers by itself.
type Failure struct {
	Policy       string    `json:"policy"`
	Node         string    `json:"node"`
	DaemonSet    string    `json:"daemonSet"`
	Revision     string    `json:"revision"`
	Message      string    `json:"message,omitempty"`
	At           time.Time `json:"at"`
	Acknowledged bool      `json:"acknowledged,omitzero"` // it no longer counts
	Gate         string    `json:"gate,omitempty"`        // whose Job did not succeed after the visit; "" when the pod did not settle
}

// A Refusal is an eviction that the API server would not do. The node comes after
// those that have none on record.
type Refusal struct {
	Policy    string    `json:"policy"`
	Node      string    `json:"node"`
	DaemonSet string    `json:"daemonSet"`
	Pod       types.UID `json:"pod"`
	Message   string    `json:"message,omitempty"`
	At        time.Time `json:"at"`
	Again     int       `json:"again,omitzero"`   // how often that pod was refused before
	Drain     bool      `json:"drain,omitzero"`   // the node could not be emptied in time
	Drained   bool      `json:"drained,omitzero"` // it had been emptied for that
	Errored   bool      `json:"errored,omitzero"` // nobody refused: it was tried for a while and came to nothing
	Gate      string    `json:"gate,omitempty"`   // whose Job did not succeed before the visit
}

// A Pause stops a policy from starting anything until it is resumed.
type Pause struct {
	Policy string    `json:"policy"`
	Reason string    `json:"reason,omitempty"`
	By     string    `json:"by,omitempty"` // who said so, as the API server knows him
	Since  time.Time `json:"since"`
}

// A SettledWave is a wave of which every node that could be visited has settled
// on the revisions of the policy's DaemonSets. If it is lost, the instant is
// found again from the pods, or a later one.
type SettledWave struct {
	Policy    string            `json:"policy"`
	Wave      string            `json:"wave"`
	Nodes     string            `json:"nodes,omitempty"` // the selector
	Revisions map[string]string `json:"revisions"`       // by DaemonSet
	Settled   time.Time         `json:"settled"`         // when the last of the nodes had
	Soaked    bool              `json:"soaked,omitzero"` // it was settled, too, when its soak was over
}

// Governance is what is kept of a DaemonSet after it has left Git: the policy
// that governed it last, whose windows its deletion waits for. The zero
// Governance is that of one which is known to be in no policy; of a DaemonSet
// without an entry nothing is known.
type Governance struct {
	Policy    string            `json:"policy,omitempty"`
	Proven    string            `json:"proven,omitempty"`  // the revision that a visit settled last
	Settled   string            `json:"settled,omitempty"` // the last revision on which all nodes had settled
	Documents []policy.Document `json:"documents,omitempty"`
	Revision  string            `json:"revision,omitempty"` // the one in force
	Since     time.Time         `json:"since,omitzero"`     // when that was seen first
	Before    time.Time         `json:"before,omitzero"`    // when the one before was, or Since
	Left      bool              `json:"left,omitzero"`      // its template was live without the policy: only its deletion waits
}

// Pause stops a policy, in the place of what was said of it before.
func (l Ledger) Pause(p Pause) Ledger {
	l = l.withoutPause(p.Policy)
	l.Pauses = append(l.Pauses, p)
	slices.SortFunc(l.Pauses, func(a, b Pause) int { return cmp.Compare(a.Policy, b.Policy) })
	return l
}

// Resume acknowledges the failures of a policy and ends its pause. A visit
// whose node is still broken stays open and keeps its slot. What was marked bad
// is not any more, and is tried again; what was refused is tried again at once.
func (l Ledger) Resume(policy string) Ledger {
	l = l.withoutPause(policy)
	l.Failures = slices.Clone(l.Failures)
	for i := range l.Failures {
		if l.Failures[i].Policy == policy {
			l.Failures[i].Acknowledged = true
		}
	}
	l.Reversals = slices.DeleteFunc(slices.Clone(l.Reversals), func(r Reversal) bool { return r.Policy == policy })
	return l.tryAgain(policy)
}

// tryAgain ends the waits of a policy after refusals. That of a Job is remembered,
// since the next one needs another name.
func (l Ledger) tryAgain(policy string) Ledger {
	l.Refusals = slices.DeleteFunc(slices.Clone(l.Refusals), func(r Refusal) bool { return r.Policy == policy && r.Gate == "" })
	for i := range l.Refusals {
		if r := &l.Refusals[i]; r.Policy == policy {
			r.At = r.At.Add(-lastInsistence)
		}
	}
	return l
}

func (l Ledger) withoutPause(policy string) Ledger {
	l.Pauses = slices.DeleteFunc(slices.Clone(l.Pauses), func(p Pause) bool { return p.Policy == policy })
	return l
}

// Refuse records that the API server refused the eviction of a decision. A
// visit that had not begun ends with it, so that other nodes get its slot. One
// in which a pod was evicted before stays open: its node may be down by our
// doing. So does one that an earlier term has left, whose leader may have sent the
// same eviction a moment later or be draining its node, and one for which the same was sent before: an answer
// that never came says nothing of what became of that. The decision may be to drain: then the eviction that
// was to follow would be refused, and nothing was done.
func (l Ledger) Refuse(d Decision, message string, now time.Time) Ledger {
	if d.Pod == nil {
		return l
	}
	r := Refusal{Policy: d.Policy, Node: d.Node, DaemonSet: d.DaemonSet.String(), Pod: d.Pod.UID, Message: message, At: now}
	r.Again = l.refusedBefore(r)
	l.Refusals = append(slices.DeleteFunc(slices.Clone(l.Refusals), r.sameNode), r)
	slices.SortFunc(l.Refusals, compareRefusals)

	l.Visits = cloneVisits(l.Visits)
	for i := range l.Visits {
		v := &l.Visits[i]
		if v.Policy != d.Policy || v.Node != d.Node {
			continue
		}
		l.Refusals[slices.IndexFunc(l.Refusals, r.sameNode)].Drained = !v.Drain.Done.IsZero()
		v.Steps = slices.DeleteFunc(v.Steps, func(s Step) bool {
			return s.DaemonSet == r.DaemonSet && s.Pod == r.Pod && !s.Retried && !s.Resent && s.Term == l.Term.Number
		})
	}
	l.Visits = slices.DeleteFunc(l.Visits, func(v Visit) bool {
		ours := v.Drain.Since.IsZero() || v.Drain.Term == l.Term.Number
		return v.Policy == d.Policy && v.Node == d.Node && len(v.Steps) == 0 && ours
	})
	return l
}

// refusedBefore counts the refusals of the same pod in a row.
func (l Ledger) refusedBefore(r Refusal) int {
	for _, before := range l.Refusals {
		if before.sameNode(r) && before.Pod == r.Pod && !before.Errored {
			return before.Again + 1
		}
	}
	return 0
}

func (r Refusal) sameNode(other Refusal) bool {
	return r.Policy == other.Policy && r.Node == other.Node
}

// lost says that nothing is remembered. That DaemonSets are in no policy says
// nothing of visits, since none is for them.
func (l *Ledger) lost() bool {
	for _, g := range l.Governed {
		if g.Policy != "" || g.Proven != "" || g.Settled != "" {
			return false
		}
	}
	return len(l.Visits) == 0 && len(l.Failures) == 0 && len(l.Finished) == 0
}

// clone copies what the planner changes. To what has finished it only adds.
func (l Ledger) clone() Ledger {
	l.Visits = cloneVisits(l.Visits)
	l.Failures = slices.Clone(l.Failures)
	l.Refusals = slices.Clone(l.Refusals)
	l.Pauses = slices.Clone(l.Pauses)
	l.Proceeds = slices.Clone(l.Proceeds)
	l.Objections = slices.Clone(l.Objections)
	l.Finished = slices.Clip(l.Finished)
	l.Governed = maps.Clone(l.Governed)
	l.Waves = slices.Clone(l.Waves)
	l.Leaks = slices.Clone(l.Leaks)
	l.Reversals = slices.Clone(l.Reversals)
	return l
}

func cloneVisits(visits []Visit) []Visit {
	visits = slices.Clone(visits)
	for i := range visits {
		visits[i].Steps = slices.Clone(visits[i].Steps)
		visits[i].Jobs = slices.Clone(visits[i].Jobs)
	}
	return visits
}

func compareVisits(a, b Visit) int {
	return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Node, b.Node))
}

func compareRefusals(a, b Refusal) int {
	return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Node, b.Node))
}

func compareFailures(a, b Failure) int {
	return cmp.Or(cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.DaemonSet, b.DaemonSet), cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Gate, b.Gate))
}
