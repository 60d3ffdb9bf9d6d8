// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// applying is what the agent does with a kind: watch, apply and prune it.
var applying = []string{"get", "list", "watch", "create", "patch", "delete"}

func TestInstalledAgentMayApplyTheFleet(t *testing.T) {
	var fleet []file
	for _, f := range files(t, ".yaml") {
		if strings.HasPrefix(f.Path, "examples/fleet/") {
			fleet = append(fleet, f)
		}
	}
	report(t, checkRights(t, fleet, read(t, "examples/install/fleet-rbac.yaml")))
}

// Why a disruption budget can never allow an eviction is in the budget itself.
func TestInstalledAgentMayReadDisruptionBudgets(t *testing.T) {
	rules := rulesOf(t, read(t, "examples/install/rbac.yaml"))
	if slices.Contains(missingVerbs(rules, "policy", "poddisruptionbudgets", "any"), "get") {
		t.Error("examples/install/rbac.yaml allows no get of poddisruptionbudgets")
	}
}

// A dry run of a new revision's pod takes the right to create pods.
func TestInstalledAgentMayAskForAdmission(t *testing.T) {
	rules := rulesOf(t, read(t, "examples/install/rbac.yaml"))
	if slices.Contains(missingVerbs(rules, "", "pods", "any"), "create") {
		t.Error("examples/install/rbac.yaml allows no create of pods")
	}
}

// What somebody has to look at is told as Events.
func TestInstalledAgentMayCreateEvents(t *testing.T) {
	rules := rulesOf(t, read(t, "examples/install/rbac.yaml"))
	if slices.Contains(missingVerbs(rules, "events.k8s.io", "events", "any"), "create") {
		t.Error("examples/install/rbac.yaml allows no create of events")
	}
}

// To cordon is to patch the node, and nothing more.
func TestOptionalRightsAllowCordonsOnly(t *testing.T) {
	rules := rulesOf(t, read(t, "examples/install/drain-rbac.yaml"))
	if len(rules) != 1 || slices.Contains(missingVerbs(rules, "", "nodes", "any"), "patch") || !slices.Equal(rules[0].Verbs, []string{"patch"}) {
		t.Errorf("examples/install/drain-rbac.yaml allows %+v, want patch of nodes only", rules)
	}
}

// Jobs of gates are created, read and stopped in the agent's own namespace, and
// nothing else.
func TestOptionalRightsAllowJobsOfGatesOnly(t *testing.T) {
	f := read(t, "examples/install/jobs-rbac.yaml")
	if rules := rulesOf(t, f); len(rules) > 0 {
		t.Errorf("%s allows %+v in every namespace", f.Path, rules)
	}
	var role rbacv1.Role
	if err := yaml.Unmarshal([]byte(documents(f)[0]), &role); err != nil {
		t.Fatal(err)
	}
	want := []rbacv1.PolicyRule{{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create", "get", "list", "delete"}}}
	if diff := cmp.Diff(want, role.Rules); role.Kind != "Role" || diff != "" {
		t.Errorf("%s: kind %s, rules (-want +got):\n%s", f.Path, role.Kind, diff)
	}
}

func TestRightsRuleFails(t *testing.T) {
	fleet := []file{
		{"a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"},
		{"b.yaml", "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: b}\n"},
		{"w.yaml", "apiVersion: lamplighter.dev/v1alpha1\nkind: Freeze\nmetadata: {name: f}\n"},
	}
	role := file{"role.yaml", `
kind: ClusterRole
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, create, patch]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], verbs: [get, list, watch]}
- {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], resourceNames: [a], verbs: [create, patch, delete]}
`}
	wantProblems(t, checkRights(t, fleet, role),
		"role.yaml: allows no create, patch, delete of clusterroles/b, which b.yaml holds",
		"role.yaml: allows no delete of configmaps/c, which a.yaml holds",
		"role.yaml: allows no get, list, watch, create, patch, delete of secrets/s, which a.yaml holds")
}

// checkRights wants the role to allow everything the agent does with the
// objects of the fleet.
func checkRights(t *testing.T, fleet []file, role file) []problem {
	t.Helper()
	rules := rulesOf(t, role)
	var problems []problem
	for _, f := range fleet {
		for _, doc := range documents(f) {
			var o struct {
				APIVersion, Kind string
				Metadata         struct{ Name string }
			}
			if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
				t.Fatalf("%s: %v", f.Path, err)
			}
			group := path.Dir(o.APIVersion)
			if group == "." {
				group = ""
			}
			if o.Metadata.Name == "" || group == "lamplighter.dev" {
				continue // a kustomization or plain configuration; a policy kind
			}
			resource := strings.ToLower(o.Kind) + "s"
			if missing := missingVerbs(rules, group, resource, o.Metadata.Name); len(missing) > 0 {
				problems = append(problems, problem{role.Path, 0, fmt.Sprintf(
					"allows no %s of %s/%s, which %s holds", strings.Join(missing, ", "), resource, o.Metadata.Name, f.Path)})
			}
		}
	}
	return sorted(problems)
}

// rulesOf are the rules of the ClusterRoles in a file.
func rulesOf(t *testing.T, f file) []rbacv1.PolicyRule {
	t.Helper()
	var rules []rbacv1.PolicyRule
	for _, doc := range documents(f) {
		var r rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(doc), &r); err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		if r.Kind == "ClusterRole" {
			rules = append(rules, r.Rules...)
		}
	}
	return rules
}

// missingVerbs are those of applying that no rule allows. Who lists or watches
// a kind does so for all names.
func missingVerbs(rules []rbacv1.PolicyRule, group, resource, name string) []string {
	allowed := make(map[string]bool)
	for _, r := range rules {
		if !slices.Contains(r.APIGroups, group) || !slices.Contains(r.Resources, resource) {
			continue
		}
		for _, verb := range r.Verbs {
			named := verb != "list" && verb != "watch" && slices.Contains(r.ResourceNames, name)
			if len(r.ResourceNames) == 0 || named {
				allowed[verb] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(applying), func(verb string) bool { return allowed[verb] })
}

// documents are the YAML documents of a file.
func documents(f file) []string {
	return strings.Split("\n"+f.Text, "\n---\n")
}
