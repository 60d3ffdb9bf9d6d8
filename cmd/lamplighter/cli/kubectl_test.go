// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lamplighter.dev/internal/testkit"
)

// prepared is what the pages' commands for kubectl are about, beside the examples: a
// Kustomization as Flux has it, and an agent that is installed.
const prepared = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: kustomizations.kustomize.toolkit.fluxcd.io}
spec:
  group: kustomize.toolkit.fluxcd.io
  scope: Namespaced
  names: {kind: Kustomization, plural: kustomizations, singular: kustomization}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {prune: {type: boolean}}}}}}}]
---
apiVersion: v1
kind: Namespace
metadata: {name: flux-system}
---
apiVersion: v1
kind: Namespace
metadata: {name: lamplighter-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: lamplighter, namespace: lamplighter-system}
spec:
  replicas: 0
  selector: {matchLabels: {app.kubernetes.io/name: lamplighter}}
  template:
    metadata: {labels: {app.kubernetes.io/name: lamplighter}}
    spec: {containers: [{name: agent, image: agent}]}
`

const kustomization = `
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: agents, namespace: flux-system}
spec: {prune: true}
`

// TestDocumentedKubectlCommandsRun runs what the pages tell people to do with
// kubectl: against an API server, and for what would stay there as a dry run of it. It
// runs before those that run side by side: one empties the agent's namespace.
func TestDocumentedKubectlCommandsRun(t *testing.T) {
	sandbox := testkit.Sandbox(t)
	kubectl, dir := testkit.Kubectl(t), t.TempDir()
	copyTree(t, filepath.Join(repository, "examples", "install"), filepath.Join(dir, "my-install"))
	for _, name := range []string{"token", "age.agekey", "prod.asc", filepath.Join("keys", "alice.asc")} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("content\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(t *testing.T, stdin, line string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", line)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = []string{"PATH=" + filepath.Dir(kubectl) + ":" + os.Getenv("PATH"), "KUBECONFIG=" + sandbox.Kubeconfig, "HOME=" + dir}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	run(t, prepared, "kubectl apply -f -")
	run(t, "", "kubectl wait --for=condition=Established crd/kustomizations.kustomize.toolkit.fluxcd.io --timeout=60s")
	run(t, kustomization, "for i in $(seq 60); do kubectl apply -f - 2>err && break; sleep 1; done; ! test -s err || cat err")

	ran := 0
	for _, page := range []string{"docs/install.md", "docs/guides/migrating.md", "docs/guides/secrets.md", "docs/guides/uninstall.md", "docs/guides/webhooks.md", "docs/guides/signed-commits.md"} {
		for _, line := range shellLines(t, page) {
			if !strings.HasPrefix(line, "kubectl ") || needsPods.MatchString(line) {
				continue
			}
			ran++
			if stays.MatchString(line) && !slices.Contains(strings.Fields(line), "kustomize") {
				line += " --dry-run=server"
			}
			t.Run(line, func(t *testing.T) { run(t, "", line) })
		}
	}
	if ran < 7 {
		t.Errorf("found only %d commands: does the search still work?", ran)
	}
	if got := run(t, "", "kubectl -n flux-system get kustomization agents -o jsonpath={.spec.prune}"); got != "false" {
		t.Errorf("prune is %s after what the page tells to do, want false", got)
	}
}

var (
	needsPods = regexp.MustCompile(` logs | -f lamplighter.yaml`)
	stays     = regexp.MustCompile(` (create|apply|scale) `)
)
