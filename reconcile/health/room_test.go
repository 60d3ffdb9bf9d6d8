// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func requests(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func container(list corev1.ResourceList, ports ...corev1.ContainerPort) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: list}, Ports: ports}
}

func podSpec(containers ...corev1.Container) *corev1.PodSpec {
	return &corev1.PodSpec{Containers: containers}
}

func TestNeedsOf(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container(requests("cpu", "50m"), corev1.ContainerPort{HostPort: 9100})
	sidecar.RestartPolicy = &always
	tests := map[string]struct {
		spec *corev1.PodSpec
		want Needs
	}{
		"no template":      {nil, Needs{}},
		"nothing is asked": {podSpec(container(requests("cpu", "0"))), Needs{}},
		"the sum of the containers": {podSpec(container(requests("cpu", "100m", "memory", "1Ki")), container(requests("cpu", "1"))),
			Needs{Requests: []Request{{"cpu", 1100}, {"memory", 1024000}}}},
		"an init container that needs more": {&corev1.PodSpec{InitContainers: []corev1.Container{container(requests("cpu", "2"))}, Containers: []corev1.Container{container(requests("cpu", "1"))}},
			Needs{Requests: []Request{{"cpu", 2000}}}},
		"a sidecar, with its port": {&corev1.PodSpec{InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{container(requests("cpu", "1"))}},
			Needs{Requests: []Request{{"cpu", 1050}}, Ports: []HostPort{{"TCP", "", 9100}}}},
		"overhead": {&corev1.PodSpec{Overhead: requests("cpu", "10m")}, Needs{Requests: []Request{{"cpu", 10}}}},
		"ports of the host, sorted": {podSpec(container(nil,
			corev1.ContainerPort{HostPort: 81, HostIP: "0.0.0.0"}, corev1.ContainerPort{HostPort: 80, Protocol: "UDP"}, corev1.ContainerPort{ContainerPort: 8080}, corev1.ContainerPort{HostPort: 81})),
			Needs{Ports: []HostPort{{"UDP", "", 80}, {"TCP", "", 81}}}},
		"on the host's network all are": {&corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{container(nil, corev1.ContainerPort{ContainerPort: 8080, HostIP: "10.0.0.1"})}},
			Needs{Ports: []HostPort{{"TCP", "10.0.0.1", 8080}}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := NeedsOf(tt.spec)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !got.Equal(tt.want) || !got.Within(got) {
				t.Error("needs are not equal to, or not within, themselves")
			}
		})
	}
}

func TestWithin(t *testing.T) {
	old := Needs{Requests: []Request{{"cpu", 100}, {"memory", 1000}}, Ports: []HostPort{{"TCP", "", 80}}}
	tests := map[string]struct {
		needs Needs
		want  bool
	}{
		"nothing":           {Needs{}, true},
		"less":              {Needs{Requests: []Request{{"cpu", 99}}}, true},
		"more":              {Needs{Requests: []Request{{"memory", 1001}}}, false},
		"another resource":  {Needs{Requests: []Request{{"gpu", 1}}}, false},
		"the same port":     {Needs{Ports: []HostPort{{"TCP", "", 80}}}, true},
		"another port":      {Needs{Ports: []HostPort{{"TCP", "", 81}}}, false},
		"another protocol":  {Needs{Ports: []HostPort{{"UDP", "", 80}}}, false},
		"of another number": {Needs{Requests: []Request{{"cpu", 100}}, Ports: []HostPort{{"TCP", "10.0.0.1", 80}}}, false},
	}
	for name, tt := range tests {
		if got := tt.needs.Within(old); got != tt.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestLacks(t *testing.T) {
	priority := func(p int32) *int32 { return &p }
	pod := func(name string, spec *corev1.PodSpec, p *int32) corev1.Pod {
		spec.Priority = p
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: *spec}
	}
	port := corev1.ContainerPort{HostPort: 80, Protocol: "TCP"}
	old := pod("old", podSpec(container(requests("cpu", "1"), port)), priority(1000))
	app := pod("app", podSpec(container(requests("cpu", "2", "memory", "1Gi"))), priority(0))
	agent := pod("agent", podSpec(container(requests("cpu", "1"))), priority(2000))
	ended := agent
	ended.Status.Phase = corev1.PodFailed
	web := pod("web", podSpec(container(nil, port)), priority(2000))
	wants := func(list corev1.ResourceList, ports ...corev1.ContainerPort) *corev1.PodSpec {
		return podSpec(container(list, ports...))
	}
	never := corev1.PreemptNever
	tests := map[string]struct {
		spec *corev1.PodSpec
		pods []corev1.Pod
		want string
	}{
		"alone in the place of the old one":  {wants(requests("cpu", "4")), []corev1.Pod{old}, ""},
		"too large for the node":             {wants(requests("cpu", "4500m")), []corev1.Pod{old}, "cpu: 4500m wanted, 4 left"},
		"others of its priority take room":   {wants(requests("cpu", "3500m")), []corev1.Pod{old, agent}, "cpu: 3500m wanted, 3 left"},
		"those that have ended do not":       {wants(requests("cpu", "3500m")), []corev1.Pod{old, ended}, ""},
		"those of a lower one are displaced": {wants(requests("cpu", "3500m", "memory", "8Gi")), []corev1.Pod{old, app}, ""},
		"unless it displaces none": {func() *corev1.PodSpec { s := wants(requests("cpu", "3")); s.PreemptionPolicy = &never; return s }(), []corev1.Pod{old, app},
			"cpu: 3 wanted, 2 left"},
		"or of a class that nobody knows": {func() *corev1.PodSpec {
			s := wants(requests("cpu", "3"), port)
			s.PriorityClassName = "new"
			return s
		}(), []corev1.Pod{old, app}, "cpu: 3 wanted, 2 left"},
		"all that is lacking":       {wants(requests("cpu", "5", "memory", "9Gi", "example.com/gpu", "1")), []corev1.Pod{old}, "cpu: 5 wanted, 4 left; example.com/gpu: 1 wanted, 0 left; memory: 9Gi wanted, 8Gi left"},
		"its own port is free":      {wants(nil, port), []corev1.Pod{old}, ""},
		"a port that another takes": {wants(nil, port), []corev1.Pod{old, web}, "host port 80/TCP is taken by pod ns/web"},
		"no more pods":              {wants(nil), []corev1.Pod{old, web, agent, agent, agent}, "the node takes no more than 4 pods"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := Room{Allocatable: requests("cpu", "4", "memory", "8Gi", "pods", "4"), Pods: tt.pods, Replaced: func(p *corev1.Pod) bool { return p.Name == "old" }}
			if got := r.Lacks(tt.spec); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
