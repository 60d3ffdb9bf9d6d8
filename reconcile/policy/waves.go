// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Wave is a group of nodes that is visited before the next one. The last wave
// of a policy has no selector, so that every node is in one.
type Wave struct {
	Name string
	// Selector of its nodes; nil for all that are in no earlier wave.
	Selector labels.Selector
	// MaxUnavailable is a number of nodes or a percentage of the wave's nodes;
	// the policy's if the wave does not say: see MaxUnavailableOf.
	MaxUnavailable intstr.IntOrString
	// Soak is how long the wave is watched after its last node has settled,
	// before the next one starts.
	Soak time.Duration
	// Gates that a visit in this wave waits for, after those of the policy.
	Gates []Gate
}

// Topology bounds the domains in which nodes are visited at once. The zero
// Topology is no bound.
type Topology struct {
	// Key is the node label whose values are the domains. Nodes without it
	// share one.
	Key        string
	MaxDomains int
}

// CordonedNodes is what happens to nodes that somebody has cordoned.
type CordonedNodes string

const (
	// Skip leaves them to whoever cordoned them.
	Skip CordonedNodes = "Skip"
	// Visit visits them as any other.
	Visit CordonedNodes = "Visit"
)

// MaxUnavailableOf is how many nodes of a wave of that many may be out of
// service at once: a percentage is rounded up as a DaemonSet does, and it is at
// least 1.
func (w Wave) MaxUnavailableOf(nodes int) int { return atLeastOneOf(w.MaxUnavailable, nodes) }

func atLeastOneOf(most intstr.IntOrString, nodes int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(&most, nodes, true)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// WaveOf is the place of the wave that a node with these labels is in; -1 if
// there are no waves.
func (p UpgradePolicy) WaveOf(node labels.Set) int {
	for i := range p.Waves {
		if s := p.Waves[i].Selector; s == nil || s.Matches(node) {
			return i
		}
	}
	return -1
}

// readWaves reads the waves. The last one takes all nodes that are left, so
// that none is in no wave and is never visited.
func readWaves(s *fields, byDefault intstr.IntOrString, gates *gateReader) []Wave {
	var waves []Wave
	paths := map[string]string{}
	list := s.objects("waves")
	if empty, isList := s.values["waves"].([]any); isList && len(empty) == 0 {
		s.errorf("waves", "has no wave: drop it to visit all nodes alike")
	}
	for i, f := range list {
		w, last := readWave(f, byDefault, gates), i == len(list)-1
		readWaveName(f, w.Name, paths)
		switch {
		case last && f.has("nodeSelector"):
			f.errorf("nodeSelector", "leaves nodes that are in no wave and would never be visited: drop it, or add a last wave with only a name")
		case !last && !f.has("nodeSelector"):
			f.errorf("nodeSelector", "is required but in the last wave: without it this wave takes all nodes, and those after it get none")
		case last && w.Soak > 0:
			s.subject.warnf(f.at("soak"), "is waited for by nobody: no wave comes after this one")
		}
		waves = append(waves, w)
	}
	return waves
}

func readWave(f *fields, byDefault intstr.IntOrString, gates *gateReader) Wave {
	w := Wave{Name: f.text("name"), MaxUnavailable: readMaxUnavailable(f, byDefault), Soak: f.duration("soak", 0)}
	w.Selector, _ = readSelector(f, "nodeSelector")
	w.Gates = gates.read(f)
	f.done()
	return w
}

func readWaveName(f *fields, name string, paths map[string]string) {
	switch other, taken := paths[name]; {
	case f.blank("name"):
		f.errorf("name", "is required")
	case name == "": // not text: said already
	case len(validation.IsDNS1123Label(name)) > 0:
		f.errorf("name", "%q is not a name: lower case letters, digits and - only, at most %d", shorten(name), validation.DNS1123LabelMaxLength)
	case taken:
		f.errorf("name", "%q is taken by %s: rename one of them", name, other)
	default:
		paths[name] = f.path
	}
}

func readTopology(s *fields) Topology {
	f := s.object("topology")
	if f == nil {
		return Topology{}
	}
	t := Topology{Key: f.text("key"), MaxDomains: int(f.number("maxDomains", 1, limits{1, math.MaxInt32}))}
	switch {
	case f.blank("key"):
		f.errorf("key", "is required: a label of nodes, such as topology.kubernetes.io/zone")
	case t.Key != "" && len(validation.IsQualifiedName(t.Key)) > 0:
		f.errorf("key", "%q is not the key of a label: write one such as topology.kubernetes.io/zone", shorten(t.Key))
	}
	f.done()
	return t
}
