// SPDX-License-Identifier: Apache-2.0

// Package why answers why a node or a DaemonSet is as it is: the chain from the
// commit in force to the pod, each link with a mark, and the link that decides.
// It decides nothing: what is to be done is the planner's decision, which it only
// puts among the facts that it rests on. It is a function of what was observed,
// decided and said in events:
//
//	chains, err := why.Node(why.Input{Observation: obs, Plan: plan, Events: events, Now: now}, "node-004")
package why

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// A Mark says what a link means for the next step.
type Mark string

const (
	// OK: nothing stands in the way here.
	OK Mark = "ok"
	// Waits: this ends by itself, with time or when others are done.
	Waits Mark = "wait"
	// Stops: somebody has to do something.
	Stops Mark = "stop"
	// Note: it is of interest, and decides nothing.
	Note Mark = "note"
)

// A Link is one step of a chain.
type Link struct {
	Name  string // commit, revision, window, …
	Mark  Mark
	Text  string
	Until time.Time // when a wait ends; zero when that is not known
	Look  string    // a command that shows more; "" when there is none
}

// A Chain is why one node is as it is for one policy, or one DaemonSet as a
// whole.
type Chain struct {
	Node      string // "" when it is about a DaemonSet
	Policy    string // "" when none is concerned
	DaemonSet types.NamespacedName
	Decision  string // what the planner says: "hold: WindowShut"
	Links     []Link
	Decides   int       // the place of the link that holds up what is next; -1 when nothing does
	Next      time.Time // when it is looked at again if nothing moves before; zero when time alone changes nothing
}

// Input is what chains are made from.
type Input struct {
	Observation reconcile.Observation
	Plan        reconcile.Plan
	Events      []health.Event // the newest first
	EventsErr   error          // why events could not be read; nil when they could
	Now         time.Time
}

// UnknownError says that there is nothing of a name, and what may be meant.
type UnknownError struct {
	What, Name string
	Near       []string // names that may be meant
	Any        bool     // there are others
}

func (e *UnknownError) Error() string {
	if !e.Any {
		return fmt.Sprintf("%s %q: there is none of this name, nor any other", e.What, e.Name)
	}
	return fmt.Sprintf("%s %q: there is none of this name", e.What, e.Name)
}

// FindNode is the error for a node that does not exist, nil for one that does.
func FindNode(obs reconcile.Observation, name string) error {
	var names []string
	for _, n := range obs.Nodes {
		if n.Name == name {
			return nil
		}
		names = append(names, n.Name)
	}
	e := unknown("node", name, names)
	if d, err := FindDaemonSet(obs, types.NamespacedName{Name: name}); err == nil && len(e.Near) == 0 {
		e.Near = []string{"daemonset/" + d.String()}
	}
	return e
}

// FindDaemonSet is the name of a DaemonSet that exists, that a policy names or
// that the instance owns. Without a namespace it is the only one of that name
// among the latter two.
func FindDaemonSet(obs reconcile.Observation, name types.NamespacedName) (types.NamespacedName, error) {
	known := map[string]types.NamespacedName{} // to us
	for _, p := range obs.Policies.Upgrades {
		for _, d := range p.DaemonSets {
			known[d.String()] = d
		}
	}
	for _, id := range obs.State.Inventory.IDs() {
		if id.GroupKind == daemonSetKind {
			d := types.NamespacedName{Namespace: id.Namespace, Name: id.Name}
			known[d.String()] = d
		}
	}
	exists := slices.ContainsFunc(obs.DaemonSets, func(d health.DaemonSet) bool { return d.Name == name })
	if _, ours := known[name.String()]; exists || ours {
		return name, nil
	}
	names := slices.Sorted(maps.Keys(known))
	var same []string
	for _, n := range names {
		if known[n].Name == name.Name {
			same = append(same, n)
		}
	}
	switch {
	case len(same) == 1 && name.Namespace == "":
		return known[same[0]], nil
	case len(same) > 0:
		return name, &UnknownError{What: "DaemonSet", Name: strings.TrimPrefix(name.String(), "/"), Near: same, Any: true}
	}
	return name, unknown("DaemonSet", strings.TrimPrefix(name.String(), "/"), names)
}

func unknown(what, name string, among []string) *UnknownError {
	e := &UnknownError{What: what, Name: name, Any: len(among) > 0}
	slices.Sort(among)
	if near := policy.Nearest(name, among); near != "" {
		e.Near = []string{near}
	}
	return e
}

