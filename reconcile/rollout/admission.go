// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"
)

// admitted says that the API server has admitted a pod of the revision already.
func (t *tour) admitted(d *daemonSet) bool {
	return d.admitted || t.book.ledger.Governed[d.key].Proven == d.Revision
}

// hear takes in what the API server has said about the pods of the policy's new
// revisions, and finds out whether it has rejected one.
func (t *tour) hear() {
	for _, set := range t.sets {
		d := t.fleet.sets[set]
		key := Objection{Policy: t.policy.Name, DaemonSet: d.key, Revision: d.Revision}
		switch {
		case !d.RevisionObserved:
		case t.admitted(d):
			t.book.overrule(key)
		default:
			t.book.hear(key, t.inquiry.admissions[podRevision{d.Name, d.Revision}])
		}
		o := t.book.objection(key)
		if o == nil || o.Unknown || t.rejected.reason != "" {
			continue
		}
		t.rejected = hold{action: Hold, reason: NotAdmitted, message: fmt.Sprintf(
			"the API server does not admit a pod of %s at %s: %s", d.key, d.Revision, o.Message)}
		t.rejected.until = t.after(t.inquiry.admissions[podRevision{d.Name, d.Revision}].askedAgain(Admission))
		t.alarm.at(t.rejected.until)
	}
}

// check asks, once for each revision, whether the API server admits its
// pod. It returns what is to be waited for; without a reason the message is a
// note.
func (t *tour) check(s *stop) hold {
	d := s.set
	if t.admitted(d) {
		return hold{}
	}
	if d.question.Kind == "" {
		d.question = Question{Kind: Admission, DaemonSet: d.Name, Revision: d.Revision, Node: s.node.Name}
	}
	a := t.inquiry.heed(d.question, t.inquiry.admissions[podRevision{d.Name, d.Revision}])
	o := t.book.objection(Objection{Policy: t.policy.Name, DaemonSet: d.key, Revision: d.Revision})
	switch {
	case t.rejects(d):
		return t.rejected
	case o != nil && (a.Reply != Yes || t.inquiry.supposed):
		return hold{action: Hold, reason: Checking, until: t.after(a.askedAgain(Admission)), message: "it is not known whether the API server admits the new pod: " + o.Message}
	case a.Reply != Yes:
		return hold{action: Hold, reason: Checking, message: "the API server is asked whether it admits the new pod"}
	}
	return hold{message: a.Message}
}

// stillRejected holds everything of a policy of which a pod is rejected, and asks
// about that pod again when it is time. It does so for others that wait, too: the
// nodes of the rejected pod may be in a later wave than theirs, or held.
func (t *tour) stillRejected(s *stop) hold {
	if t.rejected.reason == "" {
		return hold{}
	}
	if t.rejects(s.set) {
		return t.check(s)
	}
	for i := range t.stops {
		if o := &t.stops[i]; o.set != nil && t.rejects(o.set) && o.set.question.Kind == "" {
			t.check(o)
		}
	}
	return t.rejected
}

// rejects says that the rejected pod is one of the DaemonSet's.
func (t *tour) rejects(d *daemonSet) bool {
	o := t.book.objection(Objection{Policy: t.policy.Name, DaemonSet: d.key, Revision: d.Revision})
	return o != nil && !o.Unknown
}

// after is an instant that is to come; zero when it has passed.
func (t *tour) after(at time.Time) time.Time {
	if at.After(t.now) {
		return at
	}
	return time.Time{}
}
