// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The cluster's behaviour is tested on one sandbox: each case has a DaemonSet
// of its own.
func TestCluster(t *testing.T) {
	s := startSandbox(t, "--nodes=6", "--zones=2", "--pod-ready-after=100ms")
	t.Run("nodes are labelled", s.testNodes)
	t.Run("DaemonSet becomes Ready on every node", s.testDaemonSet)
	t.Run("image tags order faults", s.testImageTags)
	t.Run("pod of a slow image is Ready late", s.testSlowImage)
	t.Run("not-ready node is tainted and ends no pod until mended", s.testNotReady)
	t.Run("stuck-terminating node ends no pod until mended", s.testStuckTerminating)
	t.Run("eviction respects a budget", s.testEviction)
	t.Run("pod made on a not-ready node starts once mended", s.testMadeOnNotReady)
	t.Run("pods on many new nodes all start", s.testNewNodes)
}

func (s *sandbox) testNodes(t *testing.T) {
	nodes, err := s.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range nodes.Items {
		l := n.Labels
		got = append(got, strings.Join([]string{n.Name, l[corev1.LabelTopologyZone], l["pool"], l["canary"]}, " "))
	}
	want := []string{
		"node-000 zone-a general true", "node-001 zone-b general ", "node-002 zone-a general ",
		"node-003 zone-b gpu ", "node-004 zone-a general ", "node-005 zone-b general ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func (s *sandbox) testDaemonSet(t *testing.T) {
	s.run(t, daemonSet("everywhere", "example.com/agent:v1"))
	nodes := map[string]bool{}
	for _, p := range s.waitPods(t, "everywhere", 6, isReady) {
		nodes[p.Spec.NodeName] = true
		if p.Status.PodIP == "" || p.Status.HostIP == "" || p.Status.StartTime == nil || p.Status.Phase != corev1.PodRunning {
			t.Errorf("status of %s is incomplete: %v", p.Name, p.Status)
		}
		for _, c := range p.Status.Conditions {
			if c.Status != corev1.ConditionTrue || c.LastTransitionTime.IsZero() {
				t.Errorf("condition %s of %s: got %s at %s", c.Type, p.Name, c.Status, c.LastTransitionTime)
			}
		}
	}
	if got, want := len(nodes), 6; got != want {
		t.Errorf("nodes with a Ready pod: got %d, want %d", got, want)
	}
}

func (s *sandbox) testImageTags(t *testing.T) {
	for tag, want := range map[string]string{
		"never-ready": "Running ready=false restarts=0",
		"crash":       "Running ready=false restarts=3 CrashLoopBackOff",
		"no-image":    "Pending ready=false restarts=0 ImagePullBackOff",
	} {
		s.run(t, daemonSet(tag, "example.com/agent:"+tag, "node-001"))
		s.waitPods(t, tag, 1, func(p corev1.Pod) bool { return summary(p) == want })
	}
}

func (s *sandbox) testSlowImage(t *testing.T) {
	s.run(t, daemonSet("slow", "example.com/agent:slow-2500ms", "node-001"))
	pod := s.waitPods(t, "slow", 1, isReady)[0]
	ready := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	took := pod.Status.Conditions[ready].LastTransitionTime.Sub(pod.Status.StartTime.Time) // of whole seconds
	if took < 2*time.Second {
		t.Errorf("Ready after %s, want about 2.5s", took)
	}
}

func (s *sandbox) testNotReady(t *testing.T) {
	const node = "node-002"
	s.run(t, daemonSet("unreachable", "example.com/agent:v1", node))
	old := s.waitPods(t, "unreachable", 1, isReady)[0]
	s.label(t, node, `"not-ready"`)
	s.waitNode(t, node, func(n *corev1.Node) bool { return !nodeReady(n) && len(n.Spec.Taints) > 0 })
	s.delete(t, old)
	s.staysTerminating(t, old)
	s.label(t, node, "null")
	s.waitNode(t, node, func(n *corev1.Node) bool { return nodeReady(n) && len(n.Spec.Taints) == 0 })
	s.waitPods(t, "unreachable", 1, func(p corev1.Pod) bool { return p.UID != old.UID && isReady(p) })
}

func (s *sandbox) testMadeOnNotReady(t *testing.T) {
	const node = "node-000"
	s.label(t, node, `"not-ready"`)
	s.waitNode(t, node, func(n *corev1.Node) bool { return !nodeReady(n) })
	ds := daemonSet("early", "example.com/agent:v1", node)
	ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	s.run(t, ds)
	s.waitPods(t, "early", 1, func(p corev1.Pod) bool { return p.Spec.NodeName == node })
	s.label(t, node, "null")
	s.waitPods(t, "early", 1, isReady)
}

// A node that joins has its pods before kwok has heard of all there is: none
// may be lost, nor be started twice.
func (s *sandbox) testNewNodes(t *testing.T) {
	const nodes = 200
	ds := daemonSet("new", "example.com/agent:slow-300ms")
	ds.Spec.Template.Spec.NodeSelector = map[string]string{"new": "true"}
	s.run(t, ds)
	var joining errgroup.Group
	joining.SetLimit(16)
	for i := range nodes {
		joining.Go(func() error {
			n := node(i, 3)
			n.Name = fmt.Sprintf("new-%03d", i)
			n.Labels["new"] = "true"
			_, err := s.client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
			return err
		})
	}
	if err := joining.Wait(); err != nil {
		t.Fatal(err)
	}
	s.waitPods(t, "new", nodes, isReady)
	log, err := os.ReadFile(s.dir.log(roleKwok))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "failed to apply stage"); n > 0 {
		t.Errorf("%d pods were started twice", n)
	}
}

