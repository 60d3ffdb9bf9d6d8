// SPDX-License-Identifier: Apache-2.0

package inventory_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/inventory"
)

func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}

func TestPrepare(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{
			"marks are added, and what is not ours to say goes",
			`
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: a
  creationTimestamp: null
  uid: x
  resourceVersion: "1"
  managedFields: []
  labels: {app: a}
  annotations: null
spec:
  template:
    metadata: {creationTimestamp: null, labels: {app: a}}
    spec: {priority: null}
status: {numberReady: 1}`,
			`
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: a
  labels: {app: a, lamplighter.dev/instance: us}
  annotations: {config.k8s.io/owning-inventory: lamps.us}
spec:
  template:
    metadata: {labels: {app: a}}
    spec: {priority: null}`,
		},
		{
			"plain text of a Secret becomes data, over what data says",
			"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {kept: eA==, both: eA==}, stringData: {both: yes it is, new: z}}",
			`
apiVersion: v1
kind: Secret
metadata:
  name: a
  labels: {lamplighter.dev/instance: us}
  annotations: {config.k8s.io/owning-inventory: lamps.us}
data: {kept: eA==, both: eWVzIGl0IGlz, new: eg==}`,
		},
		{
			"another kind's stringData is its own affair",
			"{apiVersion: example.com/v1, kind: Secret, metadata: {name: a}, stringData: {n: 1}}",
			`
apiVersion: example.com/v1
kind: Secret
metadata:
  name: a
  labels: {lamplighter.dev/instance: us}
  annotations: {config.k8s.io/owning-inventory: lamps.us}
stringData: {n: 1}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := fromYAML(t, tc.in)
			before := in.DeepCopy()
			got, err := inventory.Prepare(in, us)
			if err != nil {
				t.Fatal(err)
			}
			unmarked := got.DeepCopy()
			if digest := takeDigest(unmarked); len(digest) != 16 {
				t.Errorf("digest of what is sent: got %q, want 16 digits", digest)
			}
			if diff := cmp.Diff(fromYAML(t, tc.want).Object, unmarked.Object); diff != "" {
				t.Errorf("prepared (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Object, in.Object); diff != "" {
				t.Errorf("the rendered object was changed:\n%s", diff)
			}
			again, err := inventory.Prepare(got, us)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got.Object, again.Object); diff != "" {
				t.Errorf("prepared twice:\n%s", diff)
			}
		})
	}
}

func TestPrepareRefusesSecretsWithoutTheirValues(t *testing.T) {
	for _, text := range []string{
		"{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {key: 90210}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: 90210}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {key: 90210==}}",
		"{apiVersion: v1, kind: Secret, metadata: {name: a}, data: \"90210\"}",
		"{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: [90210]}",
	} {
		_, err := inventory.Prepare(fromYAML(t, text), us)
		if err == nil || strings.Contains(err.Error(), "90210") || !strings.Contains(err.Error(), "Secret/a") {
			t.Errorf("%s: got error %v, want one that names the Secret and no value", text, err)
		}
	}
}

func TestContentHashIgnoresTheOrderOfFields(t *testing.T) {
	hash := func(text string) string {
		h, err := inventory.ContentHash(fromYAML(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	if hash("{kind: A, b: {c: 1, d: [2]}}") != hash("{b: {d: [2], c: 1}, kind: A}") {
		t.Error("equal objects have different hashes")
	}
	if hash("{kind: A, b: [1, 2]}") == hash("{kind: A, b: [2, 1]}") {
		t.Error("different lists have equal hashes")
	}
}

// takeDigest removes the digest of what is sent from an object.
func takeDigest(obj *unstructured.Unstructured) string {
	annotations := obj.GetAnnotations()
	digest := annotations[inventory.AppliedAnnotation]
	delete(annotations, inventory.AppliedAnnotation)
	obj.SetAnnotations(annotations)
	return digest
}

// The digest is that of what Git says, even if a file was taken from a cluster.
func TestDigestIsOfWhatGitSays(t *testing.T) {
	digestOf := func(text string) string {
		obj, err := inventory.Prepare(fromYAML(t, text), us)
		if err != nil {
			t.Fatal(err)
		}
		return takeDigest(obj)
	}
	one := digestOf("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '1', y: '2'}}")
	same := digestOf("{kind: ConfigMap, apiVersion: v1, data: {y: '2', x: '1'}, metadata: {name: a, uid: u, annotations: {lamplighter.dev/applied: '1234'}}}")
	other := digestOf("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {x: '1', y: '3'}}")
	if one != same || one == other {
		t.Errorf("digests: got %s, for the same %s, for another %s", one, same, other)
	}
}
