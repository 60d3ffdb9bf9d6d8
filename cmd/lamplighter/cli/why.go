// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/why"
)

func newWhyCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "why NODE | daemonset/NAMESPACE/NAME",
		Short: "Say why a node or a DaemonSet is as it is, and when it is looked at again",
		Long: `Say why a node or a DaemonSet is as it is: the commit in force, the revision, where
pods belong, the window, the wave, the slots, what somebody holds, and what the
kubelet and the scheduler said last. A line each; the one that decides is marked
by ">". For a node there is a chain for every policy that has something on it.
ds/NAMESPACE/NAME, NAMESPACE/NAME and, if there is one of that name only, ds/NAME
mean a DaemonSet too.`,
		Example: `  lamplighter why node-001
  lamplighter why daemonset/kube-system/calico-node`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(cmd, "why takes one node or DaemonSet, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, err := parseSubject(cmd, args[0])
			if err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			c, err := connect(ctx, g, connectOptions{})
			if err != nil {
				return err
			}
			chains, err := about.ask(ctx, c)
			if err != nil {
				return suggest(err)
			}
			return printAnswer(g, show.NewWhy(chains), func(w io.Writer, answer show.Why) error {
				return show.WriteWhy(w, answer, show.Options{Color: g.colored()})
			})
		},
	}
}

// subject is what why is asked about: a node, or else a DaemonSet.
type subject struct {
	node      string
	daemonSet types.NamespacedName
}

// parseSubject reads NODE, node/NODE, daemonset/NAMESPACE/NAME and its short
// forms.
func parseSubject(cmd *cobra.Command, s string) (subject, error) {
	parts := strings.Split(s, "/")
	for _, p := range parts {
		if p == "" {
			return subject{}, usage(cmd, "%q: a part of it is empty", s)
		}
	}
	kind := strings.ToLower(parts[0])
	switch {
	case len(parts) == 1:
		return subject{node: s}, nil
	case len(parts) == 2 && slices.Contains([]string{"node", "nodes", "no"}, kind):
		return subject{node: parts[1]}, nil
	case len(parts) == 2 && isDaemonSet(kind):
		return subject{daemonSet: types.NamespacedName{Name: parts[1]}}, nil
	case len(parts) == 2:
		return subject{daemonSet: types.NamespacedName{Namespace: parts[0], Name: parts[1]}}, nil
	case len(parts) == 3 && isDaemonSet(kind):
		return subject{daemonSet: types.NamespacedName{Namespace: parts[1], Name: parts[2]}}, nil
	}
	return subject{}, usage(cmd, "%q is neither a node nor daemonset/NAMESPACE/NAME", s)
}

func isDaemonSet(kind string) bool {
	return slices.Contains([]string{"daemonset", "daemonsets", "daemonset.apps", "daemonsets.apps", "ds"}, kind)
}

// ask observes without a fleet, as status does, and reads the events of what is
// asked about.
func (s subject) ask(ctx context.Context, c *connection) ([]why.Chain, error) {
	obs, err := c.reconciler.Observe(ctx, reconcile.Source{})
	if err != nil {
		return nil, err
	}
	obs.ClockProblem = obs.State.Record.Clock.Problem // it is the agent's clock that counts
	in := why.Input{Observation: obs, Now: now()}
	if in.Plan, err = c.plan(ctx, &obs, in.Now); err != nil {
		return nil, err
	}
	name := s.daemonSet
	if s.node != "" {
		err = why.FindNode(obs, s.node)
	} else {
		name, err = why.FindDaemonSet(obs, s.daemonSet)
	}
	if err != nil {
		return nil, err
	}
	in.Events, in.EventsErr = c.cluster.Events(ctx, why.Subjects(in, s.node, name))
	if s.node != "" {
		return why.Node(in, s.node)
	}
	chain, err := why.DaemonSet(in, name)
	return []why.Chain{chain}, err
}

// suggest adds what may be meant to an error about a name.
func suggest(err error) error {
	e, ok := errors.AsType[*why.UnknownError](err)
	switch {
	case !ok:
		return err
	case len(e.Near) > 0:
		return hint(err, "did you mean %s?", strings.Join(e.Near, " or "))
	case e.What == "node":
		return hint(err, "lamplighter status --nodes lists them; is it another --context?")
	default:
		return hint(err, "lamplighter status lists them; is it another --context?")
	}
}
