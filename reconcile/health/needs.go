// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Needs are what a pod takes from its node. The zero Needs are nothing.
type Needs struct {
	Requests []Request  // by name, each more than zero
	Ports    []HostPort // sorted
}

// A Request is how much of one resource a pod asks for, in thousandths.
type Request struct {
	Name  corev1.ResourceName
	Milli int64
}

// A HostPort is a port of the node that a pod takes.
type HostPort struct {
	Protocol corev1.Protocol
	IP       string // "" is every address
	Port     int32
}

// NeedsOf reads a pod spec. As for the scheduler, init containers count as far as
// they need more than all others together, and overhead is added.
func NeedsOf(spec *corev1.PodSpec) Needs {
	var n Needs
	if spec == nil {
		return n
	}
	for name, q := range resource.PodRequests(&corev1.Pod{Spec: *spec}, resource.PodResourcesOptions{}) {
		if q.Sign() > 0 {
			n.Requests = append(n.Requests, Request{name, q.MilliValue()})
		}
	}
	slices.SortFunc(n.Requests, func(a, b Request) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			n.Ports = appendHostPorts(n.Ports, c.Ports, spec.HostNetwork)
		}
	}
	for _, c := range spec.Containers {
		n.Ports = appendHostPorts(n.Ports, c.Ports, spec.HostNetwork)
	}
	slices.SortFunc(n.Ports, func(a, b HostPort) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.IP, b.IP))
	})
	n.Ports = slices.Compact(n.Ports)
	return n
}

// appendHostPorts takes the ports of a container. On the host's network each port
// is one of the host, whether it says so or not.
func appendHostPorts(list []HostPort, ports []corev1.ContainerPort, hostNetwork bool) []HostPort {
	for _, p := range ports {
		port := HostPort{Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), IP: p.HostIP, Port: p.HostPort}
		if hostNetwork && port.Port == 0 {
			port.Port = p.ContainerPort
		}
		if port.IP == "0.0.0.0" || port.IP == "::" {
			port.IP = ""
		}
		if port.Port != 0 {
			list = append(list, port)
		}
	}
	return list
}

// Equal says that both are the same.
func (n Needs) Equal(o Needs) bool {
	return slices.Equal(n.Requests, o.Requests) && slices.Equal(n.Ports, o.Ports)
}

// Within says that what is enough for the other is enough for these: in the place
// of a pod with those needs, one with these fits.
func (n Needs) Within(o Needs) bool {
	for _, r := range n.Requests {
		if o.of(r.Name) < r.Milli {
			return false
		}
	}
	for _, p := range n.Ports {
		if !slices.Contains(o.Ports, p) {
			return false
		}
	}
	return true
}

func (n Needs) of(name corev1.ResourceName) int64 {
	for _, r := range n.Requests {
		if r.Name == name {
			return r.Milli
		}
	}
	return 0
}

// conflicts says that no two pods can have both ports.
func (p HostPort) conflicts(o HostPort) bool {
	return p.Port == o.Port && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == "" || o.IP == "")
}
