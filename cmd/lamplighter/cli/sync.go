// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"lamplighter.dev/reconcile/agent"
)

// answerInterval is how often the ledger is read until the agent has answered.
const answerInterval = 500 * time.Millisecond

func newSyncCommand(g *globals) *cobra.Command {
	timeout := 2 * time.Minute
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Ask the agent to look at Git and run a pass now, and wait for it",
		Long: `Ask the agent to look at Git now rather than at its next interval, wait until it has
run a pass with what it found there, and print the status. It does what the agent does
anyway: windows, holds and budgets count, and visits that have begun are not waited
for. The exit codes are those of status.`,
		Example: `  git push && lamplighter sync`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if timeout <= 0 {
				return usage(cmd, "--timeout %s: it has to be longer than nothing", timeout)
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			c, err := connect(ctx, g, connectOptions{})
			if err != nil {
				return err
			}
			if err := c.sync(ctx, timeout); err != nil {
				return err
			}
			return printStatus(ctx, g, c, false)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the agent")
	return cmd
}

// sync asks whoever runs the instance for a pass, and returns when it is done.
func (c *connection) sync(ctx context.Context, timeout time.Duration) error {
	lease := agent.Lease{Client: c.clientset, Instance: c.instance}
	holder, err := lease.Holder(ctx, now())
	if err != nil {
		return err
	}
	if holder == "" {
		return hint(fmt.Errorf("instance %s: nobody holds its lease, so no agent runs it", lease),
			"is it another --namespace, --name or --context? lamplighter apply runs one pass without an agent")
	}
	request, err := c.states.Request(ctx, now())
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, answerInterval, timeout, false, func(context.Context) (bool, error) {
		state, err := c.states.Load(ctx)
		return err == nil && !state.Record.Answered.Before(request), err
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return hint(fmt.Errorf("instance %s: %s has not answered for %s", lease, holder, timeout),
			"its log says what it is doing; lamplighter status says what is on record")
	}
	return err
}
