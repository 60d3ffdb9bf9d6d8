// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"

	"lamplighter.dev/reconcile/rollout"
)

// Version is what a binary was built from.
type Version struct {
	Version   string `json:"version"`
	Go        string `json:"go"`
	Kustomize string `json:"kustomize"`
	TimeZones string `json:"timeZones"` // the release of the IANA database, and where it is from
}

// WriteVersion writes a version as one line.
func WriteVersion(w io.Writer, v Version) error {
	_, err := fmt.Fprintf(w, "lamplighter %s (%s, kustomize %s, time zones %s)\n", v.Version, v.Go, v.Kustomize, v.TimeZones)
	return err
}

// Resumed is what resuming a policy did.
type Resumed struct {
	Policy       string `json:"policy"`
	Acknowledged int    `json:"acknowledged"` // failures that no longer count
	Unpaused     bool   `json:"unpaused"`     // it had been paused
	// Unmarked are the DaemonSets whose template in Git was marked bad, and is tried again.
	Unmarked []string `json:"unmarked,omitempty"`
	// Retried are the nodes on which the last try came to nothing, and that wait no longer.
	Retried []string `json:"retried,omitempty"`
	// KeptSlots are the nodes that have failed and still hold a slot.
	KeptSlots []string `json:"keptSlots,omitempty"`
}

// WriteResumed writes what resuming did as one line, and what it did not as another.
func WriteResumed(w io.Writer, r Resumed) error {
	unpaused := ""
	if r.Unpaused {
		unpaused = ", no longer paused"
	}
	tried := ""
	if len(r.Unmarked) > 0 {
		tried = ", tries again what Git has of " + strings.Join(r.Unmarked, ", ")
	}
	if len(r.Retried) > 0 {
		tried += ", tries " + countOf(len(r.Retried), "node") + " again at once"
	}
	_, err := fmt.Fprintf(w, "policy %s: %s acknowledged%s%s\n", r.Policy, countOf(r.Acknowledged, "failure"), unpaused, tried)
	if err == nil && len(r.KeptSlots) > 0 {
		_, err = fmt.Fprintf(w, "policy %s: %s has failed and keeps its slot (%s)\n", r.Policy, eachOf(r.KeptSlots), rollout.FreesSlot)
	}
	return err
}

// eachOf names one node, or several of which the same is true.
func eachOf(nodes []string) string {
	const few = 3
	switch n := len(nodes); {
	case n == 1:
		return nodes[0]
	case n > few:
		return fmt.Sprintf("each of %s and %d more", strings.Join(nodes[:few], ", "), n-few)
	}
	return "each of " + strings.Join(nodes, ", ")
}

// countOf is a number of things: "1 failure", "2 failures".
func countOf(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
