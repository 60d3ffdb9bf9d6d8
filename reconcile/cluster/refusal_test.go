// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
)

func conflict(causes ...string) error {
	err := apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("conflict"))
	for _, cause := range causes {
		message, field, _ := strings.Cut(cause, " | ")
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
			metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Message: message, Field: field})
	}
	return fmt.Errorf("apply: %w", err)
}

func held(holders ...inventory.Holder) *inventory.ConflictError {
	return &inventory.ConflictError{Holders: holders}
}

func TestConflictsNameManagersAndFields(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want map[string][]string
		told *inventory.ConflictError
	}{
		{"another kind of conflict", conflict(), map[string][]string{}, nil},
		{"no answer of the API server", errors.New("conflict with \"a\""), nil, nil},
		{
			"kubectl yields", conflict(`conflict with "kubectl-client-side-apply" using v1 | .data.a`, `conflict with "before-first-apply" using v1 | .data.b`),
			map[string][]string{"kubectl-client-side-apply": {".data.a"}, "before-first-apply": {".data.b"}}, nil,
		},
		{
			"one who does not yield is told, sorted",
			conflict(`conflict with "hpa" with subresource "scale" using apps/v1 at 2026-03-02T22:00:00Z | .spec.b`, `conflict with "hpa" using apps/v1 | .spec.a`, `conflict with "kubectl" using v1 | .spec.c`),
			map[string][]string{"hpa": {".spec.b", ".spec.a"}, "kubectl": {".spec.c"}},
			held(inventory.Holder{Manager: "hpa", Fields: []string{".spec.a", ".spec.b"}}),
		},
		{
			"all who do not yield are told",
			conflict(`conflict with "vpa" using v1 | .spec.b`, `conflict with "kubectl" using v1 | .spec.c`, `conflict with "hpa" using v1 | .spec.a`, `conflict with "vpa" using v1 | .spec.a`),
			map[string][]string{"vpa": {".spec.b", ".spec.a"}, "kubectl": {".spec.c"}, "hpa": {".spec.a"}},
			held(inventory.Holder{Manager: "hpa", Fields: []string{".spec.a"}}, inventory.Holder{Manager: "vpa", Fields: []string{".spec.a", ".spec.b"}}),
		},
		{"a name in quotes", conflict(`conflict with "a \"b\"" using v1 | .data`), map[string][]string{`a "b"`: {".data"}}, held(inventory.Holder{Manager: `a "b"`, Fields: []string{".data"}})},
		{"a message of another form", conflict(`something else | .data`), map[string][]string{"unknown": {".data"}}, held(inventory.Holder{Manager: "unknown", Fields: []string{".data"}})},
		{"a manager that only looks like kubectl", conflict(`conflict with "kubectlish" using v1 | .data`), map[string][]string{"kubectlish": {".data"}}, held(inventory.Holder{Manager: "kubectlish", Fields: []string{".data"}})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := conflicts(tc.err)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("conflicts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.told, foreignConflict(got, new(Cluster).yields)); diff != "" {
				t.Errorf("told (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTransient(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"too many requests", apierrors.NewTooManyRequests("later", 1), true},
		{"internal", apierrors.NewInternalError(errors.New("webhook")), true},
		{"unavailable", apierrors.NewServiceUnavailable("starting"), true},
		{"server timeout", apierrors.NewServerTimeout(resource, "get", 1), true},
		{"gateway timeout", apierrors.NewTimeoutError("slow", 1), true},
		{"refused connection", &url.Error{Op: "Get", Err: syscall.ECONNREFUSED}, true},
		{"reset connection", fmt.Errorf("read: %w", syscall.ECONNRESET), true},
		{"forbidden", apierrors.NewForbidden(resource, "a", errors.New("no")), false},
		{"not found", apierrors.NewNotFound(resource, "a"), false},
		{"conflict", conflict(), false},
		{"bad request", apierrors.NewBadRequest("no"), false},
		{"a field that the schema does not have", notTypedError(), false},
		{"our own", errors.New("bug"), false},
	} {
		if got := transient(tc.err); got != tc.want {
			t.Errorf("%s: got %t, want %t", tc.name, got, tc.want)
		}
	}
}

func notTypedError() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: "failed to create typed patch object (ns/a; v1, Kind=ConfigMap): .datas: field not declared in schema"}}
}

func TestObjectThatDoesNotFitItsSchemaIsRefused(t *testing.T) {
	if _, rejected := errors.AsType[*inventory.RejectedError](refusal(daemonSetKind, notTypedError())); !rejected {
		t.Error("it is tried again, though it would not help")
	}
}

// An answer about a Secret may quote what was sent.
func TestRefusalOfASecretQuotesNothing(t *testing.T) {
	for _, code := range []int32{http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusInternalServerError} {
		err := &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: "data: hunter2 is bad\nvery", Reason: metav1.StatusReasonInvalid}}
		if got := refusal(secretKind, err).Error(); strings.Contains(got, "hunter2") {
			t.Errorf("%d: got %q", code, got)
		}
		got := refusal(daemonSetKind, err)
		if want := "data: hunter2 is bad very"; got.Error() != want {
			t.Errorf("%d: got %q, want one line: %q", code, got, want)
		}
		_, rejected := errors.AsType[*inventory.RejectedError](got)
		if want := code < http.StatusInternalServerError; rejected != want {
			t.Errorf("%d: rejected %t, want %t", code, rejected, want)
		}
	}
}
