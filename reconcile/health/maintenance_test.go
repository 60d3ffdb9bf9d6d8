// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// marked puts a mark on a node.
func marked(m Mark, key, value string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{}, Annotations: map[string]string{}}}
	switch m.Kind {
	case OnTaint:
		n.Spec.Taints = []corev1.Taint{{Key: "other"}, {Key: key, Value: value, Effect: corev1.TaintEffectPreferNoSchedule}}
	case OnCondition:
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeConditionType(key), Status: corev1.ConditionStatus(cmp.Or(value, "True"))}}
	case OnAnnotation:
		n.Annotations[key] = value
	case OnLabel:
		n.Labels[key] = value
	case OnDaemonSet:
	}
	return n
}

func TestEveryMarkIsSeen(t *testing.T) {
	for _, m := range Marks() {
		if m.Kind == OnDaemonSet {
			continue // TestLocks
		}
		key, value := strings.Replace(m.Key, "*", "spot-itn", 1), ""
		if len(m.Rest) > 0 {
			value = "Working"
		}
		got := NodeOf(marked(m, key, value)).Maintenance
		if !strings.Contains(got, key) || !strings.Contains(got, m.Means) {
			t.Errorf("%s %s: got %q", m.Kind, m.Key, got)
		}
		for _, rest := range m.Rest {
			if got := NodeOf(marked(m, key, rest)).Maintenance; got != "" {
				t.Errorf("%s %s is at rest with %q, got %q", m.Kind, m.Key, rest, got)
			}
		}
	}
}

func TestWhatIsNoMark(t *testing.T) {
	tests := map[string]*corev1.Node{
		"nothing":                      marked(Mark{}, "", ""),
		"a condition that is False":    marked(Mark{Kind: OnCondition}, "DrainInProgress", "False"),
		"a condition that is Unknown":  marked(Mark{Kind: OnCondition}, "DrainInProgress", "Unknown"),
		"maintenance that is planned":  marked(Mark{Kind: OnCondition}, "MaintenancePlanned", "True"),
		"a plan that has upgraded it":  marked(Mark{Kind: OnLabel}, "plan.upgrade.cattle.io/server", "0123abc"),
		"a key that only begins so":    marked(Mark{Kind: OnTaint}, "karpenter.sh/disruptedly", ""),
		"a node that is only cordoned": marked(Mark{Kind: OnTaint}, corev1.TaintNodeUnschedulable, ""),
	}
	for name, n := range tests {
		if got := NodeOf(n).Maintenance; got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestLocks(t *testing.T) {
	ends := time.Date(2026, 3, 2, 22, 30, 0, 0, time.UTC)
	tests := map[string][]Lock{
		`{"nodeID":"n1","created":"2026-03-02T22:00:00Z","TTL":0}`:  {{Node: "n1"}},
		`{"maxOwners":2,"locks":[{"nodeID":"n1"},{"nodeID":"n2"}]}`: {{Node: "n1"}, {Node: "n2"}},
		`{"nodeID":"manual"}`: {{Node: "manual"}},
		`{"nodeID":"n1","metadata":{"unschedulable":true},"created":"2026-03-02T22:00:00Z","TTL":1800000000000}`: {{"n1", ends}},
		`{"maxOwners":2,"locks":[{"nodeID":"n1","created":"2026-03-02T22:00:00Z","TTL":1800000000000}]}`:         {{"n1", ends}},
		`{"nodeID":"n1","created":"yesterday","TTL":1800000000000}`:                                              {{Node: "n1"}},
		`{"nodeID":"n1","created":"2026-03-02T22:00:00Z","TTL":"30m"}`:                                           {{Node: "n1"}},
		`{"maxOwners":2,"locks":[]}`: nil,
		`not json`:                   nil,
		`[]`:                         nil,
	}
	for text, want := range tests {
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kuredLock: text}}}
		if diff := gocmp.Diff(want, DaemonSetOf(ds, nil).Locks); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if got := DaemonSetOf(&appsv1.DaemonSet{}, nil).Locks; got != nil {
		t.Errorf("without a lock: %v", got)
	}
}

// The table in the documentation lists exactly the marks that are looked for.
func TestMarksAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/concepts/rollout.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, m := range Marks() {
		want = append(want, string(m.Kind)+" "+m.Key+": "+m.Means)
	}
	rows := regexp.MustCompile("(?m)^\\| ((?:DaemonSet )?(?:taint|condition|annotation|label)) \\| `([^`]+)` ?[^|]*\\| ([^|]+) \\|$")
	for _, row := range rows.FindAllStringSubmatch(string(page), -1) {
		got = append(got, row[1]+" "+row[2]+": "+row[3])
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("documented marks (-code +page):\n%s", diff)
	}
}
