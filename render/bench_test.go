// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"lamplighter.dev/render"
)

// fleet is a tree of agents, each a base with a DaemonSet, RBAC, a generated
// ConfigMap and a patch in the cluster's overlay.
func fleet(agents, mapsPerAgent int) fstest.MapFS {
	tree := fstest.MapFS{}
	add := func(name, format string, args ...any) {
		tree[name] = &fstest.MapFile{Data: fmt.Appendf(nil, format, args...)}
	}
	overlay := "namespace: agents\nresources:\n"
	patches := "patches:\n"
	for a := range agents {
		dir := fmt.Sprintf("agents/agent-%d/", a)
		overlay += fmt.Sprintf("- ../../%s\n", dir)
		patches += fmt.Sprintf("- patch: |\n    apiVersion: apps/v1\n    kind: DaemonSet\n    metadata: {name: agent-%d}\n    spec: {template: {spec: {containers: [{name: main, resources: {limits: {memory: 100Mi}}}]}}}\n", a)
		add(dir+"kustomization.yaml", "resources: [agent.yaml, maps.yaml]\nconfigMapGenerator:\n- name: settings-%d\n  literals: [level=info]\n", a)
		add(dir+"agent.yaml", `apiVersion: v1
kind: ServiceAccount
metadata: {name: agent-%[1]d}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent-%[1]d, labels: {app: agent-%[1]d}}
spec:
  updateStrategy: {type: OnDelete}
  selector: {matchLabels: {app: agent-%[1]d}}
  template:
    metadata: {labels: {app: agent-%[1]d}}
    spec:
      serviceAccountName: agent-%[1]d
      tolerations: [{operator: Exists}]
      containers:
      - name: main
        image: registry.example/agent-%[1]d:1.2.3
        envFrom: [{configMapRef: {name: settings-%[1]d}}]
        volumeMounts: [{name: proc, mountPath: /host/proc, readOnly: true}]
      volumes: [{name: proc, hostPath: {path: /proc}}]
`, a)
		maps := ""
		for m := range mapsPerAgent {
			maps += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: map-%d-%d}\ndata: {a: b, c: d}\n", a, m)
		}
		add(dir+"maps.yaml", "%s", maps)
	}
	add("clusters/prod/kustomization.yaml", "%s%s", overlay, patches)
	return tree
}

func BenchmarkBuild(b *testing.B) {
	for _, size := range []struct{ agents, maps int }{{1, 1}, {20, 2}, {20, 22}} {
		tree := fleet(size.agents, size.maps)
		b.Run(fmt.Sprintf("objects=%d", size.agents*(size.maps+3)), func(b *testing.B) {
			for b.Loop() {
				if _, err := render.Build(b.Context(), tree, "clusters/prod"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A commit that changes nothing of what is built costs what looking at it costs.
func BenchmarkBuildOfWhatIsTheSame(b *testing.B) {
	tree := fleet(20, 22)
	var builder render.Builder
	if _, err := builder.Build(b.Context(), tree, "clusters/prod"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := builder.Build(b.Context(), tree, "clusters/prod"); err != nil {
			b.Fatal(err)
		}
	}
}
