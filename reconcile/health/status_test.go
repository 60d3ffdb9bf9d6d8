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

func TestStatusOf(t *testing.T) {
	tests := map[string]struct {
		object string
		want   Condition
	}{
		"a ConfigMap is Ready when it exists": {"{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}", Ready},
		"being deleted":                       {`{apiVersion: v1, kind: ConfigMap, metadata: {name: x, deletionTimestamp: "2026-03-02T22:00:00Z"}}`, Terminating},
		"a Deployment on its way":             {"{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, generation: 2}, status: {observedGeneration: 1}}", InProgress},
		"a Job that failed":                   {`{apiVersion: batch/v1, kind: Job, metadata: {name: x}, status: {conditions: [{type: Failed, status: "True"}]}}`, Broken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, message, err := StatusOf(object(t, tt.object))
			if err != nil || got != tt.want {
				t.Errorf("got %s (%s) %v, want %s", got, message, err, tt.want)
			}
		})
	}
}

func TestStatusRefusesPodsAndDaemonSets(t *testing.T) {
	for _, text := range []string{"{apiVersion: v1, kind: Pod, metadata: {name: x}}", "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: x}}"} {
		if _, _, err := StatusOf(object(t, text)); err == nil {
			t.Errorf("no error for %s", text)
		}
	}
}

func TestEstablished(t *testing.T) {
	if ok, why := Established(object(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, status: {conditions: [{type: Established, status: "True"}]}}`)); !ok || why != "" {
		t.Errorf("got %v %q", ok, why)
	}
	for _, conditions := range []string{"", `{type: NamesAccepted, status: "False", reason: NotAccepted}`, `{type: Established, status: "False", reason: Installing}`} {
		if ok, why := Established(object(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, status: {conditions: [`+conditions+`]}}`)); ok || why == "" {
			t.Errorf("with conditions [%s]: got %v %q", conditions, ok, why)
		}
	}
}
