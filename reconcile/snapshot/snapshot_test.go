// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

var taken = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// fill gives every field of a struct a value of its own.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(taken.Add(time.Duration(*n) * time.Second)))
		return
	case time.Duration:
		v.SetInt(int64(time.Duration(*n) * time.Second))
		return
	case []inventory.ID:
		v.Set(reflect.ValueOf([]inventory.ID{configMap(fmt.Sprintf("c%d", *n))}))
		return
	case *corev1.PodSpec, *health.Needs:
		return // said below
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("v%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(int64(*n))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{fmt.Sprintf("k%d", *n): "v"}))
	case reflect.Slice:
		one := reflect.MakeSlice(v.Type(), 1, 1)
		fill(one.Index(0), n)
		v.Set(one)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	}
}

func configMap(name string) inventory.ID {
	id, err := inventory.ParseFormat("ConfigMap/agents/" + name)
	if err != nil {
		panic(err)
	}
	return id
}

func filled[T any]() T {
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

// Whatever the planner looks at of a node, a DaemonSet or a pod is in the file:
// a field that is added there has to be added here, or named as one that is not.
func TestNothingThatThePlannerSeesIsLost(t *testing.T) {
	obs := reconcile.Observation{Instance: inventory.Instance{Namespace: "ops", Name: "prod"}}
	obs.Nodes = []health.Node{filled[health.Node]()}
	obs.Nodes[0].Taints[0].TimeAdded = nil
	set := filled[health.DaemonSet]()
	set.Template = &corev1.PodSpec{
		NodeName: "n1", NodeSelector: map[string]string{"a": "b"}, HostNetwork: true, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}}}},
		}}},
		ServiceAccountName: "sa", PriorityClassName: "high", RuntimeClassName: new(string),
		Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "planted"}}, EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}}},
		Volumes:    []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}},
	}
	*set.Template.RuntimeClassName = "fast"
	obs.DaemonSets, obs.Pods = []health.DaemonSet{set}, []*health.Pod{new(filled[health.Pod]())}
	obs.State = reconcile.State{Record: reconcile.Record{Since: taken}, Ledger: rollout.Ledger{}.Pause(rollout.Pause{Policy: "network", Reason: "CHG-7", Since: taken})}

	data := encoded(t, obs, nil)
	if strings.Contains(data, "planted") {
		t.Errorf("the value of an environment variable is in it:\n%s", data)
	}
	s, err := Decode([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	back, _, err := s.Observe(&reconcile.Fleet{})
	if err != nil {
		t.Fatal(err)
	}
	set.TemplatePending = false // the caller's word
	obs.Pods[0].ResourceVersion = ""
	got := back.DaemonSets[0]
	for _, diff := range []string{
		cmp.Diff(obs.Nodes, back.Nodes),
		cmp.Diff(set, got, cmpopts.IgnoreFields(health.DaemonSet{}, "Template")),
		cmp.Diff(obs.Pods, back.Pods),
		cmp.Diff(obs.State.Ledger, back.State.Ledger, cmpopts.EquateEmpty()),
		cmp.Diff(health.References(set.Template, set.Name.Namespace), health.References(got.Template, set.Name.Namespace)),
		cmp.Diff(set.Template, got.Template, cmpopts.IgnoreFields(corev1.PodSpec{}, "Containers", "Volumes")),
	} {
		if diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func encoded(t *testing.T, obs reconcile.Observation, owned []Owned) string {
	t.Helper()
	s, err := New(obs, owned, taken)
	if err != nil {
		t.Fatal(err)
	}
	data, err := Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// No way into the file is open to a value that somebody planted.
func TestNothingSecretIsInASnapshot(t *testing.T) {
	const planted = "hunter2"
	secret := inventory.ID{GroupKind: secretKind, Namespace: "agents", Name: "token"}
	annotated := map[string]any{
		"apiVersion": policy.APIVersion, "kind": "UpgradePolicy",
		"metadata": map[string]any{"name": "p", "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": planted}},
		"spec":     map[string]any{},
	}
	obs := reconcile.Observation{Instance: inventory.Instance{Namespace: "ops", Name: "prod"}}
	obs.State.Record.Documents = []policy.Document{{Object: annotated}}
	obs.State.Ledger.Governed = map[string]rollout.Governance{"agents/cni": {Policy: "p", Documents: []policy.Document{{Object: annotated}}}}
	obs.DaemonSets = []health.DaemonSet{{UID: "ds", Template: &corev1.PodSpec{
		Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "A", Value: planted}}, Args: []string{planted}}},
		Volumes:    []corev1.Volume{{VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{VolumeAttributes: map[string]string{"key": planted}}}}},
	}}}
	data := encoded(t, obs, []Owned{
		{Live: inventory.Live{ID: secret}, Applied: &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"token": planted}}}},
		{Live: inventory.Live{ID: configMap("settings")}, Applied: &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"level": planted}}}},
	})
	if strings.Contains(data, planted) {
		t.Errorf("the planted value is in it:\n%s", data)
	}
	if strings.Count(data, `"applied":`) != 1 {
		t.Errorf("want a digest of the ConfigMap and none of the Secret:\n%s", data)
	}
}

