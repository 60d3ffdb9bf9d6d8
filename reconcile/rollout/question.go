// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/policy"
)

// A Question is something that has to be known before a pod is evicted and that
// no watch tells. Equal questions have one answer. Fields that say nothing to
// its Kind are zero.
type Question struct {
	Kind      QuestionKind
	DaemonSet types.NamespacedName
	Revision  string // of the DaemonSet
	Node      string // where the pod is to be

	HTTP       policy.HTTPGate
	Prometheus policy.PrometheusGate
	Job        string // its name
}

// A QuestionKind says what a question is about.
type QuestionKind string

const (
	// Admission: does the API server admit a pod of the DaemonSet's Revision on
	// the Node? The answer for one node counts for all.
	Admission QuestionKind = "Admission"
	// Room: does a pod of the DaemonSet's Revision fit on the Node, in the place
	// of the one that is there?
	Room QuestionKind = "Room"
	// HTTPGate: does the address answer with the status?
	HTTPGate QuestionKind = "HTTPGate"
	// PrometheusGate: does every value of the query compare?
	PrometheusGate QuestionKind = "PrometheusGate"
	// JobGate: has the Job that a gate runs for the Node succeeded?
	JobGate QuestionKind = "JobGate"
)

// Answers are what has been found out, by question.
type Answers map[Question]Answer

// An Answer is what was found out about a question. The zero Answer is that
// nothing is known.
type Answer struct {
	Reply   Reply
	Message string    // why, or a note on a Yes; "" when there is nothing to say
	At      time.Time // when it was asked
	Ended   time.Time // when the Job had ended; only of a Yes or No about one, and zero when that is not known
	// Misses is how often in a row the Reply was not Yes, this time included.
	// The more there are, the later it is asked again.
	Misses int
}

// A Reply is what an answer comes to.
type Reply string

const (
	// Yes: nothing speaks against it.
	Yes Reply = "yes"
	// No: something does.
	No Reply = "no"
	// Unknown: it could not be found out.
	Unknown Reply = "unknown"
	// Pending: it is being decided. Only of a Job.
	Pending Reply = "pending"
	// Absent: what is asked about is not there. Only of a Job.
	Absent Reply = "absent"
)

// A Yes counts for fresh. What was not a Yes is asked again after firstAsk, then
// twice as long each time, up to lastAsk: a rejected pod waits for somebody, and
// there may be no room on thousands of nodes. A gate opens by itself: up to
// lastGate.
const (
	fresh    = 30 * time.Second
	firstAsk = 5 * time.Second
	lastAsk  = 5 * time.Minute
	lastGate = 30 * time.Second
)

// askedAgain is when the question is asked again; zero when it never was.
func (a Answer) askedAgain(kind QuestionKind) time.Time {
	switch {
	case a.Reply == "":
		return time.Time{}
	case a.Reply == Yes:
		return a.At.Add(fresh)
	}
	wait, last := firstAsk, lastGate
	switch kind {
	case Admission, Room:
		last = lastAsk
	case JobGate:
		wait = firstJobLook
	}
	for n := 1; n < a.Misses && wait < last; n++ {
		wait *= 2
	}
	return a.At.Add(min(wait, last))
}

func compareQuestions(a, b Question) int {
	return cmp.Or(
		cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.DaemonSet.Namespace, b.DaemonSet.Namespace), cmp.Compare(a.DaemonSet.Name, b.DaemonSet.Name),
		cmp.Compare(a.Revision, b.Revision), cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.HTTP.URL, b.HTTP.URL), cmp.Compare(a.HTTP.ExpectedStatus, b.HTTP.ExpectedStatus),
		cmp.Compare(a.Prometheus.URL, b.Prometheus.URL), cmp.Compare(a.Prometheus.Query, b.Prometheus.Query),
		cmp.Compare(a.Prometheus.Comparison.String(), b.Prometheus.Comparison.String()),
		cmp.Compare(a.Job, b.Job),
	)
}
