// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/render"
)

// policies gives each problem of the policies the check it belongs to.
func (r *report) policies(problems []policy.Problem) {
	for _, p := range problems {
		r.find(checkOf(p.Code), subject{file: p.File, line: p.Line, object: p.Object}, p.Field, "%s", p.Message)
	}
}

func checkOf(code policy.Code) ID {
	switch code {
	case policy.WrongExample:
		return WindowExample
	case policy.NotOnDelete:
		return UpdateStrategy
	case policy.InvalidDaemonSet, policy.InvalidObject:
		return InvalidObject
	case policy.Encrypted:
		return Encrypted
	case policy.Surprising:
		return PolicyWarning
	case policy.Ungoverned:
		return NoPolicy
	case policy.Invalid:
	}
	return InvalidPolicy
}

// findingSubject names policy kinds without the namespace that a transformer
// may have put on them, as their problems do.
func findingSubject(o render.Object) subject {
	s := subjectOf(o)
	if o.GroupVersionKind().Group == policy.Group {
		s.object = o.GetKind() + "/" + o.GetName()
	}
	return s
}

// Unreadable is the report of a tree that does not render: a finding for each
// line of the error, which begins with the file or object that it is about.
func Unreadable(err error) Report {
	r := &report{}
	for line := range strings.Lines(err.Error()) {
		line = strings.TrimSpace(line)
		about, message, cut := strings.Cut(line, ": ")
		switch {
		case cut && isFile(about):
			line, message := lineIn(message)
			r.find(Render, subject{file: about, line: line}, "", "%s", message)
		case cut && strings.Contains(about, "/") && !strings.Contains(about, " "):
			r.find(Render, subject{object: about}, "", "%s", message)
		default:
			r.find(Render, subject{}, "", "%s", line)
		}
	}
	return r.without(nil)
}

// lineIn cuts the line of a file off a message that begins with it.
func lineIn(message string) (line int, rest string) {
	text, isLine := strings.CutPrefix(message, "line ")
	number, rest, cut := strings.Cut(text, ": ")
	line, err := strconv.Atoi(number)
	if !isLine || !cut || err != nil {
		return 0, message
	}
	return line, rest
}

func isFile(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name)) || path.Base(name) == "Kustomization"
}

// upgradePolicies checks each policy with what its DaemonSets say.
func (r *report) upgradePolicies(agents []agent, f Fleet) {
	for _, o := range f.Policies {
		if o.GetKind() != policy.KindUpgradePolicy {
			continue
		}
		s := findingSubject(o)
		r.allUnavailable(s, o)
		r.visitDuration(s, o.GetName(), agents)
	}
}

// allUnavailable checks the policy and its waves.
func (r *report) allUnavailable(s subject, o render.Object) {
	spec, _, err := unstructured.NestedMap(o.Object, "spec")
	if err != nil {
		return // said when the policy was read
	}
	whole := func(fields map[string]any, path string) {
		if fields["maxUnavailable"] == "100%" {
			r.find(AllUnavailable, s, path+".maxUnavailable", "is 100%%: every node may be out of service at once")
		}
	}
	whole(spec, "spec")
	waves, _ := spec["waves"].([]any)
	for i, wave := range waves {
		fields, _ := wave.(map[string]any)
		whole(fields, fmt.Sprintf("spec.waves[%d]", i))
	}
}