func TestSnapshotsOfEqualClustersAreEqual(t *testing.T) {
	obs := reconcile.Observation{Instance: inventory.Instance{Namespace: "ops", Name: "prod"}}
	for _, name := range []string{"b", "a", "c"} {
		obs.Nodes = append(obs.Nodes, health.Node{Name: name})
		obs.Pods = append(obs.Pods, &health.Pod{Name: types.NamespacedName{Name: name}, UID: types.UID(name), References: []inventory.ID{configMap(name)}})
	}
	turned := obs
	turned.Nodes = []health.Node{obs.Nodes[2], obs.Nodes[0], obs.Nodes[1]}
	turned.Pods = []*health.Pod{obs.Pods[1], obs.Pods[2], obs.Pods[0]}
	owned := []Owned{{Live: inventory.Live{ID: configMap("a")}}, {Live: inventory.Live{ID: configMap("b")}}}
	if diff := cmp.Diff(encoded(t, obs, owned), encoded(t, turned, []Owned{owned[1], owned[0]})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatIsNoSnapshotIsRefusedInOneLine(t *testing.T) {
	good := encoded(t, reconcile.Observation{Instance: inventory.Instance{Namespace: "ops", Name: "prod"}}, nil)
	for _, c := range []struct{ data, want string }{
		{"", "is not a snapshot: it is empty"},
		{"kind: Snapshot", "is not a snapshot: invalid character 'k' looking for beginning of value"},
		{"[]", "is not a snapshot: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion\\\"\"; Kind string \"json:\\\"kind\\\"\" }"},
		{good + "{}", "is not a snapshot: something follows its end"},
		{`{"kind": "List", "apiVersion": "v1"}`, `is not a snapshot: its kind is "List", not Snapshot`},
		{strings.Replace(good, "v1alpha1", "v9", 1), `is of version "lamplighter.dev/v9", and this lamplighter reads lamplighter.dev/v1alpha1: take it anew`},
		{strings.Replace(good, `"name": "prod"`, `"name": ""`, 1), "cannot be read: it does not say when it was taken, or of which instance"},
		{strings.Replace(good, `"nodes": []`, `"nodes": [{"name": "a"}, {"name": "a"}]`, 1), `cannot be read: node "a": want each once, with its name`},
		{strings.Replace(good, `"pods": []`, `"pods": [{"uid": "a", "name": "p", "references": 3}]`, 1), `cannot be read: pod "p": its references are not there`},
		{strings.Replace(good, `"objects": []`, `"objects": [{"object": "Widget/a"}]`, 1), `cannot be read: object "Widget/a": kind Widget needs its group, as in Widget.example.com`},
	} {
		_, err := Decode([]byte(c.data))
		if err == nil || err.Error() != c.want {
			t.Errorf("%.60s: got %v, want %s", c.data, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	obs := reconcile.Observation{Instance: inventory.Instance{Namespace: "ops", Name: "prod"}}
	obs.Nodes = []health.Node{{Name: "n1", Ready: true}}
	obs.DaemonSets = []health.DaemonSet{{UID: "ds", Name: types.NamespacedName{Namespace: "agents", Name: "cni"}, Template: &corev1.PodSpec{}}}
	obs.Pods = []*health.Pod{{Name: types.NamespacedName{Namespace: "agents", Name: "p"}, UID: "p", Node: "n1", Owner: "ds", References: []inventory.ID{configMap("a")}}}
	s, err := New(obs, []Owned{{Live: inventory.Live{ID: configMap("a")}}}, taken)
	if err != nil {
		f.Fatal(err)
	}
	good, err := Encode(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"apiVersion": "lamplighter.dev/v1alpha1", "kind": "Snapshot"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
			return
		}
		again, err := Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(again); err != nil {
			t.Errorf("what was read cannot be written and read again: %v", err)
		}
		fleet := &reconcile.Fleet{}
		obs, _, err := s.Observe(fleet)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := reconcile.New(obs, taken)
		if err != nil {
			t.Fatal(err)
		}
		reconcile.Foresee(obs, plan, taken)
	})
}

// What Git says is compared with what is recorded of the live objects.
func TestChangesFromASnapshot(t *testing.T) {
	instance := inventory.Instance{Namespace: "ops", Name: "prod"}
	object := func(kind, name string, fields map[string]any) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: fields}
		o.SetAPIVersion("v1")
		if kind == "DaemonSet" {
			o.SetAPIVersion("apps/v1")
		}
		o.SetKind(kind)
		o.SetNamespace("agents")
		o.SetName(name)
		return o
	}
	daemonSet := func(image, cpu string, selector map[string]any) *unstructured.Unstructured {
		return object("DaemonSet", "cni", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"nodeSelector": selector,
			"containers":   []any{map[string]any{"image": image, "resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}},
		}}}})
	}
	applied := func(o *unstructured.Unstructured) Owned {
		sent, err := inventory.Prepare(o, instance)
		if err != nil {
			t.Fatal(err)
		}
		return Owned{Live: inventory.Live{ID: inventory.IDOf(o)}, Applied: sent}
	}
	obs := reconcile.Observation{Instance: instance}
	obs.DaemonSets = []health.DaemonSet{
		{UID: "ds", Name: types.NamespacedName{Namespace: "agents", Name: "cni"}, Template: &corev1.PodSpec{}},
		{UID: "foreign", Name: types.NamespacedName{Namespace: "agents", Name: "foreign"}, Template: &corev1.PodSpec{}},
	}
	s, err := New(obs, []Owned{
		applied(object("ConfigMap", "same", map[string]any{"data": map[string]any{"a": "1"}})),
		applied(object("ConfigMap", "other", map[string]any{"data": map[string]any{"a": "1"}})),
		applied(object("Secret", "token", map[string]any{})),
		applied(daemonSet("v1", "100m", nil)),
		{Live: inventory.Live{ID: configMap("unread")}},
		{Live: inventory.Live{ID: configMap("gone"), Gone: true}},
		{Live: inventory.Live{ID: configMap("orphan"), UID: "u"}},
	}, taken)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		daemonSet *unstructured.Unstructured
		want      string
	}{
		{daemonSet("v1", "0.1", map[string]any{}), "None"},
		{daemonSet("v2", "100m", nil), "Update template"},
		{daemonSet("v1", "100m", map[string]any{"pool": "gpu"}), "Update template"},
	} {
		fleet := &reconcile.Fleet{Objects: []*unstructured.Unstructured{
			object("ConfigMap", "same", map[string]any{"data": map[string]any{"a": "1"}}),
			object("ConfigMap", "other", map[string]any{"data": map[string]any{"a": "2"}}),
			object("ConfigMap", "unread", map[string]any{}),
			object("ConfigMap", "gone", map[string]any{}),
			object("ConfigMap", "new", map[string]any{}),
			object("Secret", "token", map[string]any{"data": map[string]any{"t": "bmV3"}}),
			object("DaemonSet", "foreign", map[string]any{}),
			c.daemonSet,
		}}
		got, unknown, err := s.Observe(fleet)
		if err != nil {
			t.Fatal(err)
		}
		kinds := map[string]string{}
		for _, change := range got.Changes {
			text := string(change.Kind)
			if change.TemplateChanged {
				text += " template"
			}
			kinds[inventory.Format(change.ID)] = text
		}
		want := map[string]string{
			"ConfigMap/agents/same": "None", "ConfigMap/agents/other": "Update", "ConfigMap/agents/unread": "Update",
			"ConfigMap/agents/gone": "Create", "ConfigMap/agents/new": "Create", "Secret/agents/token": "None",
			"DaemonSet/agents/foreign": "Update template", "DaemonSet/agents/cni": c.want,
		}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		wantUnknown := []string{
			"what defaults and admission would add: an object that is written differently and means the same counts as changed",
			"whether these Secrets change, since a snapshot holds none: Secret/agents/token",
			"whether these exist already, since a snapshot holds only what the instance owns: ConfigMap/agents/new",
			"what is applied of these, which count as changed: ConfigMap/agents/unread, DaemonSet/agents/foreign",
		}
		if diff := cmp.Diff(wantUnknown, unknown); diff != "" {
			t.Errorf("unknown (-want +got):\n%s", diff)
		}
		if len(got.Orphans) != 1 || got.Orphans[0].ID != configMap("orphan") {
			t.Errorf("orphans: %v", got.Orphans)
		}
	}
}

// A template that is put together names what the one that it stands for did.
func TestTemplateNamesWhatIsToBeNamed(t *testing.T) {
	var ids []inventory.ID
	for _, text := range []string{
		"ClusterTrustBundle.certificates.k8s.io/roots", "ConfigMap/ns/c", "PersistentVolumeClaim/ns/p", "PriorityClass/high",
		"ResourceClaim.resource.k8s.io/ns/shared", "ResourceClaimTemplate.resource.k8s.io/ns/gpu", "RuntimeClass/gvisor", "Secret/ns/s", "ServiceAccount/ns/a", "StorageClass/fast",
	} {
		id, err := inventory.ParseFormat(text)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	slices.SortFunc(ids, inventory.Compare)
	if diff := cmp.Diff(ids, health.References(naming(ids), "ns")); diff != "" {
		t.Error(diff)
	}
}
