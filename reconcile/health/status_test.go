// SPDX-License-Identifier: Apache-2.0

package health

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var u unstructured.Unstructured
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return &u
}

func TestEstablished(t *testing.T) {
	if ok, why := Established(object(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, status: {conditions: [{type: Established, status: "True"}]}}`)); !ok || why != "" {
		t.Errorf("got %v %q", ok, why)
	}
	if ok, why := Established(object(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x, deletionTimestamp: "2026-03-02T22:00:00Z"}, status: {conditions: [{type: Established, status: "True"}]}}`)); ok || why == "" {
		t.Errorf("being deleted: got %v %q", ok, why)
	}
	for _, conditions := range []string{"", `{type: NamesAccepted, status: "False", reason: NotAccepted}`, `{type: Established, status: "False", reason: Installing}`} {
		if ok, why := Established(object(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, status: {conditions: [`+conditions+`]}}`)); ok || why == "" {
			t.Errorf("with conditions [%s]: got %v %q", conditions, ok, why)
		}
	}
}
