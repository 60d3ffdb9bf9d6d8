// SPDX-License-Identifier: Apache-2.0

package rollout

import "time"

// room asks whether the new pod fits on the node, if it needs more than the one
// that it replaces: an evicted pod of which the successor finds no room is gone.
func (t *tour) room(s *stop) hold {
	if !s.growing() {
		return hold{}
	}
	q := t.roomFor(s)
	switch a := t.inquiry.heed(q, t.inquiry.answers[q]); a.Reply {
	case Yes:
		return hold{message: a.Message}
	case No:
		return hold{action: Hold, reason: NoRoom, until: t.roomAskedAgain(a), message: "the new pod would not fit: " + a.Message}
	case Unknown:
		return hold{action: Hold, reason: Checking, until: t.roomAskedAgain(a), message: "it is not known whether the new pod fits on the node: " + a.Message}
	default:
		return hold{action: Hold, reason: Checking, message: "the new pod needs more than the old one, and it is asked whether it fits on the node"}
	}
}

// roomAskedAgain is when the agent asks again; those who only look do not know.
func (t *tour) roomAskedAgain(a Answer) time.Time {
	if t.inquiry.supposed {
		return time.Time{}
	}
	return t.after(a.askedAgain(Room))
}

// growing says that the new pod needs more than the one that is there.
func (s *stop) growing() bool {
	pod := s.pod
	return pod != nil && pod.Needs != nil && !s.set.needs.Within(*pod.Needs)
}

func (t *tour) roomFor(s *stop) Question {
	return Question{Kind: Room, DaemonSet: s.set.Name, Revision: s.set.Revision, Node: s.node.Name}
}

// knownNoRoom holds a node of which it is known that the new pod does not fit,
// so that others go on.
func (t *tour) knownNoRoom(s *stop) hold {
	if !s.growing() || t.inquiry.answers[t.roomFor(s)].Reply != No {
		return hold{}
	}
	return t.room(s)
}

// awaited says that the answer about a node is on its way, so that its place is
// kept and not all nodes are asked about at once.
func (t *tour) awaited(s *stop) bool {
	return s.reason() == Checking && t.inquiry.asked[t.roomFor(s)] && t.inquiry.answers[t.roomFor(s)].Reply != Unknown
}
