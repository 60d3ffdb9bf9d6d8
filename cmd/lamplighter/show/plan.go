// SPDX-License-Identifier: Apache-2.0

package show

import (
	"strings"
	"time"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
	"lamplighter.dev/reconcile/window"
)

// Plan is what will come of a fleet on a cluster: what changes, and which node
// is visited when.
type Plan struct {
	At       string        `json:"at"`
	Instance string        `json:"instance"`
	Snapshot *SnapshotNote `json:"snapshot,omitempty"` // when no cluster was asked
	// Refused says why nothing of the commit comes into force; empty when it does.
	Refused  string          `json:"refused,omitempty"`
	Changes  ChangeCounts    `json:"changes"`
	Objects  []PlannedObject `json:"objects"` // those that differ from Git, sorted
	Policies []PlannedPolicy `json:"policies"`
	Warnings []string        `json:"warnings"` // selectors that match nothing
}

// SnapshotNote says what a plan was made from when no cluster was asked.
type SnapshotNote struct {
	Taken string `json:"taken"`
	// Unknown is what a snapshot cannot tell, a line each.
	Unknown []string `json:"unknown,omitempty"`
}

// ChangeCounts counts objects by what happens to them.
type ChangeCounts struct {
	Created    int `json:"created"`
	Configured int `json:"configured"`
	Recreated  int `json:"recreated"` // deleted and created anew
	Pruned     int `json:"pruned"`
	Held       int `json:"held"`
	Refused    int `json:"refused"`
	Unchanged  int `json:"unchanged"`
}

// PlannedObject is one object that is not as Git says, and for a DaemonSet what
// its change means for nodes.
type PlannedObject struct {
	Object string `json:"object"`
	Origin
	Action  string `json:"action"`
	Reason  string `json:"reason"`
	Until   string `json:"until,omitempty"`
	Message string `json:"message,omitempty"`
	// Change is TemplateChange, PlacementChange, Create, Recreate or Delete for a DaemonSet
	// whose pods are concerned.
	Change   string `json:"change,omitempty"`
	Restarts int    `json:"restarts,omitempty"` // nodes whose pod is replaced, visit by visit
	Starts   int    `json:"starts,omitempty"`   // nodes that get a pod and have none
	Leaves   int    `json:"leaves,omitempty"`   // nodes whose pod ends at once, all together
}

// PlannedPolicy is the calendar of one policy.
type PlannedPolicy struct {
	Name           string         `json:"name"`
	Nodes          int            `json:"nodes"`
	MaxUnavailable int            `json:"maxUnavailable"` // nodes at once
	VisitDuration  string         `json:"visitDuration"`  // measured, or as the policy estimates it
	Visits         []PlannedVisit `json:"visits"`         // by start
	Done           string         `json:"done,omitempty"` // when the last node that waits for nobody is settled
	Rough          bool           `json:"rough,omitempty"`
	// Never says why it never is, and nodes are left over; MoreWindows is how many windows like the fullest one are missing.
	Never       string     `json:"never,omitempty"`
	MoreWindows int        `json:"moreWindows,omitempty"`
	Warning     string     `json:"warning,omitempty"` // what is likely not meant, and only seen with the nodes
	Left        []LeftNode `json:"left"`              // nodes that are not visited, or not settled, in the end

	zone *time.Location
}

// PlannedVisit is one node's turn.
type PlannedVisit struct {
	Node       string   `json:"node"`
	DaemonSets []string `json:"daemonSets"`
	Wave       string   `json:"wave,omitempty"`
	Window     string   `json:"window,omitempty"` // empty when always open
	Opens      string   `json:"opens,omitempty"`  // when that opening began
	Start      string   `json:"start"`
	End        string   `json:"end,omitempty"` // empty when it does not end by itself

	start time.Time
}

