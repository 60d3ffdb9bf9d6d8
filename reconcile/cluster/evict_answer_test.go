// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/rollout"
)

// Only a disruption budget refuses; what else the API server answers is an
// error, in its own words.
func TestAnswersToAnEviction(t *testing.T) {
	for name, test := range map[string]struct {
		code    int32
		message string
		want    rollout.AttemptResult
	}{
		"a budget":          {http.StatusTooManyRequests, "Cannot evict pod as it would violate the pod's disruption budget.", rollout.Refused},
		"several budgets":   {http.StatusInternalServerError, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", rollout.Refused},
		"no right":          {http.StatusForbidden, `pods "cni-1" is forbidden: User "agent" cannot create resource "pods/eviction"`, rollout.Errored},
		"no login":          {http.StatusUnauthorized, "Unauthorized", rollout.Errored},
		"a webhook denies":  {http.StatusUnprocessableEntity, `admission webhook "guard" denied the request`, rollout.Errored},
		"a webhook is away": {http.StatusInternalServerError, `failed calling webhook "guard"`, rollout.Errored},
		"the pod is gone":   {http.StatusNotFound, `pods "cni-1" not found`, rollout.Gone},
		"it is another pod": {http.StatusConflict, "the UID in the precondition does not match", rollout.Gone},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(int(test.code))
				status := metav1.Status{Status: metav1.StatusFailure, Code: test.code, Message: test.message}
				status.APIVersion, status.Kind = "v1", "Status"
				if err := json.NewEncoder(w).Encode(status); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			c, err := cluster.New(&rest.Config{Host: server.URL}, cluster.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			pod := health.Pod{Name: types.NamespacedName{Namespace: "ns", Name: "cni-1"}, UID: "u", ResourceVersion: "7", Node: "a"}
			a := c.Evict(t.Context(), eviction(pod))
			if a.Result != test.want || a.Message != test.message {
				t.Errorf("got %s %q, want %s %q", a.Result, a.Message, test.want, test.message)
			}
			if (a.Err != nil) != (test.want == rollout.Errored) || (a.Err != nil && !strings.Contains(a.Err.Error(), test.message)) {
				t.Errorf("error: got %v", a.Err)
			}
		})
	}
}
