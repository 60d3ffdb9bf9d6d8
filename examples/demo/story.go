// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lamplighter.dev/cmd/lamplighter/show"
)

const (
	calicoNode   = "DaemonSet/kube-system/calico-node"
	nodeExporter = "DaemonSet/monitoring/node-exporter"
	nodes        = 12
)

// tell tells the story, step by step.
func tell(ctx context.Context, s *stage) error {
	for i, step := range []struct {
		title string
		play  func(context.Context, *stage) error
	}{
		{"The first commit: four agents reach twelve nodes", firstApply},
		{"A commit bumps two agents while the window is shut", held},
		{"The window opens: node after node, never more at once than maxUnavailable", upgrade},
		{"A commit with a broken image: one node fails, eleven are untouched", halt},
		{"git revert: the broken node is healed, nothing else is restarted", heal},
	} {
		say("\n== %d. %s", i+1, step.title)
		if err := step.play(ctx, s); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func firstApply(ctx context.Context, s *stage) error {
	if err := s.fleet.opens(time.Now().Add(24 * time.Hour)); err != nil {
		return err
	}
	if err := s.fleet.commit(ctx, "the fleet"); err != nil {
		return err
	}
	_, err := s.audience.until(ctx, "four DaemonSets to be available", nil, func(st show.Status) bool {
		return inForce(st, "the fleet") && len(st.DaemonSets) == 4 && done(st)
	})
	if err != nil {
		return err
	}
	return s.show(ctx, "status")
}

func held(ctx context.Context, s *stage) error {
	opens := time.Now().Add(20 * time.Second).Truncate(time.Second)
	if err := s.fleet.opens(opens); err != nil {
		return err
	}
	if err := s.fleet.retag("v3.30.2", "v3.30.3"); err != nil {
		return err
	}
	if err := s.fleet.retag("v1.9.1", "v1.9.2"); err != nil {
		return err
	}
	if err := s.fleet.commit(ctx, "calico 3.30.3 and node-exporter 1.9.2"); err != nil {
		return err
	}
	say("  * up to date   ~ under way   o waits its turn   ! failed")
	st, err := s.audience.until(ctx, "both DaemonSets to be held", nil, func(st show.Status) bool {
		return heldUntil(st, calicoNode, opens) && heldUntil(st, nodeExporter, opens)
	})
	if err != nil {
		return err
	}
	if !allAvailable(st) {
		return fmt.Errorf("a node was touched while the window was shut")
	}
	say("  Both templates are held until the window opens at %s:", show.Time(opens))
	return s.show(ctx, "status")
}

func upgrade(ctx context.Context, s *stage) error {
	_, err := s.audience.until(ctx, "all nodes to be up to date", withinBudget, func(st show.Status) bool {
		return len(st.Objects) == 0 && done(st) && visited(st)
	})
	if err != nil {
		return err
	}
	return s.show(ctx, "status")
}

func halt(ctx context.Context, s *stage) error {
	if err := s.fleet.retag("v3.30.3", "crash"); err != nil {
		return err
	}
	if err := s.fleet.commit(ctx, "calico: a bad build"); err != nil {
		return err
	}
	if _, err := s.audience.until(ctx, "the policy to halt", oneBroken, halted); err != nil {
		return err
	}
	quiet, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	st, err := s.audience.until(quiet, "", oneBroken, func(show.Status) bool { return false })
	if quiet.Err() == nil {
		return err
	}
	for _, p := range st.Policies {
		if p.Halted {
			say("  %s is halted: %s", p.Name, p.HaltMessage)
		}
	}
	say("  It stays so until Git says something else, or somebody says: lamplighter resume network")
	return s.show(ctx, "status")
}

func heal(ctx context.Context, s *stage) error {
	if err := s.fleet.revert(ctx); err != nil {
		return err
	}
	_, err := s.audience.until(ctx, "the broken node to be well", oneBroken, func(st show.Status) bool {
		return inForce(st, "Revert") && done(st) && !halted(st) && len(st.Objects) == 0
	})
	if err != nil {
		return err
	}
	return s.show(ctx, "status")
}

// show prints what a command prints. Status says by its exit code that
// something is wrong, which is what the story is about.
func (s *stage) show(ctx context.Context, args ...string) error {
	say("\n  $ lamplighter %s", strings.Join(args, " "))
	out, _ := s.run(ctx, args...)
	for line := range strings.Lines(out) {
		fmt.Print("  ", line)
	}
	return ctx.Err()
}

func inForce(st show.Status, subject string) bool {
	return st.Problem == "" && strings.HasPrefix(st.Commit.Subject, subject)
}

// allAvailable says that every pod that should be there is, of the live revision
// and available.
func allAvailable(st show.Status) bool {
	for _, d := range st.DaemonSets {
		if d.Desired == 0 || d.UpToDate != d.Desired || d.Available != d.Desired {
			return false
		}
	}
	return len(st.DaemonSets) > 0
}

// done says that there is no node left to visit.
func done(st show.Status) bool {
	for _, p := range st.Policies {
		if p.Remaining > 0 {
			return false
		}
	}
	return allAvailable(st)
}

// visited says that windows are open, so that what is done was done in one.
func visited(st show.Status) bool {
	for _, p := range st.Policies {
		if !strings.HasPrefix(p.Window, "open") {
			return false
		}
	}
	return true
}

func halted(st show.Status) bool {
	for _, p := range st.Policies {
		if p.Halted {
			return true
		}
	}
	return false
}

func heldUntil(st show.Status, object string, opens time.Time) bool {
	for _, o := range st.Objects {
		if o.Object == object && o.Action == "Hold" && o.Until.Equal(opens) {
			return true
		}
	}
	return false
}

func withinBudget(st show.Status) error {
	for _, p := range st.Policies {
		if p.OutOfService > p.MaxUnavailable {
			return fmt.Errorf("policy %s: %d nodes out of service, at most %d may be", p.Name, p.OutOfService, p.MaxUnavailable)
		}
	}
	return nil
}

// oneBroken says that a broken version reaches one node and no more.
func oneBroken(st show.Status) error {
	for _, d := range st.DaemonSets {
		if d.Name == "calico-node" && d.Available < nodes-1 {
			return fmt.Errorf("%d of %d nodes have calico-node, all but one must", d.Available, nodes)
		}
	}
	return withinBudget(st)
}
