// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lamplighter.dev/reconcile/policy"
)

// domains are the values of the topology's label in which a tour has visits.
// Without a topology there is one, which is never busy.
type domains struct {
	policy.Topology
	visited map[string]int // open visits
	down    map[string]int // of them, those whose node is out of service right now, or may be
	begun   string         // the one to be finished before the next
	some    bool           // begun is one
	busy    counted
}

func (t *tour) newDomains() *domains {
	d := &domains{Topology: t.policy.Topology}
	if d.Key == "" {
		return d
	}
	d.visited, d.down = map[string]int{}, map[string]int{}
	for i := range t.stops {
		if s := &t.stops[i]; s.visit != nil {
			d.visited[s.domain]++
			if s.out() {
				d.down[s.domain]++
			}
		}
	}
	if len(d.visited) == 0 {
		d.begun, d.some = t.lastDomain()
	}
	return d
}

// lastDomain is that of the last visit which has ended, if it was to a revision
// that is still in force.
func (t *tour) lastDomain() (string, bool) {
	for _, v := range slices.Backward(t.book.ledger.Finished) {
		if v.Policy != t.policy.Name {
			continue
		}
		i, exists := t.byNode[v.Node]
		inForce := slices.ContainsFunc(v.Steps, func(s Step) bool { return s.To == t.revision(s.DaemonSet) })
		if !exists || !inForce {
			return "", false
		}
		return t.nodes[i].Labels[t.policy.Topology.Key], true
	}
	return "", false
}

// before orders domains: the ones that are visited, the one that was visited
// last, and then by name.
func (d *domains) before(a, b string) int {
	if a == b {
		return 0
	}
	return cmp.Or(one(d.started(b))-one(d.started(a)), strings.Compare(a, b))
}

func (d *domains) started(domain string) bool {
	return d.visited[domain] > 0 || (d.some && d.begun == domain)
}

// hold keeps a visit from a domain while enough others are visited. After a ledger
// was lost, the number was lowered or a label changed, there may be visits in too
// many: then none starts in these either, and those whose node is up wait, too.
func (d *domains) hold(s *stop) hold {
	busy := d.visited
	if s.visit != nil {
		busy = d.down
	}
	most := d.MaxDomains - one(busy[s.domain] == 0)
	if d.Key == "" || (s.visit != nil && s.down) || len(busy) <= most {
		return hold{}
	}
	return hold{action: Hold, reason: TopologyBusy, message: d.busy.of([2]int{len(busy), one(s.visit != nil)}, func() string {
		return fmt.Sprintf("%s: at most %d, and visits are in %s", d.Key, d.MaxDomains, listed(slices.Sorted(maps.Keys(busy))))
	})}
}

// listed writes the first few domains.
func listed(domains []string) string {
	const most = 3
	var words []string
	for _, d := range domains[:min(len(domains), most)] {
		words = append(words, cmp.Or(d, "no domain"))
	}
	if len(domains) > most {
		words = append(words, fmt.Sprintf("%d more", len(domains)-most))
	}
	return strings.Join(words, ", ")
}

func (d *domains) take(s *stop) {
	if d.Key == "" {
		return
	}
	if s.visit == nil {
		d.visited[s.domain]++
	}
	if s.visit == nil || !s.out() {
		d.down[s.domain]++
	}
}
