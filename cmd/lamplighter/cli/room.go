// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
)

const (
	// roomRounds and roomQuestions bound what a command asks about the room on nodes
	// whose turn it would be: of more nodes it is supposed that there is.
	roomRounds, roomQuestions = 5, 40
	// roomAtOnce is how many nodes it asks about at once, and roomPatience for how
	// long in all.
	roomAtOnce   = 8
	roomPatience = 10 * time.Second
)

// plan is what the agent would decide now, for those who only look. Whether a pod
// that needs more than the one before fits on a node is on no record, so it is
// found out as the agent does.
func (c *connection) plan(ctx context.Context, obs *reconcile.Observation, at time.Time) (reconcile.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, roomPatience)
	defer cancel()
	obs.Answers = rollout.Answers{}
	for range roomRounds {
		plan, err := reconcile.New(*obs, at)
		questions := plan.Rollout.Questions
		if err != nil || len(questions) == 0 || len(obs.Answers) >= roomQuestions {
			return plan, err
		}
		for q, answer := range c.askForRoom(ctx, questions[:min(len(questions), roomQuestions)]) {
			answer.At = at
			obs.Answers[q] = answer
		}
	}
	return reconcile.New(*obs, at)
}

func (c *connection) askForRoom(ctx context.Context, questions []rollout.Question) rollout.Answers {
	found := make([]rollout.Answer, len(questions))
	var work errgroup.Group
	work.SetLimit(roomAtOnce)
	for i, q := range questions {
		work.Go(func() error {
			found[i] = c.cluster.Room(ctx, q)
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		panic(err) // no function of the group returns one
	}
	answers := rollout.Answers{}
	for i, q := range questions {
		answers[q] = found[i]
	}
	return answers
}
