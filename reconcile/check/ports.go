// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// hostPort is a port of the node that a container takes.
type hostPort struct {
	number   int32
	protocol corev1.Protocol
	ip       string // empty is every address
	field    string
}

func (p hostPort) clashes(o hostPort) bool {
	return p.number == o.number && p.protocol == o.protocol && (p.ip == o.ip || p.ip == "" || o.ip == "")
}

// hostPorts finds DaemonSets that want one port of one node: the second to come
// is never scheduled there.
func (r *report) hostPorts(agents []agent) {
	for i, a := range agents {
		for _, b := range agents[:i] {
			if !mayShareNode(a.pod(), b.pod()) {
				continue
			}
			for _, p := range portsOf(a.pod()) {
				if slices.ContainsFunc(portsOf(b.pod()), p.clashes) {
					r.find(HostPortConflict, a.subject, p.field, "%d/%s of the node is taken by %s: one node cannot run both", p.number, p.protocol, b.object)
				}
			}
		}
	}
}

func portsOf(spec *corev1.PodSpec) []hostPort {
	var out []hostPort
	take := func(c *corev1.Container, field string) {
		for i, p := range c.Ports {
			number := p.HostPort
			if spec.HostNetwork {
				number = p.ContainerPort
			}
			if number == 0 {
				continue
			}
			port := hostPort{number: number, protocol: p.Protocol, ip: p.HostIP, field: fmt.Sprintf("%s.ports[%d]", field, i)}
			if port.protocol == "" {
				port.protocol = corev1.ProtocolTCP
			}
			if port.ip == "0.0.0.0" || port.ip == "::" {
				port.ip = ""
			}
			out = append(out, port)
		}
	}
	each(spec.InitContainers, "initContainers", func(c *corev1.Container, field string) {
		if isSidecar(c) {
			take(c, field)
		}
	})
	each(spec.Containers, "containers", take)
	return out
}

// mayShareNode is false only if no node can match both: they want different
// values of one label. Several terms of an affinity are alternatives and are
// not looked at.
func mayShareNode(a, b *corev1.PodSpec) bool {
	for _, x := range requirements(a) {
		for _, y := range requirements(b) {
			if x.key == y.key && excludes(x, y) {
				return false
			}
		}
	}
	return true
}

// requirement is what one label of a node must be.
type requirement struct {
	key      string
	operator corev1.NodeSelectorOperator
	values   []string
}

func requirements(spec *corev1.PodSpec) []requirement {
	var out []requirement
	for key, value := range spec.NodeSelector {
		out = append(out, requirement{key, corev1.NodeSelectorOpIn, []string{value}})
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil {
		return out
	}
	required := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) != 1 {
		return out
	}
	for _, e := range required.NodeSelectorTerms[0].MatchExpressions {
		out = append(out, requirement{e.Key, e.Operator, e.Values})
	}
	return out
}

// excludes: no value of the label satisfies both.
func excludes(x, y requirement) bool {
	if x.operator != corev1.NodeSelectorOpIn {
		x, y = y, x
	}
	switch {
	case x.operator == corev1.NodeSelectorOpIn && y.operator == corev1.NodeSelectorOpIn:
		return !slices.ContainsFunc(x.values, func(v string) bool { return slices.Contains(y.values, v) })
	case x.operator == corev1.NodeSelectorOpIn && y.operator == corev1.NodeSelectorOpNotIn:
		return !slices.ContainsFunc(x.values, func(v string) bool { return !slices.Contains(y.values, v) })
	case x.operator == corev1.NodeSelectorOpIn:
		return y.operator == corev1.NodeSelectorOpDoesNotExist
	}
	return x.operator == corev1.NodeSelectorOpExists && y.operator == corev1.NodeSelectorOpDoesNotExist ||
		x.operator == corev1.NodeSelectorOpDoesNotExist && y.operator == corev1.NodeSelectorOpExists
}
