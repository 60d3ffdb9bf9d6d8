// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/json"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/render"
)

// object is a rendered object of a kind that Kubernetes itself has.
type object struct {
	subject
	typed runtime.Object
}

// agent is a DaemonSet, and the policy that governs it.
type agent struct {
	subject
	*appsv1.DaemonSet
	policy *policy.UpgradePolicy // nil when none does
}

// kinds are those whose fields are known here. Fields of other kinds are the
// API server's to judge.
func kinds() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	var errs []error
	for _, add := range []func(*runtime.Scheme) error{
		admissionv1.AddToScheme, appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme,
		corev1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, schedulingv1.AddToScheme, storagev1.AddToScheme,
	} {
		errs = append(errs, add(s))
	}
	return s, errors.Join(errs...)
}

// decode reads objects strictly.
func (r *report) decode(objects []render.Object) []object {
	scheme, err := kinds()
	if err != nil {
		panic(err) // two libraries disagree on a kind: no input does that
	}
	var out []object
	for _, o := range objects {
		typed, err := scheme.New(o.GroupVersionKind())
		if _, encrypted := o.Object["sops"].(map[string]any); encrypted || runtime.IsNotRegisteredError(err) {
			continue // what SOPS has encrypted is said once
		}
		if s := subjectOf(o); r.read(o, s, typed) {
			out = append(out, object{s, typed})
		}
	}
	return out
}

// read fills in typed. It is false if the object cannot be read at all.
func (r *report) read(o render.Object, s subject, typed runtime.Object) bool {
	what := o.GetAPIVersion() + " " + o.GetKind()
	data, err := o.MarshalJSON()
	if err != nil {
		r.find(InvalidObject, s, "", "cannot be read as %s: %s", what, err)
		return false
	}
	strict, err := json.UnmarshalStrict(data, typed)
	for _, e := range strict {
		r.find(InvalidObject, s, unknownField(e), "is not a field of %s", what)
	}
	if err == nil {
		return true
	}
	if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
		r.find(InvalidObject, s, m[2], "is of type %s, and %s wants %s", m[1], what, m[3])
	} else {
		r.find(InvalidObject, s, "", "cannot be read as %s: %s", what, strings.TrimPrefix(err.Error(), "json: "))
	}
	return false
}

// wrongType is what the decoder says of a value of another type than the field's.
var wrongType = regexp.MustCompile(`cannot unmarshal (\w+)(?: \S+)? into Go struct field \w+\.(\S+) of type (\S+)`)

// unknownField is the path in an error that names one field.
func unknownField(err error) string {
	path := strings.TrimPrefix(err.Error(), "unknown field ")
	return strings.Trim(path, `"`)
}

// agentsOf are the DaemonSets, by name.
func agentsOf(objects []object, f Fleet) []agent {
	governed := !slices.ContainsFunc(f.Problems, func(p policy.Problem) bool { return p.Level == policy.Error })
	var out []agent
	for _, o := range objects {
		ds, ok := o.typed.(*appsv1.DaemonSet)
		if !ok {
			continue
		}
		a := agent{subject: o.subject, DaemonSet: ds}
		if governed {
			if p, ok := f.Set.For(types.NamespacedName{Namespace: ds.Namespace, Name: ds.Name}); ok {
				a.policy = &p
			}
		}
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b agent) int { return strings.Compare(a.object, b.object) })
	return out
}

const podField = "spec.template.spec"

func (a agent) pod() *corev1.PodSpec { return &a.Spec.Template.Spec }