// Subjects are whose events tell about a node, or about a DaemonSet: its pods
// that are not well, a few of them, and the DaemonSets themselves.
func Subjects(in Input, node string, name types.NamespacedName) []health.Subject {
	const most = 10
	governed := map[types.UID]health.DaemonSet{}
	for _, d := range in.Observation.DaemonSets {
		if _, ok := in.Observation.Policies.For(d.Name); d.Name == name || name.Name == "" && ok {
			governed[d.UID] = d
		}
	}
	var subjects []health.Subject
	for _, d := range governed {
		subjects = append(subjects, health.Subject{Kind: "DaemonSet", Name: d.Name, UID: d.UID})
	}
	pods := 0
	for _, p := range in.Observation.Pods {
		if _, ours := governed[p.Owner]; !ours || (node != "" && p.Node != node) || (node == "" && (p.Ready || pods >= most)) {
			continue
		}
		pods++
		subjects = append(subjects, health.Subject{Kind: "Pod", Name: p.Name, UID: p.UID})
	}
	slices.SortFunc(subjects, func(a, b health.Subject) int {
		return strings.Compare(a.Kind+" "+a.Name.String(), b.Kind+" "+b.Name.String())
	})
	return subjects
}

// builder makes one chain.
type builder struct {
	Input
	chain Chain
}

func (b *builder) add(name string, mark Mark, format string, args ...any) *Link {
	b.chain.Links = append(b.chain.Links, Link{Name: name, Mark: mark, Text: fmt.Sprintf(format, args...)})
	return &b.chain.Links[len(b.chain.Links)-1]
}

// decide marks the link that a decision rests on; without one of that name, the
// decision is a link of its own. If the planner holds nothing up, the first link
// that does decides.
func (b *builder) decide(name string, mark Mark, text string, until time.Time) {
	b.chain.Decides = -1
	if name != "" {
		i := slices.IndexFunc(b.chain.Links, func(l Link) bool { return l.Name == name })
		if i < 0 {
			b.add(name, mark, "%s", text)
			i = len(b.chain.Links) - 1
		}
		l := &b.chain.Links[i]
		l.Mark, l.Until = mark, until
		if text != "" && !strings.Contains(l.Text, text) {
			l.Text = join(l.Text, text)
		}
		b.chain.Decides = i
		return
	}
	b.chain.Decides = slices.IndexFunc(b.chain.Links, func(l Link) bool { return l.Mark == Stops || l.Mark == Waits })
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// commit says what is in force, and why the newest commit may not be.
func (b *builder) commit() {
	r := b.Observation.State.Record
	what := "a working tree"
	if r.Commit.Hash != "" {
		what = strings.TrimSpace(r.Commit.Hash[:min(len(r.Commit.Hash), 7)] + " " + r.Commit.Subject)
	}
	switch {
	case r.Since.IsZero() && r.Problem != "":
		b.add("commit", Stops, "nothing has been applied yet: %s", r.Problem)
	case r.Since.IsZero():
		b.add("commit", Stops, "nothing has been applied yet")
	case r.Problem != "":
		b.add("commit", Stops, "%s is in force since %s, and the newest is not: %s", what, stamp(r.Since), r.Problem)
	default:
		b.add("commit", OK, "%s, in force since %s", what, stamp(r.Since))
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// linkOf names the link that each reason is about, and what it means.
func linkOf(r rollout.Reason) (name string, mark Mark) {
	switch r {
	case rollout.UpToDate, rollout.Start:
		return "", OK
	case rollout.RevisionNotObserved:
		return "revision", Waits
	case rollout.WouldNotReturn:
		return "placement", Stops
	case rollout.NodeNotReady, rollout.NodeHeld, rollout.NodeCordoned:
		return "node", Stops
	case rollout.NodeMaintenance:
		return "node", Waits
	case rollout.Settling, rollout.Replacing:
		return "pod", Waits
	case rollout.Failed, rollout.StuckTerminating:
		return "pod", Stops
	case rollout.DaemonSetHeld:
		return "hold", Stops
	case rollout.Halted, rollout.Paused:
		return "policy", Stops
	case rollout.ClockUntrusted:
		return "clock", Stops
	case rollout.WindowShut, rollout.Frozen, rollout.TooLateToStart:
		return "window", Waits
	case rollout.WindowTooShort:
		return "window", Stops
	case rollout.GateShut:
		return "gate", Waits
	case rollout.JobRunning:
		return "job", Waits
	case rollout.NoRoom:
		return "room", Stops
	case rollout.Draining:
		return "drain", Waits
	case rollout.DrainFailed:
		return "drain", Stops
	case rollout.Checking:
		return "admission", Waits
	case rollout.NotAdmitted:
		return "admission", Stops
	case rollout.WaveWaiting, rollout.Soaking:
		return "wave", Waits
	case rollout.TopologyBusy:
		return "topology", Waits
	case rollout.BudgetSpent, rollout.NodeBusy:
		return "budget", Waits
	case rollout.DisruptionBudget:
		return "disruption budget", Waits
	}
	return "decision", Waits
}
