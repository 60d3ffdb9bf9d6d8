// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
	"lamplighter.dev/reconcile/window"
)

// manyPods is a cluster of so many pods: 20 DaemonSets over the nodes.
const manyPods = 100_000

// TestMemoryOfAPod bounds what a watched pod costs: at 5,000 nodes with 20
// DaemonSets each byte counts a hundred thousand times.
func TestMemoryOfAPod(t *testing.T) {
	const bound = 900
	before := heap()
	store := podStore(t)
	perPod := (heap() - before) / manyPods
	if n := len(store.ListKeys()); n != manyPods {
		t.Fatalf("got %d pods, want %d", n, manyPods)
	}
	if t.Logf("%d bytes a pod", perPod); perPod > bound {
		t.Errorf("a pod takes %d bytes, the bound is %d", perPod, bound)
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// podStore is what the watch of pods holds.
func podStore(t testing.TB) cache.Store {
	t.Helper()
	src := source[health.Pod]{what: "test", reduce: newInterner().reducePod}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	for i := range manyPods {
		record, err := src.transform(typicalPod(i/20, i%20))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Add(record); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func typicalPod(node, set int) *corev1.Pod {
	controller := true
	name := fmt.Sprintf("agent-%d", set)
	container := corev1.Container{
		Name: "agent", Image: "registry.example.com/agents/" + name + ":v1.2.3",
		EnvFrom:      []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}},
		VolumeMounts: []corev1.VolumeMount{{Name: "token", MountPath: "/token"}},
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: fmt.Sprintf("%s-%05d", name, node), UID: types.UID(fmt.Sprintf("00000000-0000-%04d-0000-%012d", set, node)),
			ResourceVersion: fmt.Sprint(1000000 + node*20 + set),
			Labels:          map[string]string{"controller-revision-hash": fmt.Sprintf("5d8f9c%04d", set), "pod-template-generation": "1", "app": name},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: name, UID: types.UID(fmt.Sprintf("ds-%d", set)), Controller: &controller}},
		},
		Spec: corev1.PodSpec{
			NodeName: fmt.Sprintf("node-%05d", node), ServiceAccountName: name, Containers: []corev1.Container{container, container},
		},
		Status: corev1.PodStatus{
			Phase:      corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}},
		},
	}
}

// BenchmarkMemoryOfPasses is what an agent takes that watches 5,000 nodes with 20
// DaemonSets and plans the visit of each: what is alive between two passes, and
// what the process has of the machine after some, the garbage of passes
// included. The client and Git are not in it.
func BenchmarkMemoryOfPasses(b *testing.B) {
	now := time.Now()
	store := podStore(b)
	obs, policies := everywhere()
	between := heap()
	debug.FreeOSMemory() // what it took to make the pods
	for b.Loop() {
		obs.Pods = pointersOf[health.Pod](store)
		plan := rollout.New(obs, policies, now)
		if got := len(plan.Decisions); got != manyPods/perPolicy {
			b.Fatalf("got %d decisions", got)
		}
		obs.Ledger, obs.Pods = plan.Ledger, nil
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	b.ReportMetric(float64(between)/1e6, "MB-alive")
	b.ReportMetric(float64(stats.Sys-stats.HeapReleased)/1e6, "MB-process")
	runtime.KeepAlive(store)
}

// perPolicy is how many DaemonSets a policy upgrades.
const perPolicy = 4

// everywhere is where the typical pods run, and policies by which all of them
// are outdated.
func everywhere() (rollout.Observed, []policy.UpgradePolicy) {
	obs := rollout.Observed{Supposed: true}
	for i := range manyPods / 20 {
		obs.Nodes = append(obs.Nodes, health.Node{Name: fmt.Sprintf("node-%05d", i), Ready: true, Labels: map[string]string{"pool": "a"}})
	}
	var policies []policy.UpgradePolicy
	for i := range 20 {
		name := types.NamespacedName{Namespace: "kube-system", Name: fmt.Sprintf("agent-%d", i)}
		obs.DaemonSets = append(obs.DaemonSets, health.DaemonSet{
			Name: name, UID: types.UID(fmt.Sprintf("ds-%d", i)), Revision: "new", RevisionObserved: true, OnDelete: true, Template: &corev1.PodSpec{},
		})
		if i%perPolicy == 0 {
			policies = append(policies, policy.UpgradePolicy{
				Name: fmt.Sprintf("policy-%02d", i), MaxUnavailable: intstr.FromString("10%"), ReadyTimeout: time.Minute,
				Calendar: window.Calendar{Always: true},
			})
		}
		last := &policies[len(policies)-1]
		last.DaemonSets = append(last.DaemonSets, name)
	}
	return obs, policies
}
