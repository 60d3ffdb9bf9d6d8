// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestShouldRun(t *testing.T) {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	taints := func(list ...corev1.Taint) Node { return Node{Name: "n1", Taints: list} }
	taint := func(key string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Effect: effect}
	}
	affinity := func(terms ...corev1.NodeSelectorTerm) *corev1.Affinity {
		return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
	in := func(key string, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}
	}
	const (
		noSchedule, noExecute = corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute
		run, stay, leave      = "run", "stay", "leave"
	)
	labelled := Node{Name: "n1", Labels: map[string]string{"pool": "gpu", "cores": "16"}}
	tests := map[string]struct {
		node Node
		spec corev1.PodSpec
		want string
	}{
		"nothing said":                     {Node{Name: "n1"}, corev1.PodSpec{}, run},
		"this node by name":                {Node{Name: "n1"}, corev1.PodSpec{NodeName: "n1"}, run},
		"another node by name":             {Node{Name: "n1"}, corev1.PodSpec{NodeName: "n2"}, leave},
		"selector matches":                 {labelled, corev1.PodSpec{NodeSelector: map[string]string{"pool": "gpu"}}, run},
		"selector differs":                 {labelled, corev1.PodSpec{NodeSelector: map[string]string{"pool": "cpu"}}, leave},
		"selector wants an empty label":    {labelled, corev1.PodSpec{NodeSelector: map[string]string{"zone": ""}}, leave},
		"affinity matches":                 {labelled, corev1.PodSpec{Affinity: affinity(corev1.NodeSelectorTerm{MatchExpressions: in("pool", "cpu", "gpu")})}, run},
		"affinity terms are alternatives":  {labelled, corev1.PodSpec{Affinity: affinity(corev1.NodeSelectorTerm{MatchExpressions: in("pool", "cpu")}, corev1.NodeSelectorTerm{MatchExpressions: in("cores", "16")})}, run},
		"affinity differs":                 {labelled, corev1.PodSpec{Affinity: affinity(corev1.NodeSelectorTerm{MatchExpressions: in("pool", "cpu")})}, leave},
		"affinity names the node":          {labelled, corev1.PodSpec{Affinity: affinity(corev1.NodeSelectorTerm{MatchFields: in("metadata.name", "n1")})}, run},
		"affinity names another":           {labelled, corev1.PodSpec{Affinity: affinity(corev1.NodeSelectorTerm{MatchFields: in("metadata.name", "n2")})}, leave},
		"affinity without terms":           {labelled, corev1.PodSpec{Affinity: affinity()}, leave},
		"affinity that does not parse":     {labelled, corev1.PodSpec{Affinity: affinity(corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: "Like"}}})}, leave},
		"preferred affinity does not bind": {labelled, corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}, run},

		"untolerated NoSchedule":       {taints(taint("dedicated", noSchedule)), corev1.PodSpec{}, stay},
		"untolerated NoExecute":        {taints(taint("dedicated", noExecute)), corev1.PodSpec{}, leave},
		"both":                         {taints(taint("a", noSchedule), taint("b", noExecute)), corev1.PodSpec{}, leave},
		"PreferNoSchedule":             {taints(taint("a", corev1.TaintEffectPreferNoSchedule)), corev1.PodSpec{}, run},
		"tolerated":                    {taints(taint("dedicated", noSchedule)), corev1.PodSpec{Tolerations: []corev1.Toleration{exists("dedicated", noSchedule)}}, run},
		"tolerated with another value": {taints(corev1.Taint{Key: "dedicated", Value: "db", Effect: noSchedule}), corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "dedicated", Value: "web", Effect: noSchedule}}}, stay},
		"tolerated with the value":     {taints(corev1.Taint{Key: "dedicated", Value: "db", Effect: noSchedule}), corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "dedicated", Value: "db"}}}, run},
		"tolerates for a while":        {taints(taint("dedicated", noExecute)), corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64)}}}, run},
		"tolerates everything":         {taints(taint("a", noSchedule), taint("b", noExecute)), corev1.PodSpec{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}, run},
		"comparison is behind a gate":  {taints(corev1.Taint{Key: "cores", Value: "16", Effect: noSchedule}), corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "cores", Operator: "Gt", Value: "8"}}}, stay},

		"cordoned":                    {taints(taint(corev1.TaintNodeUnschedulable, noSchedule)), corev1.PodSpec{}, run},
		"disk pressure":               {taints(taint(corev1.TaintNodeDiskPressure, noSchedule)), corev1.PodSpec{}, run},
		"memory pressure":             {taints(taint(corev1.TaintNodeMemoryPressure, noSchedule)), corev1.PodSpec{}, run},
		"PID pressure":                {taints(taint(corev1.TaintNodePIDPressure, noSchedule)), corev1.PodSpec{}, run},
		"not ready, NoExecute":        {taints(taint(corev1.TaintNodeNotReady, noExecute)), corev1.PodSpec{}, run},
		"not ready, NoSchedule":       {taints(taint(corev1.TaintNodeNotReady, noSchedule)), corev1.PodSpec{}, stay},
		"unreachable, NoExecute":      {taints(taint(corev1.TaintNodeUnreachable, noExecute)), corev1.PodSpec{}, run},
		"unreachable, NoSchedule":     {taints(taint(corev1.TaintNodeUnreachable, noSchedule)), corev1.PodSpec{}, stay},
		"no network, pod network":     {taints(taint(corev1.TaintNodeNetworkUnavailable, noSchedule)), corev1.PodSpec{}, stay},
		"no network, host network":    {taints(taint(corev1.TaintNodeNetworkUnavailable, noSchedule)), corev1.PodSpec{HostNetwork: true}, run},
		"cloud provider has not come": {taints(taint("node.cloudprovider.kubernetes.io/uninitialized", noSchedule)), corev1.PodSpec{}, stay},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := ShouldRun(tt.node, DaemonSet{Template: &tt.spec})
			got := leave
			switch {
			case p.ShouldRun:
				got = run
			case p.ShouldContinue:
				got = stay
			}
			if got != tt.want {
				t.Errorf("got %s (%s), want %s", got, p.Reason, tt.want)
			}
			if (p.Reason == "") != p.ShouldRun {
				t.Errorf("reason %q for %+v", p.Reason, p)
			}
		})
	}
}

// The template belongs to the watch cache.
func TestPlacerLeavesTheTemplateAlone(t *testing.T) {
	tolerations := make([]corev1.Toleration, 1, 10)
	d := DaemonSet{Template: &corev1.PodSpec{Tolerations: tolerations}}
	NewPlacer(d)
	if got := tolerations[:2][1]; got != (corev1.Toleration{}) {
		t.Errorf("the template's spare capacity holds %+v", got)
	}
}
