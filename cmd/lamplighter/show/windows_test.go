// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile/policy"
)

// Each case is a fleet's policy kinds and what is asked of their calendars.
func TestWindowsText(t *testing.T) {
	golden(t, "windows", func(t *testing.T, f fixture) string {
		var ask struct {
			From, To time.Time
			At       []time.Time
		}
		f.decode(t, "ask.yaml", &ask)
		set := policies(t, f.get("fleet.yaml"))
		var b strings.Builder
		for _, err := range []error{
			show.WriteOpenings(&b, show.NewOpenings(set, ask.From, ask.To)),
			show.WriteInstants(&b, show.NewInstants(set, ask.At)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	})
}

func policies(t *testing.T, manifests string) policy.Set {
	t.Helper()
	var docs []policy.Document
	for _, text := range strings.Split(manifests, "---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		docs = append(docs, policy.Document{Object: object, File: "fleet.yaml"})
	}
	exporter := policy.DaemonSet{Name: name("agents", "exporter"), UpdateStrategy: "OnDelete"}
	set, problems := policy.Parse(docs, []policy.DaemonSet{exporter}, time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, p := range problems {
		if p.Level == policy.Error {
			t.Fatal(p)
		}
	}
	return set
}
