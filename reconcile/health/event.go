// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Subject is an object that events are about.
type Subject struct {
	Kind string
	Name types.NamespacedName
	UID  types.UID // of that one and no other of the name; "" for any
}

// An Event is what a component of the cluster said about an object, in its own
// words.
type Event struct {
	About   Subject
	Reason  string
	Message string    // on one line
	Warning bool      // else it is said of what went well
	Count   int       // how often it was said; at least 1
	Last    time.Time // when it was said last
}

// EventOf reads an Event object.
func EventOf(e *corev1.Event) Event {
	out := Event{
		About: Subject{
			Kind: e.InvolvedObject.Kind, UID: e.InvolvedObject.UID,
			Name: types.NamespacedName{Namespace: e.InvolvedObject.Namespace, Name: e.InvolvedObject.Name},
		},
		Reason: e.Reason, Message: strings.Join(strings.Fields(e.Message), " "),
		Warning: e.Type == corev1.EventTypeWarning, Count: max(int(e.Count), 1),
		Last: latest(latest(e.FirstTimestamp.Time, e.LastTimestamp.Time), e.EventTime.Time),
	}
	if e.Series != nil {
		out.Count, out.Last = max(int(e.Series.Count), out.Count), latest(out.Last, e.Series.LastObservedTime.Time)
	}
	return out
}

// SortEvents puts the newest first, and equal ones in a fixed order.
func SortEvents(events []Event) {
	slices.SortFunc(events, func(a, b Event) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.About.Name.String(), b.About.Name.String()),
			cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
}