func (s *sandbox) testStuckTerminating(t *testing.T) {
	const node = "node-004"
	s.run(t, daemonSet("stuck", "example.com/agent:v1", node))
	s.label(t, node, `"stuck-terminating"`)
	old := s.waitPods(t, "stuck", 1, isReady)[0]
	s.delete(t, old)
	s.staysTerminating(t, old)
	s.label(t, node, "null")
	s.waitPods(t, "stuck", 1, func(p corev1.Pod) bool { return p.UID != old.UID && isReady(p) })
}

func (s *sandbox) testEviction(t *testing.T) {
	const name = "budget"
	s.run(t, daemonSet(name, "example.com/agent:v1", "node-001", "node-005"))
	pods := s.waitPods(t, name, 2, isReady)
	minimum := intstr.FromInt32(1)
	_, err := s.client.PolicyV1().PodDisruptionBudgets("default").Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &minimum, Selector: selector(name)},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		b, err := s.client.PolicyV1().PodDisruptionBudgets("default").Get(ctx, name, metav1.GetOptions{})
		if err == nil && b.Status.DisruptionsAllowed != 1 {
			err = fmt.Errorf("%d disruptions allowed", b.Status.DisruptionsAllowed)
		}
		return err
	})
	// The first may go. It holds the budget until its successor is Ready, which
	// the stuck node puts off until the second has been refused.
	s.label(t, pods[0].Spec.NodeName, `"stuck-terminating"`)
	if err := s.evict(t, pods[0]); err != nil {
		t.Errorf("first eviction: got %v, want success", err)
	}
	if err := s.evict(t, pods[1]); !apierrors.IsTooManyRequests(err) {
		t.Errorf("second eviction: got %v, want 429", err)
	}
	s.label(t, pods[0].Spec.NodeName, "null")
	s.waitPods(t, name, 2, isReady)
}

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

// daemonSet runs image on the nodes, or on all if none is given.
func daemonSet(name, image string, nodes ...string) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ds.Spec.Selector = selector(name)
	ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	ds.Spec.Template.Labels = ds.Spec.Selector.MatchLabels
	ds.Spec.Template.Spec.Containers = []corev1.Container{{Name: "agent", Image: image}}
	if len(nodes) > 0 {
		ds.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes},
				},
			}}},
		}}
	}
	return ds
}

func (s *sandbox) run(t *testing.T, ds *appsv1.DaemonSet) {
	t.Helper()
	if _, err := s.client.AppsV1().DaemonSets("default").Create(t.Context(), ds, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *sandbox) delete(t *testing.T, p corev1.Pod) {
	t.Helper()
	if err := s.client.CoreV1().Pods("default").Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (s *sandbox) evict(t *testing.T, p corev1.Pod) error {
	t.Helper()
	return s.client.PolicyV1().Evictions("default").Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace},
	})
}

// label sets a node's fault; value is JSON.
func (s *sandbox) label(t *testing.T, node, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, faultLabel, value)
	_, err := s.client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitPods waits until the DaemonSet has exactly so many pods, each as wanted.
func (s *sandbox) waitPods(t *testing.T, app string, count int, want func(corev1.Pod) bool) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	eventually(t, func(ctx context.Context) error {
		list, err := s.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil {
			return err
		}
		pods = list.Items
		if len(pods) != count {
			return fmt.Errorf("%d pods of %s", len(pods), app)
		}
		for _, p := range pods {
			if !want(p) {
				return fmt.Errorf("pod %s is %s", p.Name, summary(p))
			}
		}
		return nil
	})
	return pods
}

func (s *sandbox) waitNode(t *testing.T, name string, want func(*corev1.Node) bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		n, err := s.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && !want(n) {
			err = fmt.Errorf("%s: Ready=%t, taints %v", name, nodeReady(n), n.Spec.Taints)
		}
		return err
	})
}

// staysTerminating watches a pod for five times as long as it would need to end.
func (s *sandbox) staysTerminating(t *testing.T, p corev1.Pod) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*terminationDelay)
	defer cancel()
	w, err := s.client.CoreV1().Pods("default").Watch(t.Context(), metav1.ListOptions{
		FieldSelector: "metadata.name=" + p.Name, ResourceVersion: p.ResourceVersion,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for {
		select {
		case e := <-w.ResultChan():
			if e.Type != "MODIFIED" {
				t.Fatalf("event of %s: got %s, want none", p.Name, e.Type)
			}
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Fatal(ctx.Err())
			}
			return
		}
	}
}

func isReady(p corev1.Pod) bool {
	return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// summary says of a pod with one container what a fault changes.
func summary(p corev1.Pod) string {
	if len(p.Status.ContainerStatuses) != 1 {
		return string(p.Status.Phase)
	}
	c := p.Status.ContainerStatuses[0]
	s := fmt.Sprintf("%s ready=%t restarts=%d", p.Status.Phase, c.Ready, c.RestartCount)
	if c.State.Waiting != nil {
		s += " " + c.State.Waiting.Reason
	}
	return s
}
