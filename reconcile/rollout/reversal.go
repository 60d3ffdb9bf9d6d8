// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/policy"
)

// A Reversal takes a DaemonSet back to the last revision on which all its nodes
// had settled. It marks the template that Git has as bad, and stays until Git
// has another one, or somebody resumes the policy: until then the DaemonSet's
// template is that of To, whatever Git says.
type Reversal struct {
	Policy    string    `json:"policy"`
	DaemonSet string    `json:"daemonSet"`
	Commit    string    `json:"commit,omitempty"` // that brought the bad template; of a working tree none
	Template  string    `json:"template"`         // digest of it, as Git has it
	From      string    `json:"from"`             // its revision
	To        string    `json:"to"`
	Reason    string    `json:"reason"` // why it is bad
	Since     time.Time `json:"since"`
}

// Marks says that a template in Git, of which this is the digest, is the bad one.
// Of one that is not known it is taken to be.
func (r Reversal) Marks(template string) bool { return template == "" || template == r.Template }

// String says what a person has to do about it.
func (r Reversal) String() string {
	return fmt.Sprintf("%s is marked bad, and revision %s stays until Git changes the template: %s", commitWords(r.Commit), r.To, r.Reason)
}

func commitWords(hash string) string {
	if hash == "" {
		return "what was applied"
	}
	return "commit " + hash[:min(len(hash), 7)]
}

// Reversal is the one of a DaemonSet; nil when there is none.
func (l Ledger) Reversal(daemonSet types.NamespacedName) *Reversal {
	return l.reversal(daemonSet.String())
}

func (l Ledger) reversal(daemonSet string) *Reversal {
	for i := range l.Reversals {
		if r := &l.Reversals[i]; r.DaemonSet == daemonSet {
			return r
		}
	}
	return nil
}

// recordSettled remembers the revisions on which every node has settled that is
// Ready and on which the DaemonSet should run, and of which no Job is awaited.
func (t *tour) recordSettled() {
	if t.verifying() {
		return
	}
	for place, set := range t.sets {
		if d := t.fleet.sets[set]; d.RevisionObserved && t.settled[place] > 0 && t.unsettled[place] == 0 {
			t.book.settleAll(d.key, d.Revision)
		}
	}
}

func (b *book) settleAll(daemonSet, revision string) {
	g := b.ledger.Governed[daemonSet]
	if g.Settled == revision {
		return
	}
	g.Settled = revision
	if b.ledger.Governed == nil {
		b.ledger.Governed = map[string]Governance{}
	}
	b.ledger.Governed[daemonSet] = g
}

// lookSoon is how soon after a reversal has begun or ended the next pass is due:
// nothing in the cluster tells of it.
const lookSoon = time.Second

// revert takes the DaemonSets back whose failures halt the policy, if it is to be,
// and says of each what comes of it. It stays halted until that has come.
func (t *tour) revert() {
	if t.halted == "" || t.policy.OnFailure != policy.Revert {
		return
	}
	why := Halts(t.book.ledger.Failures, t.policy)
	if why == "" { // one that is astray takes no other one back
		return
	}
	for _, set := range t.sets {
		d := t.fleet.sets[set]
		if failed := t.failing(d); failed != "" {
			t.halted += t.goBack(d, failed, why)
		}
	}
}

// failing is the revision of the DaemonSet of which a failure counts: the one that
// it goes back from, or else the one in force; "" when neither has any. A Job may yet
// fail on one before, which says nothing of this one.
func (t *tour) failing(d *daemonSet) string {
	failing := ""
	r := t.book.ledger.reversal(d.key)
	for _, f := range t.book.ledger.Failures {
		if f.Policy != t.policy.Name || f.DaemonSet != d.key || f.Acknowledged {
			continue
		}
		if r != nil && f.Revision == r.From {
			return r.From
		}
		if f.Revision == d.Revision {
			failing = d.Revision
		}
	}
	return failing
}

