// SPDX-License-Identifier: Apache-2.0

// Package gate finds out what a plan has to know before it evicts and no watch
// tells. It asks in the background, so that nothing waits for an answer but what
// needs it, and decides nothing: what an answer means, how long it counts and
// when it is asked for again is up to [rollout].
//
//	asker := gate.New(gate.Options{Answerers: map[rollout.QuestionKind]gate.Answerer{rollout.Admission: cluster.Admission}, Now: time.Now})
//	asker.Ask(ctx, plan.Questions)
//	<-asker.Answered() // plan again with asker.Answers()
package gate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"lamplighter.dev/reconcile/rollout"
)

// An Answerer finds out about questions of one kind. Only Reply and Message of
// its answer count. It returns soon after the end of ctx.
type Answerer func(ctx context.Context, q rollout.Question) rollout.Answer

// Options are what an Asker works with. Zero values take their defaults.
type Options struct {
	// Answerers by kind. A question of a kind without one is never answered
	// with a yes.
	Answerers map[rollout.QuestionKind]Answerer
	// Now is the clock.
	Now func() time.Time
	// Timeout bounds one question. Default 10 s.
	Timeout time.Duration
	// InFlight is how many questions are asked at once of one address or, if they
	// are for the API server, of one kind: one that is slow to answer keeps no other
	// waiting. Default 16.
	InFlight int
}

// forgotten is how long an answer is kept that nobody asks for.
const forgotten = time.Hour

// Asker asks questions and keeps the answers, in memory only: a process that
// starts knows nothing. It may be used by several goroutines.
type Asker struct {
	opts     Options
	answered chan struct{}
	running  sync.WaitGroup

	mu      sync.Mutex // guards what follows
	answers rollout.Answers
	asking  map[rollout.Question]bool
	places  map[respondent]chan struct{} // of whoever is asked
}

// respondent is who answers a question.
type respondent struct {
	kind rollout.QuestionKind
	host string // "" for the API server
}

func respondentOf(q rollout.Question) respondent {
	r := respondent{kind: q.Kind}
	if address := cmp.Or(q.HTTP.URL, q.Prometheus.URL); address != "" {
		r.host = host(address)
	}
	return r
}

// New returns an Asker that has asked nothing yet.
func New(opts Options) *Asker {
	opts.Timeout = cmp.Or(opts.Timeout, 10*time.Second)
	opts.InFlight = cmp.Or(opts.InFlight, 16)
	return &Asker{
		opts: opts, answered: make(chan struct{}, 1),
		answers: rollout.Answers{}, asking: map[rollout.Question]bool{}, places: map[respondent]chan struct{}{},
	}
}

// Ask begins to find out about questions and returns at once. One that is being
// asked is not asked again. All asking ends with ctx.
func (a *Asker) Ask(ctx context.Context, questions []rollout.Question) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.opts.Now()
	maps.DeleteFunc(a.answers, func(q rollout.Question, answer rollout.Answer) bool {
		return now.Sub(answer.At) > forgotten && !slices.Contains(questions, q)
	})
	for _, q := range questions {
		if a.asking[q] {
			continue
		}
		a.asking[q] = true
		who := respondentOf(q)
		if a.places[who] == nil {
			a.places[who] = make(chan struct{}, a.opts.InFlight)
		}
		places := a.places[who]
		a.running.Go(func() { a.ask(ctx, q, places) })
	}
}

// Answers are those so far.
func (a *Asker) Answers() rollout.Answers {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.answers)
}

// Answered receives when something has been found out since the last receive,
// however much it was.
func (a *Asker) Answered() <-chan struct{} { return a.answered }

// Wait returns when nothing is being asked any more.
func (a *Asker) Wait() { a.running.Wait() }

func (a *Asker) ask(ctx context.Context, q rollout.Question, places chan struct{}) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		a.learn(q, nil)
		return
	}
	at := a.opts.Now()
	answer := a.answer(ctx, q)
	answer.At = at
	if ctx.Err() != nil {
		a.learn(q, nil) // it tells of our end, and not of the world
		return
	}
	a.learn(q, &answer)
}

// answer asks once, within the bound.
func (a *Asker) answer(ctx context.Context, q rollout.Question) rollout.Answer {
	find, ok := a.opts.Answerers[q.Kind]
	if !ok {
		return rollout.Answer{Reply: rollout.Unknown, Message: fmt.Sprintf("nobody here answers questions of kind %s", q.Kind)}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.opts.Timeout, fmt.Errorf("no answer within %s", a.opts.Timeout))
	defer cancel()
	return find(ctx, q)
}

// learn keeps an answer; nil when there is none.
func (a *Asker) learn(q rollout.Question, answer *rollout.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.asking, q)
	if answer == nil {
		return
	}
	if answer.Reply != rollout.Yes {
		answer.Misses = a.answers[q].Misses + 1
	} else {
		answer.Misses = 0
	}
	a.answers[q] = *answer
	select {
	case a.answered <- struct{}{}:
	default: // a notice is pending already
	}
}
