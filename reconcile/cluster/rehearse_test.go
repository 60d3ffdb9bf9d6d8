// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/cluster"
)

// What the API server says of each object is known before any of them is sent.
// What a commit brings with it cannot be asked about before it is there.
func TestChangesAreRehearsed(t *testing.T) {
	w := newWorld(t, cluster.Options{})
	w.pass(t, w.configMap(t, "changed", "1"), w.configMap(t, "taken", "1"), w.configMap(t, "same", "1"))
	w.edit(t, "taken", "other-operator", `{"data":{"key":"2"}}`)
	objects := append(w.objects(t, `
apiVersion: v1
kind: Service
metadata: {name: invalid}
spec: {ports: [{port: 70000}]}
---
apiVersion: v1
kind: Service
metadata: {name: valid}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: homeless, namespace: NS-nowhere}
---
apiVersion: v1
kind: Namespace
metadata: {name: NS-new}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: member, namespace: NS-new}
---
apiVersion: NS.example.com/v1
kind: Wick
metadata: {name: one}
spec: {}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: wicks.NS.example.com}
spec:
  group: NS.example.com
  scope: Namespaced
  names: {kind: Wick, plural: wicks, singular: wick}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]`),
		w.configMap(t, "changed", "2"), w.configMap(t, "taken", "3"), w.configMap(t, "same", "1"))

	inspect := func() (faults []string, asked int) {
		seen := w.requests.during(func() {
			changes, err := w.cluster.Inspect(t.Context(), objects)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range inventory.Faults(changes, w.instance, "") {
				faults = append(faults, strings.ReplaceAll(f.Error(), w.namespace, "NS"))
			}
		})
		for _, line := range writes(seen) {
			if !strings.HasPrefix(line, "PATCH dry-run") {
				t.Errorf("it changed something: %s", line)
			}
			asked++
		}
		return faults, asked
	}
	want := []string{
		`ConfigMap/NS/taken: .data.key belongs to "other-operator"`,
		`ConfigMap/NS-nowhere/homeless: namespaces "NS-nowhere" not found`,
		`Service/NS/invalid: Service "invalid" is invalid: [spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive, spec.ports[0].targetPort: Invalid value: 70000: must be between 1 and 65535, inclusive]`,
	}
	got, asked := inspect()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if asked == 0 {
		t.Error("nothing was rehearsed")
	}
	if got, asked = inspect(); asked != 0 || !cmp.Equal(got, want) {
		t.Errorf("the second time %d dry runs and faults %q, want none more and the same", asked, got)
	}
}

// Where each object stands for itself, none is asked about before it is sent.
func TestPartialRehearsesNothing(t *testing.T) {
	w := newWorld(t, cluster.Options{Partial: true})
	seen := w.requests.during(func() {
		if _, err := w.cluster.Inspect(t.Context(), w.objects(t, "apiVersion: v1\nkind: Service\nmetadata: {name: invalid}\nspec: {ports: []}")); err != nil {
			t.Fatal(err)
		}
	})
	if asked := writes(seen); len(asked) > 0 {
		t.Errorf("asked: %v", asked)
	}
}

// A field that the API server does not know is refused, wherever it is, and not
// dropped.
func TestUnknownFieldsAreRefused(t *testing.T) {
	for name, opts := range map[string]cluster.Options{"rehearsed": {}, "sent": {Partial: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cluster.Options{})
			w.pass(t, w.objects(t, definition(w))...)
			w.cluster = w.newCluster(t, opts)
			objects := append(w.objects(t, `
apiVersion: v1
kind: ConfigMap
metadata: {name: top}
dta: {key: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: metadata, labls: {a: b}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: deep}
spec:
  selector: {matchLabels: {app: deep}}
  template:
    metadata: {labels: {app: deep}}
    spec: {containers: [{name: c, image: i, imagePullPolcy: Always}]}
---
apiVersion: `+w.group()+`/v1
kind: Lamp
metadata: {name: custom}
sepc: {lit: true}`), w.objects(t, definition(w))...)
			plan := w.plan(t, objects...)
			got := map[string]string{}
			for _, d := range plan.Decisions() {
				got[d.ID.Name] = d.Message
			}
			for _, o := range w.cluster.Apply(t.Context(), plan.Steps, nil) {
				if o.Err != nil {
					got[o.ID.Name] = o.Err.Error()
				}
			}
			for object, field := range map[string]string{"top": ".dta", "metadata": ".metadata.labls", "deep": ".imagePullPolcy", "custom": ".sepc"} {
				if !strings.Contains(got[object], field) {
					t.Errorf("%s: got %q, want a refusal that names %s", object, got[object], field)
				}
			}
		})
	}
}
