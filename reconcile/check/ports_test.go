// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestNodesThatMatchBoth: what one requires of a label is compared with what
// the other does, whichever comes first.
func TestNodesThatMatchBoth(t *testing.T) {
	const in, notIn, exists, never = corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist
	for _, test := range []struct {
		name   string
		a, b   requirement
		shared bool
	}{
		{"one value", requirement{"pool", in, []string{"gpu"}}, requirement{"pool", in, []string{"gpu"}}, true},
		{"two values", requirement{"pool", in, []string{"gpu"}}, requirement{"pool", in, []string{"cpu"}}, false},
		{"a value in common", requirement{"pool", in, []string{"gpu", "cpu"}}, requirement{"pool", in, []string{"cpu", "arm"}}, true},
		{"another label", requirement{"pool", in, []string{"gpu"}}, requirement{"zone", in, []string{"a"}}, true},
		{"in and not in", requirement{"pool", in, []string{"gpu"}}, requirement{"pool", notIn, []string{"gpu", "cpu"}}, false},
		{"in and not in another", requirement{"pool", in, []string{"gpu", "cpu"}}, requirement{"pool", notIn, []string{"gpu"}}, true},
		{"not in twice", requirement{"pool", notIn, []string{"gpu"}}, requirement{"pool", notIn, []string{"cpu"}}, true},
		{"in and exists", requirement{"pool", in, []string{"gpu"}}, requirement{"pool", exists, nil}, true},
		{"in and never", requirement{"pool", in, []string{"gpu"}}, requirement{"pool", never, nil}, false},
		{"exists and never", requirement{"pool", exists, nil}, requirement{"pool", never, nil}, false},
		{"not in and never", requirement{"pool", notIn, []string{"gpu"}}, requirement{"pool", never, nil}, true},
		{"greater", requirement{"cores", corev1.NodeSelectorOpGt, []string{"8"}}, requirement{"cores", in, []string{"4"}}, true}, // not looked at
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := requiring(test.a), requiring(test.b)
			if mayShareNode(a, b) != test.shared || mayShareNode(b, a) != test.shared {
				t.Errorf("one node for both: %v and %v, want %v", mayShareNode(a, b), mayShareNode(b, a), test.shared)
			}
		})
	}
}

func requiring(r requirement) *corev1.PodSpec {
	return &corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: r.key, Operator: r.operator, Values: r.values}},
		}}},
	}}}
}

func TestImagesAreTakenApart(t *testing.T) {
	for image, want := range map[string]struct {
		repository, tag string
		pinned          bool
	}{
		"exporter":                              {"exporter", "", false},
		"exporter:v1":                           {"exporter", "v1", false},
		"example.com:5000/a/exporter":           {"example.com:5000/a/exporter", "", false},
		"example.com:5000/exporter:v1":          {"example.com:5000/exporter", "v1", false},
		"example.com:5000/exporter@sha256:abcd": {"example.com:5000/exporter", "", true},
		"exporter:v1@sha256:abcd":               {"exporter", "v1", true},
	} {
		if name, pinned := splitImage(image); name.repository != want.repository || name.tag != want.tag || pinned != want.pinned {
			t.Errorf("%s is %+v, pinned %v", image, name, pinned)
		}
	}
}
