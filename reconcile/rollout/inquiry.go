// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// inquiry is what a plan knows by asking, and what it wants to know.
type inquiry struct {
	now      time.Time
	alarm    *alarm
	supposed bool
	answers  Answers
	asked    map[Question]bool

	admissions map[podRevision]Answer // the newest of each, whatever the node
}

type podRevision struct {
	daemonSet types.NamespacedName
	revision  string
}

func newInquiry(obs Observed, a *alarm) *inquiry {
	q := &inquiry{
		now: a.now, alarm: a, supposed: obs.Supposed, answers: obs.Answers,
		asked: map[Question]bool{}, admissions: map[podRevision]Answer{},
	}
	nodes := map[podRevision]string{}
	for question, answer := range obs.Answers {
		if question.Kind != Admission {
			continue
		}
		key := podRevision{question.DaemonSet, question.Revision}
		newest, known := q.admissions[key]
		if !known || answer.At.After(newest.At) || (answer.At.Equal(newest.At) && question.Node < nodes[key]) {
			q.admissions[key], nodes[key] = answer, question.Node
		}
	}
	return q
}

// heed returns the answer to a question as far as it counts now, and asks when
// there is none or it is time to ask again. Until then a No and an Unknown stand;
// a Yes that is not fresh is worth nothing.
func (q *inquiry) heed(question Question, a Answer) Answer {
	if q.supposed {
		return q.suppose(question, a)
	}
	again := a.askedAgain(question.Kind)
	if q.now.Before(again) && !a.At.After(q.now) {
		q.alarm.at(again)
		return a
	}
	q.asked[question] = true
	if a.Reply == Yes {
		return Answer{}
	}
	return a
}

// suppose takes for a Yes what has no answer. Whether there is room on a node, those
// who look may ask for themselves, so that it stays a question of the plan.
func (q *inquiry) suppose(question Question, a Answer) Answer {
	if question.Kind != Room {
		return Answer{Reply: Yes}
	}
	if a.Reply == "" {
		q.asked[question] = true
		return Answer{Reply: Yes, Message: "the new pod needs more than the old one, and is supposed to fit"}
	}
	return a
}

// questions are those to be asked, sorted.
func (q *inquiry) questions() []Question {
	return slices.SortedFunc(maps.Keys(q.asked), compareQuestions)
}
