// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
)

var at = time.Date(2026, 3, 2, 22, 0, 0, 0, time.UTC)

func ownedBy(uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: "DaemonSet", UID: uid, Controller: new(true)}}
}

// templateOf is a pod template with an image.
func templateOf(image string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "ds"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: image}}},
	}
}

// templateData is how the DaemonSet controller keeps that in a revision.
func templateData(image string) runtime.RawExtension {
	return runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"$patch":"replace","metadata":{"creationTimestamp":null,"labels":{"app":"ds"}},"spec":{"containers":[{"image":"` + image + `","name":"agent","resources":{}}]}}}}`)}
}

func TestRevision(t *testing.T) {
	revision := func(name string, owner types.UID, number int64, hash string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: ownedBy(owner), Labels: map[string]string{"controller-revision-hash": hash}},
			Revision:   number,
			Data:       templateData("v1"),
		}
	}
	next := revision("d", "me", 7, "h7")
	next.Data = templateData("v2")
	unreadable := revision("f", "me", 8, "h8")
	unreadable.Data.Raw = []byte(`{"spec":{}}`)
	orphan := revision("copy", "", 99, "copied")
	orphan.OwnerReferences = nil
	elsewhere := revision("e", "me", 99, "elsewhere")
	elsewhere.Namespace = "other"
	tests := map[string]struct {
		revisions  []*appsv1.ControllerRevision
		generation int64
		want       string
		observed   bool
	}{
		"the highest number":                     {[]*appsv1.ControllerRevision{revision("a", "me", 1, "h1"), revision("b", "me", 3, "h3"), revision("c", "me", 2, "h2")}, 5, "h3", true},
		"a revert raises the number of the old":  {[]*appsv1.ControllerRevision{revision("a", "me", 4, "h1"), revision("b", "me", 3, "h3")}, 5, "h1", true},
		"one copied by hand does not count":      {[]*appsv1.ControllerRevision{revision("a", "me", 1, "h1"), orphan}, 5, "h1", true},
		"nor one of an earlier namesake":         {[]*appsv1.ControllerRevision{revision("a", "me", 1, "h1"), revision("b", "before", 9, "h9")}, 5, "h1", true},
		"nor one in another namespace":           {[]*appsv1.ControllerRevision{revision("a", "me", 1, "h1"), elsewhere}, 5, "h1", true},
		"the newest generation is not observed":  {[]*appsv1.ControllerRevision{revision("a", "me", 1, "h1")}, 6, "h1", false},
		"of another template":                    {[]*appsv1.ControllerRevision{revision("a", "me", 1, "h1"), next}, 5, "h7", false},
		"of no template":                         {[]*appsv1.ControllerRevision{unreadable}, 5, "h8", false},
		"none yet":                               {nil, 5, "", false},
		"the label is read, the name is not":     {[]*appsv1.ControllerRevision{revision("ds-naive", "me", 1, "collided")}, 5, "collided", true},
		"equal numbers: the same one every time": {[]*appsv1.ControllerRevision{revision("b", "me", 1, "hb"), revision("a", "me", 1, "ha")}, 5, "hb", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ds", UID: "me", Generation: tt.generation}}
			ds.Spec.Template = templateOf("v1")
			ds.Status.ObservedGeneration = 5
			var revisions []Revision
			for _, r := range tt.revisions {
				revisions = append(revisions, RevisionOf(r))
			}
			got := DaemonSetOf(ds, revisions)
			if got.Revision != tt.want || got.RevisionObserved != tt.observed {
				t.Errorf("got %q observed %v, want %q observed %v", got.Revision, got.RevisionObserved, tt.want, tt.observed)
			}
		})
	}
}

func TestDaemonSetOf(t *testing.T) {
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ds", UID: "me", CreationTimestamp: metav1.NewTime(at), Annotations: map[string]string{HoldAnnotation: "", appsv1.DeprecatedTemplateGeneration: "4"}},
		Spec:       appsv1.DaemonSetSpec{MinReadySeconds: 7, UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}},
	}
	got := DaemonSetOf(ds, nil)
	want := DaemonSet{
		Name: types.NamespacedName{Namespace: "ns", Name: "ds"}, UID: "me", Created: at, TemplateGeneration: 4, OnDelete: true,
		Hold: "no reason given", MinReadySeconds: 7, Template: &ds.Spec.Template.Spec,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUpToDate(t *testing.T) {
	set := DaemonSet{Revision: "new", TemplateGeneration: 4, Created: at}
	for name, tt := range map[string]struct {
		set  DaemonSet
		pod  Pod
		want bool
	}{
		"of the revision":                     {set, Pod{Hash: "new", TemplateGeneration: 2}, true},
		"of the template generation":          {set, Pod{Hash: "old", TemplateGeneration: 4, Created: at}, true},
		"of neither":                          {set, Pod{Hash: "old", TemplateGeneration: 3, Created: at}, false},
		"older than the DaemonSet":            {set, Pod{Hash: "old", TemplateGeneration: 4, Created: at.Add(-time.Second)}, false},
		"no generation is known":              {DaemonSet{Revision: "new"}, Pod{Hash: "old"}, false},
		"neither revision nor hash are known": {DaemonSet{}, Pod{}, false},
	} {
		if got := tt.set.UpToDate(&tt.pod); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestNodeOf(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{HoldAnnotation: "disk"}}}
	if got := NodeOf(node); got.Ready || got.NotReadyReason == "" || got.Hold != "disk" {
		t.Errorf("a node without conditions is not Ready, got %+v", got)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue, Message: "kubelet is posting ready status"}}
	if got := NodeOf(node); !got.Ready || got.NotReadyReason != "" {
		t.Errorf("got %+v", got)
	}
	node.Status.Conditions[1] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady", Message: "node is shutting down"}
	if got := NodeOf(node); got.Ready || got.NotReadyReason != "KubeletNotReady: node is shutting down" {
		t.Errorf("got %+v", got)
	}
	node.Status.Conditions[1] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}
	if got := NodeOf(node); got.Ready || got.NotReadyReason != "Ready is Unknown" {
		t.Errorf("got %+v", got)
	}
}

func TestPodOf(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "ds-x", UID: "p1", ResourceVersion: "42", OwnerReferences: ownedBy("me"),
			CreationTimestamp: metav1.NewTime(at), DeletionTimestamp: new(metav1.NewTime(at.Add(time.Hour))),
			DeletionGracePeriodSeconds: new(int64(5)), Finalizers: []string{"example.com/detach"}, Labels: map[string]string{"controller-revision-hash": "h1", "pod-template-generation": "4"},
		},
		Spec:   corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(60)), ServiceAccountName: "sa"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at.Add(time.Minute))}}},
	}
	want := Pod{
		Name: types.NamespacedName{Namespace: "ns", Name: "ds-x"}, UID: "p1", ResourceVersion: "42", Node: "n1", Owner: "me", Hash: "h1", TemplateGeneration: 4,
		Phase: corev1.PodRunning, Created: at, Ready: true, ReadySince: at.Add(time.Minute), Deleting: true,
		DeletionDeadline: at.Add(time.Hour), GracePeriod: 5 * time.Second, References: []inventory.ID{core("ServiceAccount", "sa")},
		Finalizers: []string{"example.com/detach"}, Needs: &Needs{},
	}
	if diff := cmp.Diff(want, PodOf(pod)); diff != "" {
		t.Error(diff)
	}

	pending := &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"n2"}}},
		}}},
	}}}}
	pending.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(at)}}
	got := PodOf(pending)
	if got.Node != "n2" || got.GracePeriod != 30*time.Second || got.Owner != "" || got.Ready || !got.UnreadySince.Equal(at) {
		t.Errorf("an unbound pod belongs to the node that it is pinned to, got %+v", got)
	}
}

func TestProblem(t *testing.T) {
	waiting := func(container, reason, message string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: container, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
	}
	looping := waiting("agent", "CrashLoopBackOff", "back-off 5m0s restarting failed container=agent pod=…")
	looping.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
	ended := corev1.ContainerStatus{Name: "agent", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"}}}
	tests := map[string]struct {
		status corev1.PodStatus
		want   string
		fatal  bool
	}{
		"running":         {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "agent"}}}, "", false},
		"starting":        {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("agent", "ContainerCreating", "")}}, "", false},
		"crash loop":      {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{looping}}, "CrashLoopBackOff: container agent: exit code 137 (OOMKilled)", true},
		"first pull":      {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("agent", "ErrImagePull", "not found")}}, "ErrImagePull: container agent: not found", false},
		"pull back-off":   {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("agent", "ImagePullBackOff", "Back-off pulling image")}}, "ImagePullBackOff: container agent: Back-off pulling image", true},
		"bad image name":  {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("agent", "InvalidImageName", "")}}, "InvalidImageName: container agent: InvalidImageName", true},
		"missing Secret":  {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("agent", "CreateContainerConfigError", `secret "x" not found`)}}, `CreateContainerConfigError: container agent: secret "x" not found`, false},
		"init container":  {corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{waiting("init", "CrashLoopBackOff", "back-off")}, ContainerStatuses: []corev1.ContainerStatus{waiting("agent", "PodInitializing", "")}}, "CrashLoopBackOff: container init: back-off", true},
		"fatal one first": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{waiting("a", "ErrImagePull", "x"), waiting("b", "CrashLoopBackOff", "y")}}, "CrashLoopBackOff: container b: y", true},
		"evicted":         {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: ephemeral-storage."}, "Evicted: The node was low on resource: ephemeral-storage.", false},
		"failed":          {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ended}}, "Failed: container agent: exit code 2", false},
		"unschedulable":   {corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes: Insufficient cpu"}}}, "Unschedulable: 0/3 nodes: Insufficient cpu", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := PodOf(&corev1.Pod{Status: tt.status}).Problem
			if got.String() != tt.want || got.Fatal() != tt.fatal {
				t.Errorf("got %q fatal %v, want %q fatal %v", got, got.Fatal(), tt.want, tt.fatal)
			}
		})
	}
}
