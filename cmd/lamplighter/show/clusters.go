// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"time"
)

// Clusters are the instances of one name on several clusters, side by side.
type Clusters struct {
	Clusters []Cluster `json:"clusters"`
}

// Cluster is one of them. It has a status, or the reason why there is none.
type Cluster struct {
	Context string  `json:"context"`
	Status  *Status `json:"status,omitempty"`
	Error   string  `json:"error,omitempty"`
}

// Bad says that something has failed or is halted on a cluster that could be read.
func (c Clusters) Bad() bool {
	for _, one := range c.Clusters {
		if one.Status != nil && one.Status.Bad() {
			return true
		}
	}
	return false
}

// Unread says that a cluster could not be read.
func (c Clusters) Unread() bool {
	for _, one := range c.Clusters {
		if one.Status == nil {
			return true
		}
	}
	return false
}

// WriteClusters writes a line per cluster, and below what is wrong with each.
func WriteClusters(w io.Writer, c Clusters) error {
	var rows [][]any
	for _, one := range c.Clusters {
		rows = append(rows, one.row())
	}
	if err := table(w, []any{"CONTEXT", "COMMIT", "DAEMONSETS", "DESIRED", "UP-TO-DATE", "FAILED", "ETA", "STATE"}, rows); err != nil {
		return err
	}
	blank := "\n"
	for _, one := range c.Clusters {
		for _, line := range one.wrong() {
			if _, err := fmt.Fprintf(w, "%s%s: %s\n", blank, one.Context, line); err != nil {
				return err
			}
			blank = ""
		}
	}
	return nil
}

func (c Cluster) row() []any {
	if c.Status == nil {
		return []any{c.Context, "-", "-", "-", "-", "-", "-", "cannot be read"}
	}
	if !c.Status.Installed() {
		return []any{c.Context, "-", "-", "-", "-", "-", "-", "nothing applied yet"}
	}
	desired, upToDate, failed, eta := 0, 0, 0, ""
	for _, d := range c.Status.DaemonSets {
		desired, upToDate, failed = desired+d.Desired, upToDate+d.UpToDate, failed+d.Failed
		switch {
		case d.Never != "":
			eta = "never"
		case eta != "never":
			eta = later(eta, d.ETA)
		}
	}
	hash := c.Status.Commit.Hash
	return []any{c.Context, dash(hash[:min(len(hash), 7)]), len(c.Status.DaemonSets), desired, upToDate, failed, dash(eta), c.Status.state()}
}

// later is the later of two instants as text, in whatever zones; "" is none.
func later(a, b string) string {
	at, err := time.Parse(time.RFC3339, a)
	bt, berr := time.Parse(time.RFC3339, b)
	if berr == nil && (err != nil || bt.After(at)) {
		return b
	}
	return a
}

// state is the first word on an instance, the worst first.
func (s Status) state() string {
	policy := func(has func(PolicyStatus) bool) bool {
		for _, p := range s.Policies {
			if has(p) {
				return true
			}
		}
		return false
	}
	switch {
	case policy(func(p PolicyStatus) bool { return p.Halted }):
		return "HALTED"
	case s.Problem != "":
		return "NOT IN FORCE"
	case s.Bad():
		return "FAILED"
	case policy(func(p PolicyStatus) bool { return p.Paused != nil }):
		return "paused"
	case policy(func(p PolicyStatus) bool { return p.OutOfService > 0 }):
		return "under way"
	case policy(func(p PolicyStatus) bool { return p.Remaining > 0 }), len(s.Objects) > 0:
		return "waiting"
	}
	return "up to date"
}

// wrong is what a person has to look at, a line each.
func (c Cluster) wrong() []string {
	if c.Status == nil {
		return []string{c.Error}
	}
	var lines []string
	if c.Status.Problem != "" {
		lines = append(lines, c.Status.Problem)
	}
	if c.Status.Clock.Problem != "" {
		lines = append(lines, c.Status.Clock.Problem)
	}
	for _, p := range c.Status.Policies {
		if p.Halted {
			lines = append(lines, p.haltWords())
		}
	}
	for _, d := range c.Status.DaemonSets {
		if d.Reverted != nil {
			lines = append(lines, fmt.Sprintf("%s/%s: %s", d.Namespace, d.Name, d.Reverted.text))
		}
	}
	for _, o := range c.Status.Objects {
		if o.Failed() {
			lines = append(lines, fmt.Sprintf("%s: %s: %s", o.Object, o.Reason, noteMessage(o)))
		}
	}
	return lines
}
