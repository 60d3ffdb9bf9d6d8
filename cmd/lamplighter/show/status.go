// SPDX-License-Identifier: Apache-2.0

package show

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/rollout"
)

// Status is an instance at one instant.
type Status struct {
	Instance string           `json:"instance"`
	Commit   reconcile.Commit `json:"commit"`
	Since    string           `json:"since,omitempty"`
	Problem  string           `json:"problem,omitempty"` // why the newest commit is not in force
	// Clock says by which clock and time zones the last pass went.
	Clock      reconcile.ClockNote `json:"clock"`
	DaemonSets []DaemonSetStatus   `json:"daemonSets"`
	Policies   []PolicyStatus      `json:"policies"`
	// Objects are those that are not as Git says, as of the last pass.
	Objects []reconcile.ObjectNote `json:"objects"`
	Nodes   []NodeStatus           `json:"nodes"`
}

// DaemonSetStatus is one row of the table. The counts are counted from pods.
type DaemonSetStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Policy    string `json:"policy"`
	Desired   int    `json:"desired"`
	Current   int    `json:"current"`
	Ready     int    `json:"ready"`
	UpToDate  int    `json:"upToDate"`
	Available int    `json:"available"`
	Failed    int    `json:"failed"`
	Window    string `json:"window"`
	ETA       string `json:"eta,omitempty"`
	Never     string `json:"never,omitempty"`
	// Reverted is set when its template is not the one in Git, which is marked bad.
	Reverted *Reverted `json:"reverted,omitempty"`
	// Leaks are pods of the revision in force that no visit made.
	Leaks []Leak `json:"leaks,omitempty"`
}

// PolicyStatus is one policy as a whole.
type PolicyStatus struct {
	Name           string `json:"name"`
	Window         string `json:"window"`
	Nodes          int    `json:"nodes"`
	Remaining      int    `json:"remaining"`
	MaxUnavailable int    `json:"maxUnavailable"`
	OutOfService   int    `json:"outOfService"`
	Halted         bool   `json:"halted"`
	HaltMessage    string `json:"haltMessage,omitempty"`
	HaltEnds       string `json:"haltEnds,omitempty"` // what lets it go on
	Paused         *Word  `json:"paused,omitempty"`
	Proceed        *Word  `json:"proceed,omitempty"`

	Waves []WaveStatus `json:"waves,omitempty"` // in order
}

// NodeStatus is one node for one policy.
type NodeStatus struct {
	Policy    string `json:"policy"`
	Node      string `json:"node"`
	Wave      string `json:"wave,omitempty"`
	DaemonSet string `json:"daemonSet,omitempty"`
	State     string `json:"state"`
	Action    string `json:"action"`
	Reason    string `json:"reason"`
	Until     string `json:"until,omitempty"`
	Message   string `json:"message,omitempty"`
	Lamp      string `json:"lamp"`
}

