// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
)

func newWindowsCommand(g *globals) *cobra.Command {
	var (
		path   string
		from   string
		at     []string
		length time.Duration
	)
	cmd := &cobra.Command{
		Use:   "windows [DIR]",
		Short: "Show when nodes may be visited: the next openings, or the state at an instant",
		Long: `Show when each policy's windows open next, freezes cut out, or with --at whether
they are open at an instant, why, and until when. Only the working tree is read.
Times are those of the window's zone, with their offset.`,
		Example: `  lamplighter windows . --path clusters/prod --for 336h
  lamplighter windows . --path clusters/prod --at 2026-12-24T23:00:00+01:00`,
		Args:              maxOneDir,
		ValidArgsFunction: completeDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(at) > 0 && (cmd.Flags().Changed("from") || cmd.Flags().Changed("for")) {
				return usage(cmd, "--at asks for instants, --from and --for ask for openings: use one or the other")
			}
			instants, start, err := parseInstants(at, from)
			if err != nil {
				return err
			}
			if length <= 0 {
				return fmt.Errorf("--for %s: want a length of time, such as 336h", length)
			}
			fleet, err := readFleet(cmd.Context(), g, dirArg(args), path)
			if err != nil {
				return err
			}
			if len(instants) > 0 {
				return printAnswer(g, show.NewInstants(fleet.Policies, instants), show.WriteInstants)
			}
			return printAnswer(g, show.NewOpenings(fleet.Policies, start, start.Add(length)), show.WriteOpenings)
		},
	}
	cmd.Flags().StringVar(&path, "path", ".", "kustomize root inside the working tree")
	cmd.Flags().StringVar(&from, "from", "", "show openings from this instant on (default: now)")
	cmd.Flags().DurationVar(&length, "for", 336*time.Hour, "how far to look ahead")
	cmd.Flags().StringArrayVar(&at, "at", nil, "say whether the windows are open at this instant, why, and until when (repeatable)")
	return cmd
}

func parseInstants(at []string, from string) (instants []time.Time, start time.Time, err error) {
	for _, s := range at {
		t, err := parseInstant("--at", s)
		if err != nil {
			return nil, time.Time{}, err
		}
		instants = append(instants, t)
	}
	if from == "" {
		return instants, now(), nil
	}
	start, err = parseInstant("--from", from)
	return instants, start, err
}

func parseInstant(flag, s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s %q: want a time with its offset, such as 2026-12-24T23:00:00+01:00", flag, s)
	}
	return t, nil
}
