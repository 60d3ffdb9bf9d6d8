// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/reconcile/rollout"
)

func TestAnswersToADryRun(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusTeapot,
		Message: `admission webhook "images.example.com" denied the request: not signed`}}
	for name, tc := range map[string]struct {
		err   error
		reply rollout.Reply
		words string
	}{
		"admitted":                 {nil, rollout.Yes, ""},
		"quota":                    {apierrors.NewForbidden(pods, "cni-dry-run", errors.New("exceeded quota: small")), rollout.No, "exceeded quota: small"},
		"invalid":                  {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "cni-dry-run", nil), rollout.No, "is invalid"},
		"bad request":              {apierrors.NewBadRequest("no such class"), rollout.No, "no such class"},
		"a webhook denies":         {denied, rollout.No, "not signed"},
		"a webhook has no dry run": {apierrors.NewBadRequest(`admission webhook "old.example.com" does not support dry run`), rollout.Yes, "not checked beforehand"},
		"a webhook is away":        {apierrors.NewInternalError(errors.New(`failed calling webhook "images.example.com"`)), rollout.Unknown, "failed calling webhook"},
		"no right":                 {apierrors.NewForbidden(pods, "", errors.New(`User "lamp" cannot create resource "pods" in API group ""`)), rollout.Unknown, "the right to create pods"},
		"no login":                 {apierrors.NewUnauthorized("who are you"), rollout.Unknown, "who are you"},
		"overload":                 {apierrors.NewTooManyRequests("later", 1), rollout.Unknown, "later"},
		"the namespace is gone":    {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "net"), rollout.Unknown, "not found"},
		"no connection":            {errors.New("dial tcp: connection\nrefused"), rollout.Unknown, "connection refused"},
	} {
		got := admissionOf(tc.err)
		if got.Reply != tc.reply || !strings.Contains(got.Message, tc.words) || (tc.words == "") != (got.Message == "") {
			t.Errorf("%s: got %+v, want %s with %q", name, got, tc.reply, tc.words)
		}
	}
}

// The record has room for what is said of each of thousands of nodes.
func TestNobodyFillsTheRecord(t *testing.T) {
	got := admissionOf(apierrors.NewBadRequest(strings.Repeat("no\n", 10000)))
	if len(got.Message) > 1100 || !strings.HasPrefix(got.Message, "no no ") {
		t.Errorf("%d bytes: %.20q", len(got.Message), got.Message)
	}
}