// NewStatus makes a status of what was observed, decided and foreseen.
func NewStatus(obs reconcile.Observation, plan reconcile.Plan, f reconcile.Forecast) Status {
	record := obs.State.Record
	s := Status{
		Instance: obs.Instance.Namespace + "/" + obs.Instance.Name, Commit: record.Commit, Problem: record.Problem, Clock: record.Clock,
		DaemonSets: []DaemonSetStatus{}, Policies: []PolicyStatus{}, Objects: record.Objects, Nodes: []NodeStatus{},
	}
	if s.Objects == nil {
		s.Objects = []reconcile.ObjectNote{}
	}
	if !record.Since.IsZero() {
		s.Since = Time(record.Since)
	}
	for _, p := range plan.Rollout.Policies {
		s.Policies = append(s.Policies, policyStatus(p))
		for _, c := range p.DaemonSets {
			d := daemonSetStatus(p, f.Rollout.Of(p.Name), c)
			d.Reverted = reverted(plan.Rollout.Ledger.Reversal(c.Name))
			d.Leaks = leaks(plan.Rollout.Ledger.LeaksOf(c.Name))
			s.DaemonSets = append(s.DaemonSets, d)
		}
	}
	slices.SortStableFunc(s.DaemonSets, func(a, b DaemonSetStatus) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, d := range plan.Rollout.Decisions {
		s.Nodes = append(s.Nodes, nodeStatus(d))
	}
	return s
}

// Installed says that the instance has run on this cluster.
func (s Status) Installed() bool { return s.Since != "" }

// Bad says that something has failed or is halted.
func (s Status) Bad() bool {
	for _, p := range s.Policies {
		if p.Halted {
			return true
		}
	}
	for _, d := range s.DaemonSets {
		if d.Failed > 0 || d.Reverted != nil {
			return true
		}
	}
	for _, o := range s.Objects {
		if o.Failed() {
			return true
		}
	}
	return s.Problem != "" || s.Clock.Problem != ""
}

func policyStatus(p rollout.PolicyStatus) PolicyStatus {
	return PolicyStatus{
		Name: p.Name, Window: windowWords(p.Window), Nodes: p.Nodes, Remaining: p.Remaining,
		MaxUnavailable: p.MaxUnavailable, OutOfService: p.OutOfService, Halted: p.Halted, HaltMessage: p.HaltMessage, HaltEnds: p.HaltEnds,
		Waves: waveStatuses(p.Waves), Paused: pauseWord(p.Paused), Proceed: proceedWord(p.Proceed),
	}
}

func daemonSetStatus(p rollout.PolicyStatus, o rollout.Outlook, c rollout.Counts) DaemonSetStatus {
	s := DaemonSetStatus{
		Namespace: c.Name.Namespace, Name: c.Name.Name, Policy: p.Name,
		Desired: c.Desired, Current: c.Current, Ready: c.Ready, UpToDate: c.UpToDate, Available: c.Available, Failed: c.Failed,
		Window: windowWords(p.Window),
	}
	if c.UpToDate == c.Desired && c.Available == c.Desired {
		return s
	}
	if ends := o.Ends(); ends.IsZero() {
		s.Never = o.Never
	} else {
		s.ETA = Time(ends)
	}
	return s
}

func nodeStatus(d rollout.Decision) NodeStatus {
	s := NodeStatus{
		Policy: d.Policy, Node: d.Node, Wave: d.Wave, DaemonSet: d.DaemonSet.String(), State: string(d.State),
		Action: string(d.Action), Reason: string(d.Reason), Message: d.Message, Lamp: lamp(d),
	}
	if !d.Until.IsZero() {
		s.Until = Time(d.Until)
	}
	return s
}

// The lamps. One character says how far a node is.
const (
	lampDone    = "*" // up to date
	lampActive  = "~" // a pod is on its way
	lampFailed  = "!" // failed or stuck
	lampWaiting = "o" // outdated, waits its turn
	lampAway    = "-" // cannot be visited: not ready, held, or its pod would not return
)

func lamp(d rollout.Decision) string {
	switch d.Reason {
	case rollout.UpToDate:
		return lampDone
	case rollout.Start, rollout.Settling, rollout.Replacing, rollout.Draining, rollout.JobRunning:
		return lampActive
	case rollout.Failed, rollout.StuckTerminating:
		return lampFailed
	case rollout.NodeHeld, rollout.DaemonSetHeld, rollout.NodeNotReady, rollout.NodeMaintenance, rollout.NodeCordoned, rollout.WouldNotReturn, rollout.NoRoom, rollout.WindowTooShort:
		return lampAway
	default:
		return lampWaiting
	}
}

// WriteStatus writes a status as text.
func WriteStatus(w io.Writer, s Status) error {
	if !s.Installed() {
		_, err := fmt.Fprintf(w, "instance %s: nothing has been applied yet\n", s.Instance)
		if err == nil && s.Problem != "" {
			_, err = fmt.Fprintf(w, "NOT IN FORCE  %s\n", s.Problem)
		}
		return err
	}
	fmt.Fprintf(w, "instance %s  commit %s  since %s\n", s.Instance, commitWords(s.Commit), dash(s.Since))
	s.writeWords(w)
	if s.Problem != "" {
		fmt.Fprintf(w, "NOT IN FORCE  %s\n", s.Problem)
	}
	for _, p := range s.Policies {
		if p.Halted {
			fmt.Fprintf(w, "HALTED  %s\n", p.haltWords())
		}
	}
	for _, d := range s.DaemonSets {
		if d.Reverted != nil {
			fmt.Fprintf(w, "REVERTED  %s/%s: %s\n", d.Namespace, d.Name, d.Reverted.text)
		}
	}
	for _, d := range s.DaemonSets {
		if len(d.Leaks) > 0 {
			fmt.Fprintf(w, "LEAKED  %s/%s: %s\n", d.Namespace, d.Name, leakWords(d.Leaks))
		}
	}
	for _, line := range s.stuck() {
		fmt.Fprintf(w, "STUCK  %s\n", line)
	}
	fmt.Fprintln(w)
	if len(s.DaemonSets) == 0 {
		fmt.Fprintln(w, "no policy has a DaemonSet")
		return writeNotes(w, s.Objects)
	}
	var rows [][]any
	for _, d := range s.DaemonSets {
		eta := d.ETA
		if d.Never != "" {
			eta = "never"
		}
		rows = append(rows, []any{d.Namespace, d.Name, d.Desired, d.Current, d.Ready, d.UpToDate, d.Available, d.Failed, d.Window, dash(eta)})
	}
	if err := table(w, []any{"NAMESPACE", "NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE", "FAILED", "WINDOW", "ETA"}, rows); err != nil {
		return err
	}
	if err := writeWaves(w, s.Policies); err != nil {
		return err
	}
	return writeNotes(w, s.Objects)
}

// haltWords say of a halted policy why it is, and what lets it go on.
func (p PolicyStatus) haltWords() string {
	words := p.Name + ": " + p.HaltMessage
	if p.HaltEnds != "" {
		words += " (" + p.HaltEnds + ")"
	}
	return words
}

// stuck says why policies do not get to their end, those aside of which that
// is said already.
func (s Status) stuck() []string {
	said := s.said()
	var lines []string
	for _, d := range s.DaemonSets {
		if d.Never != "" && !said[d.Policy] {
			lines = append(lines, d.Policy+": "+d.Never)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func commitWords(c reconcile.Commit) string {
	if c.Hash == "" {
		return "(working tree)"
	}
	return strings.TrimSpace(c.Hash[:min(len(c.Hash), 7)] + " " + c.Subject)
}

func writeNotes(w io.Writer, notes []reconcile.ObjectNote) error {
	if len(notes) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	var rows [][]any
	for _, n := range notes {
		rows = append(rows, []any{strings.ToLower(n.Action), n.Object, n.Reason, Time(n.Until), dash(noteMessage(n))})
	}
	return table(w, []any{"ACTION", "OBJECT", "REASON", "UNTIL", "MESSAGE"}, rows)
}

// WriteNodes writes a lamp per node and, below, what each one waits for.
func WriteNodes(w io.Writer, s Status) error {
	if len(s.Nodes) == 0 {
		return nil
	}
	for _, p := range s.Policies {
		var (
			lamps []string
			rows  [][]any
		)
		for _, n := range s.Nodes {
			if n.Policy == p.Name {
				lamps = append(lamps, n.Lamp)
				rows = append(rows, []any{n.Lamp, n.Node, n.State, n.Reason, dash(n.Until), dash(n.Message)})
			}
		}
		fmt.Fprintf(w, "\n%s  %s\n", p.Name, strings.Join(lamps, " "))
		if err := table(w, []any{"LAMP", "NODE", "STATE", "REASON", "UNTIL", "MESSAGE"}, rows); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s up to date  %s under way  %s failed  %s waits its turn  %s cannot be visited\n",
		lampDone, lampActive, lampFailed, lampWaiting, lampAway)
	return err
}