// goBack begins a reversal, goes on with it, or says why it cannot be. While a new
// template is on its way there is nothing to say.
func (t *tour) goBack(d *daemonSet, failed, why string) string {
	to := t.book.ledger.Governed[d.key].Settled
	if r := t.book.ledger.reversal(d.key); r != nil && r.From == failed {
		to = r.To
	} else if d.TemplatePending || !d.RevisionObserved {
		return ""
	} else if obstacle := t.cannotGoBack(d, to); obstacle != "" {
		return "; DaemonSet " + d.key + " is not reverted: " + obstacle
	} else {
		t.book.reverse(Reversal{
			Policy: t.policy.Name, DaemonSet: d.key, Commit: t.commitOf(d), Template: t.rendered[d.Name],
			From: d.Revision, To: to, Reason: why, Since: t.now,
		})
		t.alarm.at(t.now.Add(lookSoon))
	}
	if _, kept := d.RevisionAt(to); !kept {
		t.book.unmark(d.key)
		return "; DaemonSet " + d.key + " is not reverted: " + gone(to)
	}
	return "; DaemonSet " + d.key + " goes back to " + to
}

func gone(revision string) string {
	return "the API server does not keep revision " + revision + " any more, on which all its nodes had settled last"
}

// cannotGoBack says why a reversal must not begin; "" when it may.
func (t *tour) cannotGoBack(d *daemonSet, to string) string {
	_, kept := d.RevisionAt(to)
	switch {
	case !d.OnDelete:
		return "its update strategy is not OnDelete: the DaemonSet controller would replace its pods"
	case t.rendered[d.Name] == "":
		return "its template in Git is not known"
	case to == "":
		return "no revision is on record on which all its nodes had settled"
	case to == d.Revision:
		return to + " is the last revision on which all its nodes had settled"
	case !kept:
		return gone(to)
	case t.book.ledger.reversal(d.key) != nil:
		return d.Revision + " is what it has gone back to"
	}
	return ""
}

// commitOf is the commit with which the first visit to the DaemonSet's revision
// began, or the one in force.
func (t *tour) commitOf(d *daemonSet) string {
	first := Visit{Commit: t.commit}
	for _, visits := range [][]Visit{t.book.ledger.Finished, t.book.visits()} {
		for _, v := range visits {
			step := v.step(d.key)
			if step != nil && step.To == d.Revision && v.Commit != "" && (first.Started.IsZero() || v.Started.Before(first.Started)) {
				first = v
			}
		}
	}
	return first.Commit
}

// astray halts a policy of which a DaemonSet was to go back and has become
// something else, or what is bad again: its nodes would be visited for nobody knows
// what. Whoever reads Git sees that a template waits, and says so.
func (t *tour) astray() string {
	for _, set := range t.sets {
		d := t.fleet.sets[set]
		if r := t.book.ledger.reversal(d.key); r != nil && d.trusted() && d.Revision != r.To {
			return fmt.Sprintf("DaemonSet %s was to go back to revision %s and is at %s: somebody changes its template", d.key, r.To, d.Revision)
		}
	}
	return ""
}

// goesBack says that a node only returns to what all nodes had run, so that no
// wave has to try it first.
func (t *tour) goesBack(s *stop) bool {
	r := t.book.ledger.reversal(s.set.key)
	return r != nil && s.set.trusted() && s.set.Revision == r.To && s.pod != nil && s.pod.Hash == r.From
}

// reverse records a reversal in the place of the DaemonSet's last one.
func (b *book) reverse(r Reversal) {
	b.unmark(r.DaemonSet)
	b.ledger.Reversals = append(b.ledger.Reversals, r)
	slices.SortFunc(b.ledger.Reversals, func(x, y Reversal) int { return cmp.Compare(x.DaemonSet, y.DaemonSet) })
}

func (b *book) unmark(daemonSet string) {
	b.ledger.Reversals = slices.DeleteFunc(b.ledger.Reversals, func(r Reversal) bool { return r.DaemonSet == daemonSet })
}

// keepReversals drops those of DaemonSets that are gone, and those of which Git
// has another template now.
func (b *book) keepReversals(f *fleet, policyOf map[string]string) {
	b.ledger.Reversals = slices.DeleteFunc(b.ledger.Reversals, func(r Reversal) bool {
		i := slices.IndexFunc(f.sets, func(d *daemonSet) bool { return d.key == r.DaemonSet })
		return i < 0 || !r.Marks(f.rendered[f.sets[i].Name])
	})
	for i := range b.ledger.Reversals {
		if to, governed := policyOf[b.ledger.Reversals[i].DaemonSet]; governed {
			b.ledger.Reversals[i].Policy = to
		}
	}
}
