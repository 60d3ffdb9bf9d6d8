// SPDX-License-Identifier: Apache-2.0

package gate_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lamplighter.dev/reconcile/gate"
	"lamplighter.dev/reconcile/rollout"
)

func about(node string) rollout.Question {
	return rollout.Question{Kind: rollout.Admission, Node: node}
}

func newAsker(find gate.Answerer) *gate.Asker {
	return gate.New(gate.Options{
		Answerers: map[rollout.QuestionKind]gate.Answerer{rollout.Admission: find},
		Now:       time.Now, Timeout: 10 * time.Second, InFlight: 2,
	})
}

func TestAskReturnsBeforeTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		a := newAsker(func(ctx context.Context, q rollout.Question) rollout.Answer {
			<-time.After(3 * time.Second)
			return rollout.Answer{Reply: rollout.Yes, Message: q.Node}
		})
		a.Ask(t.Context(), []rollout.Question{about("a")})
		if since := time.Since(start); since != 0 || len(a.Answers()) != 0 {
			t.Fatalf("Ask took %s and left %v", since, a.Answers())
		}
		<-a.Answered()
		want := rollout.Answer{Reply: rollout.Yes, Message: "a", At: start}
		if got := a.Answers()[about("a")]; got != want {
			t.Errorf("got %+v, want %+v: an answer is as old as its question", got, want)
		}
	})
}

func TestOneSlowQuestionDoesNotHoldUpOthersAndHasAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(func(ctx context.Context, q rollout.Question) rollout.Answer {
			if q.Node == "slow" {
				<-ctx.Done()
				return rollout.Answer{Reply: rollout.Unknown, Message: context.Cause(ctx).Error()}
			}
			return rollout.Answer{Reply: rollout.Yes}
		})
		a.Ask(t.Context(), []rollout.Question{about("slow"), about("quick"), about("quick too")})
		synctest.Wait()
		if got := a.Answers(); len(got) != 2 {
			t.Errorf("got %v, want the two quick ones", got)
		}
		a.Wait()
		if got, want := a.Answers()[about("slow")].Message, "no answer within 10s"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestNoMoreQuestionsThanAllowedAreAskedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		a := newAsker(func(context.Context, rollout.Question) rollout.Answer {
			most.Store(max(most.Load(), now.Add(1)))
			<-time.After(time.Second)
			now.Add(-1)
			return rollout.Answer{Reply: rollout.Yes}
		})
		var questions []rollout.Question
		for i := range 7 {
			questions = append(questions, about(fmt.Sprint(i)))
		}
		a.Ask(t.Context(), questions)
		a.Ask(t.Context(), questions) // they are being asked
		a.Wait()
		if most.Load() != 2 || len(a.Answers()) != 7 {
			t.Errorf("%d at once, %d answers; want 2, 7", most.Load(), len(a.Answers()))
		}
	})
}

func TestMissesAreCountedUntilAYes(t *testing.T) {
	replies := []rollout.Reply{rollout.No, rollout.Unknown, rollout.Yes, rollout.No}
	asked := 0
	a := newAsker(func(context.Context, rollout.Question) rollout.Answer {
		asked++
		return rollout.Answer{Reply: replies[asked-1]}
	})
	for _, want := range []int{1, 2, 0, 1} {
		a.Ask(t.Context(), []rollout.Question{about("a")})
		a.Wait()
		if got := a.Answers()[about("a")].Misses; got != want {
			t.Errorf("after %s: %d misses, want %d", replies[asked-1], got, want)
		}
	}
}

func TestTheEndOfTheProcessIsNoAnswer(t *testing.T) {
	a := newAsker(func(ctx context.Context, _ rollout.Question) rollout.Answer {
		<-ctx.Done()
		return rollout.Answer{Reply: rollout.Unknown}
	})
	ctx, cancel := context.WithCancel(t.Context())
	a.Ask(ctx, []rollout.Question{about("a"), about("b"), about("c")})
	cancel()
	a.Wait()
	if got := a.Answers(); len(got) != 0 {
		t.Errorf("got %v, want none", got)
	}
}

func TestWhatNobodyAnswersIsNotKnown(t *testing.T) {
	a := gate.New(gate.Options{Now: time.Now})
	a.Ask(t.Context(), []rollout.Question{about("a")})
	a.Wait()
	if got := a.Answers()[about("a")]; got.Reply != rollout.Unknown || got.Message == "" {
		t.Errorf("got %+v, want it unknown, with a reason", got)
	}
}

func TestOldAnswersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(func(context.Context, rollout.Question) rollout.Answer { return rollout.Answer{Reply: rollout.No} })
		a.Ask(t.Context(), []rollout.Question{about("a"), about("b")})
		a.Wait()
		<-time.After(2 * time.Hour)
		a.Ask(t.Context(), []rollout.Question{about("b")})
		a.Wait()
		if got := a.Answers(); len(got) != 1 || got[about("b")].Misses != 2 {
			t.Errorf("got %v, want only b, missed twice", got)
		}
	})
}

// An address that does not answer keeps its own places, and those of nobody else.
func TestSlowAddressKeepsNoOtherWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		find := func(ctx context.Context, q rollout.Question) rollout.Answer {
			if strings.HasPrefix(q.HTTP.URL, "http://slow/") {
				<-ctx.Done()
				return rollout.Answer{Reply: rollout.Unknown}
			}
			return rollout.Answer{Reply: rollout.Yes}
		}
		a := gate.New(gate.Options{
			Answerers: map[rollout.QuestionKind]gate.Answerer{rollout.HTTPGate: find, rollout.Room: find, rollout.JobGate: find},
			Now:       time.Now, Timeout: 10 * time.Second, InFlight: 2,
		})
		var slow []rollout.Question
		for i := range 7 {
			slow = append(slow, httpGate(fmt.Sprintf("http://slow/%d", i)))
		}
		quick := []rollout.Question{httpGate("http://quick/"), {Kind: rollout.Room, Node: "a"}, {Kind: rollout.JobGate, Node: "a"}}
		a.Ask(t.Context(), append(slow, quick...))
		synctest.Wait()
		for _, q := range quick {
			if a.Answers()[q].Reply != rollout.Yes {
				t.Errorf("%+v waits for what others are asked", q)
			}
		}
		a.Wait()
		if got := a.Answers(); len(got) != len(slow)+len(quick) {
			t.Errorf("%d answers, want %d", len(got), len(slow)+len(quick))
		}
	})
}
