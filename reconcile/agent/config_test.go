// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"lamplighter.dev/render/gitsource"
)

func TestEmptyPathIsTheRepositoryRoot(t *testing.T) {
	if got := withDefaults(Config{}).Path; got != "." {
		t.Errorf("path: got %q, want the root as render knows it", got)
	}
}

// The guard against a mass deletion is lifted for a commit that is named.
func TestAllowPruneNamesACommit(t *testing.T) {
	for value, valid := range map[string]bool{
		"": true, "9f2c1e7": true, "9f2c1e7d5b0c6a4e8f1a2b3c4d5e6f708192a3b4": true,
		"9f2c1e": false, "main": false, "HEAD": false, "9f2c1e7..": false, "true": false, "false": false,
	} {
		err := Config{AllowPrune: value}.Validate()
		if got := !strings.Contains(err.Error(), "--allow-prune="); got != valid {
			t.Errorf("--allow-prune=%s: got %v, want valid %t", value, err, valid)
		}
	}
}

// Without a clock the cluster remembers no answer that counts for a while, and
// every pass asks again.
func TestClusterHasTheAgentsClock(t *testing.T) {
	a := Agent{cfg: withDefaults(Config{})}
	if a.clusterOptions().Now == nil {
		t.Error("the cluster has no clock")
	}
}

// A record is written before evictions and waits for nothing but the API server: by
// default a client holds back all that is more than five requests a second, the renewal
// of the Lease among them.
func TestAgentDoesNotHoldItselfBack(t *testing.T) {
	a, err := New(Config{
		Source:  gitsource.Options{URL: "https://git.example.com/fleet"},
		Cluster: &rest.Config{Host: "https://api.example.com"}, Namespace: "lamplighter", Instance: "prod",
	})
	if err != nil {
		t.Fatal(err)
	}
	if limit := a.clientset.CoordinationV1().RESTClient().GetRateLimiter(); limit != nil {
		t.Errorf("the client's limit is %v requests a second, want none", limit.QPS())
	}
}
