// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// windowsFlags are what people ask of windows.
type windowsFlags struct {
	treeFlags
	from   string
	at     []string
	length time.Duration
}

func newWindowsCommand(g *globals) *cobra.Command {
	var f windowsFlags
	cmd := &cobra.Command{
		Use:   "windows [DIR]",
		Short: "Show when nodes may be visited: the next openings, or the state at an instant",
		Long: `Show when each policy's windows open next, freezes cut out, or with --at whether
they are open at an instant, why, and until when. Only the working tree is read.
Times are those of the window's zone, with their offset, and in UTC; LENGTH is
elapsed time. NOTES say what is unusual: a change of the clocks, a freeze that
cuts an opening, one that is under way. With -o ics the openings and freezes are
a calendar (RFC 5545) to import or to subscribe to.`,
		Example: `  lamplighter windows . --path clusters/prod --for 336h
  lamplighter windows . --path clusters/prod --at 2026-12-24T23:00:00+01:00
  lamplighter windows . --path clusters/prod --for 2160h -o ics > windows.ics`,
		Args:              maxOneDir,
		ValidArgsFunction: completeDir,
		Annotations:       map[string]string{moreFormats: formatICS},
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := f.question(cmd, g.output)
			if err != nil {
				return err
			}
			fleet, err := f.readFleet(cmd.Context(), g, dirArg(args))
			if err != nil {
				return err
			}
			return f.answer(g, fleet.Policies, q)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&f.from, "from", "", "show openings from this instant on (default: now)")
	cmd.Flags().DurationVar(&f.length, "for", 336*time.Hour, "how far to look ahead")
	cmd.Flags().StringArrayVar(&f.at, "at", nil, "say whether the windows are open at this instant, why, and until when (repeatable)")
	return cmd
}

// question is what the flags ask: instants, or openings from one on.
type question struct {
	instants []time.Time
	from     time.Time
}

func (f windowsFlags) question(cmd *cobra.Command, format string) (question, error) {
	if len(f.at) > 0 && (cmd.Flags().Changed("from") || cmd.Flags().Changed("for")) {
		return question{}, usage(cmd, "--at asks for instants, --from and --for ask for openings: use one or the other")
	}
	if len(f.at) > 0 && format == formatICS {
		return question{}, usage(cmd, "-o ics lists openings, --at asks for instants: use one or the other")
	}
	if f.length <= 0 {
		return question{}, fmt.Errorf("--for %s: want a length of time, such as 336h", f.length)
	}
	if f.length > longestLook {
		return question{}, fmt.Errorf("--for %s: look ahead 5 years at most, 43800h", f.length)
	}
	q := question{from: now()}
	for _, s := range f.at {
		t, err := parseInstant("--at", s)
		if err != nil {
			return question{}, err
		}
		q.instants = append(q.instants, t)
	}
	if f.from == "" {
		return q, nil
	}
	from, err := parseInstant("--from", f.from)
	q.from = from
	return q, err
}

// longestLook is as far as a schedule is searched for its next opening.
const longestLook = 5 * 365 * 24 * time.Hour

func (f windowsFlags) answer(g *globals, set policy.Set, q question) error {
	if len(q.instants) > 0 {
		return printAnswer(g, show.NewInstants(set, q.instants), show.WriteInstants)
	}
	openings := show.NewOpenings(set, q.from, q.from.Add(f.length))
	if g.output == formatICS {
		return show.WriteICS(g.streams.Out, openings, show.ICSOptions{Fleet: f.path, Stamp: q.from})
	}
	return printAnswer(g, openings, show.WriteOpenings)
}

// parseInstant reads a time, which must say its offset: without one it would be
// another instant on every machine.
func parseInstant(flag, s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	switch year := t.UTC().Year(); {
	case err != nil:
	case year < window.FirstYear || year > window.LastYear:
		return time.Time{}, fmt.Errorf("%s %q: is outside the years %d to %d", flag, s, window.FirstYear, window.LastYear)
	default:
		return t, nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", time.DateOnly} {
		if local, err := time.Parse(layout, s); err == nil {
			return time.Time{}, fmt.Errorf("%s %q: has no zone: write %s, or an offset such as +01:00 in place of Z", flag, s, local.Format(time.RFC3339))
		}
	}
	return time.Time{}, fmt.Errorf("%s %q: want a time with its offset, such as 2026-12-24T23:00:00+01:00", flag, s)
}
