// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/window"
)

// A Forecast is what the planner would do if every visit took as long as the
// estimate says and nothing else happened to the cluster.
type Forecast struct {
	Visits   []Planned // by start, policy and node
	Policies []Outlook // by name
}

// Of is the outlook of a policy; zero when there is none of that name.
func (f Forecast) Of(policy string) Outlook {
	for _, o := range f.Policies {
		if o.Name == policy {
			return o
		}
	}
	return Outlook{}
}

// Ends is when a policy is done, but for nodes that wait for somebody; zero when
// it never is, or when nothing is to be done.
func (o Outlook) Ends() time.Time {
	if o.Stranded > 0 {
		return time.Time{}
	}
	return o.Done
}

// Planned is one visit to come, or one that is open already.
type Planned struct {
	Policy     string
	Node       string
	Wave       string                 // "" when the policy has no waves
	DaemonSets []types.NamespacedName // in the order of their evictions
	Start      time.Time
	End        time.Time // zero when it does not end by itself
	// Window is the one whose opening it starts in; empty when always open, and
	// for a visit that was open already and whose window has shut.
	Window string
	// Opens and Closes bound that opening; zero when nothing does.
	Opens, Closes time.Time
}

// Outlook is how one policy ends.
type Outlook struct {
	Name      string
	Remaining int           // nodes that are never settled
	Stranded  int           // of those, the ones that wait for nobody: for a window, a slot, a policy that is halted
	Done      time.Time     // when the last of the others is; zero when none is to be
	Never     string        // why nodes remain that wait for nobody; "" when none does
	Openings  int           // how many more openings like the fullest before would do, when windows come to an end too early
	Rough     bool          // Done is estimated: the rollout is too long to be simulated
	Estimate  time.Duration // of one visit
	Left      []Decision    // about the nodes that remain, by name, as they are in the end
}

// forecast sums up. A simulation is cut short when it has cost enough.
func (s *simulation) forecast(cutShort bool) Forecast {
	var f Forecast
	for _, v := range s.ended {
		f.Visits = append(f.Visits, *v)
	}
	for _, v := range s.visits {
		f.Visits = append(f.Visits, *v)
	}
	policies := map[string]policy.UpgradePolicy{}
	for _, p := range s.policies {
		policies[p.Name] = p
	}
	for i := range f.Visits {
		v := &f.Visits[i]
		var labels map[string]string
		if node := s.nodes[v.Node]; node != nil {
			labels = node.Labels
		}
		if w := NewHours(policies[v.Policy], s.before, "", v.Start).For(labels); w.Open {
			v.Window, v.Opens, v.Closes = w.By, w.Opened, w.Close
		}
	}
	slices.SortFunc(f.Visits, func(a, b Planned) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Node, b.Node))
	})
	for _, p := range s.last.Policies {
		f.Policies = append(f.Policies, s.outlook(p, f.Visits, cutShort))
	}
	return f
}

func (s *simulation) outlook(p PolicyStatus, visits []Planned, cutShort bool) Outlook {
	o := Outlook{Name: p.Name, Remaining: p.Remaining, Done: s.done[p.Name], Never: p.Never}
	for _, d := range s.last.Decisions {
		if d.Policy == p.Name && d.Reason != UpToDate && d.Reason != Start {
			o.Left = append(o.Left, d)
		}
	}
	var longest time.Duration
	ended, fullest, inOpening := 0, 0, map[time.Time]int{}
	for _, v := range visits {
		if v.Policy == p.Name {
			longest = max(longest, s.lengths[visitKey{v.Policy, v.Node}])
		}
		if v.Policy != p.Name || v.End.IsZero() {
			continue
		}
		ended++
		if !v.Opens.IsZero() {
			inOpening[v.Opens]++
			fullest = max(fullest, inOpening[v.Opens])
		}
	}
	o.Estimate = cmp.Or(longest, p.Estimate)
	waiting := p.Remaining - p.Blocked
	o.Stranded = waiting
	switch {
	case p.Never != "" || waiting == 0:
	case cutShort && ended > 0:
		each := s.now.Sub(s.start) / time.Duration(ended)
		o.Remaining, o.Stranded, o.Rough, o.Done = p.Blocked, 0, true, s.now.Add(each*time.Duration(waiting))
		o.Left = slices.DeleteFunc(o.Left, func(d Decision) bool { return !d.Reason.needsSomebody() })
	case cutShort:
		o.Never = "too far ahead to be foreseen"
	default:
		o.Never = s.stranded(p, o.Left, ended)
		if runsOut(p.Window) && fullest > 0 {
			o.Openings = (waiting + fullest - 1) / fullest
		}
	}
	return o
}

// runsOut says that no window opens after this one.
func runsOut(w window.State) bool {
	return w.NextOpen.IsZero() && (!w.Open || !w.Close.IsZero())
}

// stranded says why nodes of a policy remain though nobody is waited for.
func (s *simulation) stranded(p PolicyStatus, left []Decision, ended int) string {
	switch {
	case ended == 0 && s.tooLate[p.Name]:
		return fmt.Sprintf("a visit takes %s, and no window that long opens", window.FormatDuration(p.Estimate))
	case runsOut(p.Window):
		return p.Window.NothingAhead()
	}
	for _, d := range left {
		switch d.Reason {
		case WindowShut, Frozen, TooLateToStart:
			return "no visit can start before " + s.now.UTC().Format(time.RFC3339)
		}
		if !d.Reason.needsSomebody() && d.Action == Hold {
			return fmt.Sprintf("%s: %s: %s", d.Node, d.Reason, d.Message)
		}
	}
	return "nothing more happens by itself"
}
