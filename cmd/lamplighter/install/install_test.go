// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // zones must not depend on the machine

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/cmd/lamplighter/install"
	"lamplighter.dev/internal/casefile"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
)

var caseNow = time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC)

// TestCases prints what the agent of a fleet needs, in short. The first line of a
// case is the instance as NAMESPACE/NAME, and the components.
func TestCases(t *testing.T) {
	casefile.Run(t, "testdata/*.txtar", func(t *testing.T, given *txtar.Archive) txtar.File {
		tree, err := txtar.FS(given)
		if err != nil {
			t.Fatal(err)
		}
		var reader reconcile.Reader
		fleet, err := reader.Read(t.Context(), tree, ".", reconcile.Commit{}, caseNow)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(strings.SplitN(string(given.Comment), "\n", 2)[0])
		namespace, name, _ := strings.Cut(words[0], "/")
		objects, err := install.Manifests(t.Context(), install.Options{
			Instance: inventory.Instance{Namespace: namespace, Name: name},
			Image:    "registry.example.com:5000/lamplighter:v1", Git: "https://git.example.com/fleet.git", Ref: "main", Path: "clusters/prod",
			Components: words[1:],
		}, fleet)
		if err != nil {
			return casefile.Error(err.Error() + "\n")
		}
		var b strings.Builder
		for _, o := range objects {
			fmt.Fprintln(&b, inventory.Format(inventory.IDOf(o)))
			describe(t, &b, o)
		}
		for _, kind := range install.Guessed(fleet.Objects) {
			fmt.Fprintln(&b, "guessed", kind)
		}
		return casefile.Want(b.String())
	})
}

// describe tells what differs between fleets and instances.
func describe(t *testing.T, b *strings.Builder, o *unstructured.Unstructured) {
	t.Helper()
	switch o.GetKind() {
	case "ClusterRole", "Role":
		if strings.HasSuffix(o.GetName(), "-fleet") {
			for _, r := range as[rbacv1.ClusterRole](t, o).Rules {
				fmt.Fprintf(b, "  %q %v %v: %v\n", r.APIGroups, r.Resources, r.ResourceNames, r.Verbs)
			}
		}
	case "ClusterRoleBinding":
		binding := as[rbacv1.ClusterRoleBinding](t, o)
		fmt.Fprintf(b, "  %s to %s/%s\n", binding.RoleRef.Name, binding.Subjects[0].Namespace, binding.Subjects[0].Name)
	case "RoleBinding":
		binding := as[rbacv1.RoleBinding](t, o)
		fmt.Fprintf(b, "  %s to %s/%s\n", binding.RoleRef.Name, binding.Subjects[0].Namespace, binding.Subjects[0].Name)
	case "Deployment":
		pod := as[appsv1.Deployment](t, o).Spec.Template
		fmt.Fprintf(b, "  %s as %s: %s\n", pod.Spec.Containers[0].Image, pod.Spec.ServiceAccountName, strings.Join(pod.Spec.Containers[0].Args, " "))
		for _, v := range pod.Spec.Volumes {
			switch {
			case v.Secret != nil:
				fmt.Fprintln(b, "  mounts Secret", v.Secret.SecretName)
			case v.ConfigMap != nil:
				fmt.Fprintln(b, "  mounts ConfigMap", v.ConfigMap.Name)
			}
		}
	}
}

func as[T any](t *testing.T, o *unstructured.Unstructured) T {
	t.Helper()
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true); err != nil {
		t.Fatalf("%s: %v", inventory.Format(inventory.IDOf(o)), err)
	}
	return typed
}

// The rights in examples/install are those of the example fleet, no less and no
// more.
func TestExampleHasTheRightsOfTheExampleFleet(t *testing.T) {
	var reader reconcile.Reader
	fleet, err := reader.Read(t.Context(), os.DirFS("../../../examples/fleet"), "clusters/demo", reconcile.Commit{}, caseNow)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := install.Manifests(t.Context(), install.Options{Instance: inventory.Instance{Namespace: "lamplighter-system", Name: "lamplighter"}}, fleet)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "ClusterRole" && o.GetName() == "lamplighter-fleet"
	})
	text, err := os.ReadFile("../../../examples/install/fleet-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var example rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict([]byte(strings.Split(string(text), "---\n")[0]), &example); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(single(example.Rules), single(as[rbacv1.ClusterRole](t, objects[at]).Rules)); diff != "" {
		t.Errorf("(-examples/install +lamplighter install)\n%s", diff)
	}
}

// single takes rules apart: a line for each verb.
func single(rules []rbacv1.PolicyRule) []string {
	lines := sets.New[string]()
	for _, r := range rules {
		for _, resource := range r.Resources {
			for _, verb := range r.Verbs {
				names := r.ResourceNames
				if len(names) == 0 {
					names = []string{"*"}
				}
				for _, name := range names {
					lines.Insert(fmt.Sprintf("%s %s/%s %s", r.APIGroups[0], resource, name, verb))
				}
			}
		}
	}
	return sets.List(lines)
}