// LeftNode is a node that is not up to date in the end, and why.
type LeftNode struct {
	Node    string `json:"node"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Pending says that there is something to do.
func (p Plan) Pending() bool {
	for _, policy := range p.Policies {
		if len(policy.Visits) > 0 || len(policy.Left) > 0 {
			return true
		}
	}
	return len(p.Objects) > 0
}

// NewPlan sums up what was decided and foreseen at an instant.
func NewPlan(obs reconcile.Observation, plan reconcile.Plan, f reconcile.Forecast, at time.Time) Plan {
	out := Plan{
		At: Time(at.Truncate(time.Second)), Instance: obs.Instance.Namespace + "/" + obs.Instance.Name,
		Objects: []PlannedObject{}, Policies: []PlannedPolicy{}, Warnings: []string{},
	}
	if err := obs.Refused(); err != nil {
		out.Refused = err.Error()
	}
	out.Warnings = append(out.Warnings, reconcile.Unmatched(obs)...)
	impacts := map[inventory.ID]reconcile.Impact{}
	for _, i := range f.Impacts {
		impacts[i.ID] = i
	}
	for _, d := range plan.Objects.Decisions() {
		out.Changes.count(d)
		if d.Action != inventory.Keep {
			out.Objects = append(out.Objects, plannedObject(d, impacts[d.ID]))
		}
	}
	for _, status := range plan.Rollout.Policies {
		out.Policies = append(out.Policies, plannedPolicy(obs.Policies, status, f.Rollout))
	}
	return out
}

func (c *ChangeCounts) count(d inventory.Decision) {
	switch d.Action {
	case inventory.Apply:
		if d.Reason == inventory.Created {
			c.Created++
		} else {
			c.Configured++
		}
	case inventory.Recreate:
		c.Recreated++
	case inventory.Prune, inventory.Release:
		c.Pruned++
	case inventory.Hold:
		c.Held++
	case inventory.Refuse:
		c.Refused++
	case inventory.Keep:
		c.Unchanged++
	}
}

func plannedObject(d inventory.Decision, i reconcile.Impact) PlannedObject {
	o := PlannedObject{
		Object: inventory.Format(d.ID), Action: string(d.Action), Reason: string(d.Reason), Message: messageAbout(d.ID, d.Message), Origin: originOf(d.Source),
		Change: string(i.Change), Restarts: i.Restarts, Starts: i.Starts, Leaves: i.Leaves,
	}
	if !d.Until.IsZero() {
		o.Until = Time(d.Until)
	}
	return o
}

func plannedPolicy(set policy.Set, status rollout.PolicyStatus, f rollout.Forecast) PlannedPolicy {
	outlook := f.Of(status.Name)
	p := PlannedPolicy{
		Name: status.Name, Nodes: status.Nodes, MaxUnavailable: status.MaxUnavailable, VisitDuration: window.FormatDuration(outlook.Estimate),
		Visits: []PlannedVisit{}, Rough: outlook.Rough, MoreWindows: outlook.Openings, Warning: status.Unhalting, Left: []LeftNode{},
		zone: time.UTC,
	}
	zones := map[string]*time.Location{}
	for _, w := range set.Windows {
		zones[w.Name] = w.Window.Location()
	}
	for _, c := range calendars(set) {
		if c.policy == status.Name {
			p.zone = c.zone()
		}
	}
	if ends := outlook.Ends(); ends.IsZero() {
		p.Never = outlook.Never
	} else {
		p.Done = Time(ends.In(p.zone))
	}
	for _, v := range f.Visits {
		if v.Policy == status.Name {
			zone := p.zone
			if z, ok := zones[v.Window]; ok {
				zone = z
			}
			p.Visits = append(p.Visits, plannedVisit(v, zone))
		}
	}
	for _, d := range outlook.Left {
		p.Left = append(p.Left, LeftNode{Node: d.Node, Reason: string(d.Reason), Message: d.Message})
	}
	return p
}

func plannedVisit(v rollout.Planned, zone *time.Location) PlannedVisit {
	out := PlannedVisit{Node: v.Node, Wave: v.Wave, Window: v.Window, Start: Time(v.Start.In(zone)), start: v.Start.In(zone), DaemonSets: []string{}}
	for _, d := range v.DaemonSets {
		out.DaemonSets = append(out.DaemonSets, d.String())
	}
	if !v.Opens.IsZero() {
		out.Opens = Time(v.Opens.In(zone))
	}
	if !v.End.IsZero() {
		out.End = Time(v.End.In(zone))
	}
	return out
}

func (o PlannedObject) impactWords() string {
	return impactWords(reconcile.Impact{Restarts: o.Restarts, Starts: o.Starts, Leaves: o.Leaves})
}

// impactWords says what the change of a DaemonSet means for nodes.
func impactWords(i reconcile.Impact) string {
	var words []string
	if i.Restarts > 0 {
		words = append(words, "restarts "+countOf(i.Restarts, "node"))
	}
	if i.Leaves > 0 {
		words = append(words, "ends pods on "+countOf(i.Leaves, "node")+" at once")
	}
	if i.Starts > 0 {
		words = append(words, "starts on "+countOf(i.Starts, "node"))
	}
	return strings.Join(words, ", ")
}
