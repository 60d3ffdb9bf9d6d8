// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"time"
)

// versionKey is the annotation by which tests tell the versions of a pod apart.
const versionKey = "version"

func (w *world) kustomization(resources []string, more string) string {
	return fmt.Sprintf("namespace: %s\nresources: [%s]\n%s", w.namespace, strings.Join(resources, ", "), more)
}

// daemonSet is the DaemonSet agent. The tag orders how its pods behave.
func daemonSet(version, tag string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  updateStrategy: {type: OnDelete}
  template:
    metadata:
      labels: {app: agent}
      annotations: {version: %q}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: agent
        image: example.com/agent:%s
`, version, tag)
}

// logger is the DaemonSet agent with another name.
func logger(version, tag string) string {
	return strings.ReplaceAll(daemonSet(version, tag), "agent", "logger")
}

// configMounted is the DaemonSet agent with the ConfigMap config mounted.
func configMounted(version, tag string) string {
	return daemonSet(version, tag) + `        volumeMounts: [{name: config, mountPath: /etc/agent}]
      volumes: [{name: config, configMap: {name: config}}]
`
}

func configMap(name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {key: %q}\n", name, value)
}

// rules are an UpgradePolicy for the DaemonSet agent. The zero value visits one
// node after another at any time and halts at the first failure.
type rules struct {
	windows        string // names, with commas; "" means always
	maxUnavailable string
	maxFailures    int
	readyTimeout   time.Duration
	logger         bool   // the policy is for the DaemonSet logger too, after agent
	fields         string // of the policy's spec, as YAML lines that are indented by two
	more           string // YAML documents, such as windows
}

func (r rules) yaml(w *world) string {
	if r.windows == "" {
		r.windows = "always"
	}
	if r.maxUnavailable == "" {
		r.maxUnavailable = "1"
	}
	if r.readyTimeout == 0 {
		r.readyTimeout = time.Minute
	}
	daemonSets := fmt.Sprintf("{namespace: %s, name: agent}", w.namespace)
	if r.logger {
		daemonSets += fmt.Sprintf(", {namespace: %s, name: logger}", w.namespace)
	}
	return fmt.Sprintf(`apiVersion: lamplighter.dev/v1alpha1
kind: UpgradePolicy
metadata: {name: agents}
spec:
  daemonSets: [%s]
  windows: [%s]
  maxUnavailable: %s
  maxFailures: %d
  minReadySeconds: 0
  readyTimeout: %s
  visitDuration: 1s
%s%s`, daemonSets, r.windows, r.maxUnavailable, r.maxFailures, r.readyTimeout, r.fields, r.more)
}

// A span is one opening, half-open. Its ends are whole seconds, as are the
// times that the API server writes.
type span struct{ from, to time.Time }

func (s span) has(t time.Time) bool { return !t.Before(s.from) && t.Before(s.to) }

func (s span) String() string {
	return s.from.Format(time.TimeOnly) + "-" + s.to.Format(time.TimeOnly)
}

// second is an instant some time from now.
func second(ahead time.Duration) time.Time {
	return time.Now().Add(ahead).Truncate(time.Second)
}

// far is an opening that no test lives to see.
func far() span { return span{second(24 * time.Hour), second(48 * time.Hour)} }

func (s span) window(name string) string { return s.times("MaintenanceWindow", name) }

func (s span) freeze(name string) string { return s.times("Freeze", name) }

func (s span) times(kind, name string) string {
	return fmt.Sprintf("---\napiVersion: lamplighter.dev/v1alpha1\nkind: %s\nmetadata: {name: %s}\nspec: {start: %s, end: %s}\n",
		kind, name, s.from.Format(time.RFC3339), s.to.Format(time.RFC3339))
}

// example is a window that says of the instant before it that it is open, or not.
func (s span) example(open bool) string {
	return strings.Replace(s.window("tested"), "spec: {", fmt.Sprintf("spec: {examples: [{at: %s, open: %t}], ", s.from.Add(-time.Second).Format(time.RFC3339), open), 1)
}
