// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile"
)

// watchInterval is how often --watch looks at what the watches have told.
const watchInterval = 500 * time.Millisecond

// restShare is how many times as long as it takes to look --watch then rests: of
// a large fleet the forecast takes a while.
const restShare = 4

func newStatusCommand(g *globals) *cobra.Command {
	var (
		nodes, watch bool
		contexts     []string
	)
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how far each DaemonSet is, and what it waits for",
		Long: `Show how far each DaemonSet is. Counts come from the pods; what is decided of each
node comes from the agent's own planner. Exit code 1 if something failed, is
halted, if the clock is wrong, or if the newest commit is not in force. With --contexts,
the instances of several clusters side by side; exit code 2 if one cannot be read.`,
		Example: `  lamplighter status
  lamplighter status --nodes --watch
  lamplighter status -o json | jq .policies
  lamplighter status --contexts 'prod-*'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(contexts) > 0 {
				if nodes || watch || g.context != "" {
					return usage(cmd, "--contexts goes without --context, --nodes and --watch")
				}
				return printContexts(cmd.Context(), g, contexts)
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			c, err := connect(ctx, g, connectOptions{})
			if err != nil {
				return err
			}
			if watch {
				return watchStatus(ctx, g, c, nodes)
			}
			return printStatus(ctx, g, c, nodes)
		},
	}
	cmd.Flags().BoolVar(&nodes, "nodes", false, "show a lamp per node and what it waits for")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on, and print the status whenever it changes")
	cmd.Flags().StringSliceVar(&contexts, "contexts", nil, "kubeconfig contexts to show side by side, by name or pattern, as in 'prod-*'")
	return cmd
}

func printStatus(ctx context.Context, g *globals, c *connection, nodes bool) error {
	status, err := statusNow(ctx, c)
	if err != nil {
		return err
	}
	if err := printAnswer(g, status, statusWriter(nodes)); err != nil {
		return err
	}
	if !status.Installed() {
		fmt.Fprintln(g.streams.Err, "hint: lamplighter apply or lamplighter agent begins; or is it another --namespace, --name or --context?")
	}
	if status.Bad() {
		return exitCode(exitSignal)
	}
	return nil
}

func statusWriter(nodes bool) func(io.Writer, show.Status) error {
	return func(w io.Writer, s show.Status) error {
		if err := show.WriteStatus(w, s); err != nil || !nodes {
			return err
		}
		return show.WriteNodes(w, s)
	}
}

// statusNow observes without a fleet: what is in force is on record.
func statusNow(ctx context.Context, c *connection) (show.Status, error) {
	c.reconciler.Forget()
	obs, err := c.reconciler.Observe(ctx, reconcile.Source{})
	if err != nil {
		return show.Status{}, err
	}
	obs.ClockProblem = obs.State.Record.Clock.Problem // it is the agent's clock that counts
	at := now()
	plan, err := c.plan(ctx, &obs, at)
	if err != nil {
		return show.Status{}, err
	}
	return show.NewStatus(obs, plan, reconcile.Foresee(obs, plan, at)), nil
}

// watchStatus prints the status whenever it has changed, until ctx is done.
func watchStatus(ctx context.Context, g *globals, c *connection, nodes bool) error {
	clear := ""
	if g.colored() {
		clear = "\x1b[H\x1b[2J"
	}
	var last []byte
	for {
		began := now()
		status, err := statusNow(ctx, c)
		if err != nil {
			return ignoreDone(ctx, err)
		}
		took := now().Sub(began)
		var text bytes.Buffer
		to := *g
		to.streams.Out = &text
		if err := printAnswer(&to, status, statusWriter(nodes)); err != nil {
			return err
		}
		if !bytes.Equal(text.Bytes(), last) {
			last = text.Bytes()
			if _, err := fmt.Fprintf(g.streams.Out, "%s%s%s", clear, last, separator(g.output)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(watchInterval, restShare*took)):
		}
	}
}

// separator comes after each answer of several: an empty line, or what a reader
// of the format takes for one.
func separator(format string) string {
	if format == formatYAML {
		return "---\n"
	}
	return "\n"
}

func ignoreDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
