// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
)

// pair is a DaemonSet on a node.
type pair struct {
	owner types.UID
	node  string
}

func (s *simulation) countDue() {
	policyOf, setOf := map[types.UID]string{}, map[types.UID]*health.DaemonSet{}
	for _, p := range s.policies {
		for _, name := range p.DaemonSets {
			if d := s.sets[name]; d != nil {
				policyOf[d.UID], setOf[d.UID] = p.Name, d
			}
		}
	}
	s.due = map[visitKey]int{}
	for _, p := range s.obs.Pods {
		if d := setOf[p.Owner]; d != nil && !d.UpToDate(p) && s.returns(p) {
			s.due[visitKey{policyOf[p.Owner], p.Node}]++
		}
	}
}

// returns says that a pod would be created again, so that it is evicted some day.
func (s *simulation) returns(p *health.Pod) bool {
	node, placer := s.nodes[p.Node], s.placers[p.Owner]
	return node != nil && placer != nil && placer.On(node).ShouldRun
}

// reduce leaves only the nodes on which something is to be done, so that the
// cost falls as the rollout goes on, and of every wave one that has settled, to
// bear witness.
func (s *simulation) reduce() {
	busy, witnessed := map[string]bool{}, map[waveKey]bool{}
	for _, d := range s.last.Decisions {
		wave := waveKey{d.Policy, d.Wave}
		if d.Reason != UpToDate || (d.Wave != "" && !witnessed[wave]) {
			busy[d.Node] = true
		}
		witnessed[wave] = witnessed[wave] || d.Reason == UpToDate
	}
	for _, v := range s.obs.Ledger.Visits {
		busy[v.Node] = true
	}
	s.obs.Nodes = slices.DeleteFunc(slices.Clone(s.obs.Nodes), func(n health.Node) bool { return !busy[n.Name] })
	s.obs.Pods = slices.DeleteFunc(slices.Clone(s.obs.Pods), func(p *health.Pod) bool { return !busy[p.Node] })
	s.pods = make(map[types.UID]int, len(s.obs.Pods))
	s.first = make(map[pair]int, len(s.obs.Pods))
	for i, p := range s.obs.Pods {
		s.pods[p.UID] = i
		if _, known := s.first[pair{p.Owner, p.Node}]; !known {
			s.first[pair{p.Owner, p.Node}] = i
		}
	}
}

// replace puts a new pod in the place of the evicted one.
func (s *simulation) replace(d *Decision) {
	place := s.pods[d.Pod.UID]
	delete(s.pods, d.Pod.UID)
	s.put(place, d)
	s.due[visitKey{d.Policy, d.Node}]--
}

// bringUp lets what is on its way on a node arrive.
func (s *simulation) bringUp(d *Decision) {
	on := pair{s.sets[d.DaemonSet].UID, d.Node}
	if i, known := s.first[on]; known {
		p := s.obs.Pods[i]
		if p.Ready && !p.Deleting {
			return // it settles by itself
		}
		delete(s.pods, p.UID)
		s.put(i, d)
		return
	}
	s.first[on] = len(s.obs.Pods)
	s.obs.Pods = append(s.obs.Pods, nil)
	s.put(len(s.obs.Pods)-1, d)
}

// put writes a new pod that settles in time for the visit to take as long as
// the estimate says.
func (s *simulation) put(place int, d *Decision) {
	set := s.sets[d.DaemonSet]
	s.made++
	settled := s.now.Add(s.share(d))
	if s.arrival.IsZero() || settled.Before(s.arrival) {
		s.arrival = settled
	}
	pod := health.Pod{
		Name: types.NamespacedName{Namespace: d.DaemonSet.Namespace, Name: fmt.Sprintf("%s-simulated-%d", d.DaemonSet.Name, s.made)},
		Node: d.Node, Owner: set.UID, Hash: set.Revision, Phase: corev1.PodRunning, Created: s.now, Ready: true,
	}
	pod.UID = types.UID(pod.Name.Name)
	for _, p := range s.policies {
		if p.Name == d.Policy {
			limits := health.Limits{MinReady: time.Duration(p.MinReadySeconds) * time.Second}
			pod.ReadySince = settled.Add(-limits.MinReadyOf(set))
		}
	}
	s.obs.Pods[place] = &pod
	s.pods[pod.UID] = place
}

// share is the part of the estimate that is left for one of the policy's pods
// on a node that are yet to be replaced.
func (s *simulation) share(d *Decision) time.Duration {
	status := s.statusOf(d.Policy)
	estimate := cmp.Or(s.lengths[visitKey{d.Policy, d.Node}], status.Estimate) + status.Verifying
	left, pods := estimate, 1
	// A visit that was open before has an unknown part behind it.
	if v := s.visits[visitKey{d.Policy, d.Node}]; v != nil && !v.Start.Before(s.start) {
		left = v.Start.Add(estimate).Sub(s.now)
		pods = max(1, s.due[visitKey{d.Policy, d.Node}])
	}
	return max(left/time.Duration(pods), time.Second)
}
