// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// mayImport is the direction of imports: a package, and which of our packages
// it may import. Imports point from the process to the pure core, never back.
var mayImport = map[string][]string{
	"inventory":                  {},
	"render":                     {},
	"render/sops":                {},
	"reconcile/window":           {},
	"reconcile/policy":           {"reconcile/window"},
	"reconcile/health":           {"inventory"},
	"reconcile/rollout":          {"inventory", "reconcile/health", "reconcile/policy", "reconcile/window"},
	"cmd/lamplighter/show":       {"inventory", "reconcile", "reconcile/check", "reconcile/health", "reconcile/policy", "reconcile/rollout", "reconcile/why", "reconcile/window", "render"},
	"reconcile/check":            {"inventory", "reconcile/health", "reconcile/policy", "reconcile/window", "render"},
	"render/gitsource":           {"render"},
	"render/gitsource/signature": {},
	"inventory/store":            {"inventory", "reconcile/policy", "reconcile/rollout"},
	"reconcile/gate":             {"reconcile/policy", "reconcile/rollout"},
	"reconcile/cluster":          {"inventory", "reconcile/health", "reconcile/rollout"},
	"reconcile":                  {"inventory", "reconcile/health", "reconcile/policy", "reconcile/rollout", "reconcile/window", "render"},
	"reconcile/snapshot":         {"inventory", "reconcile", "reconcile/health", "reconcile/policy", "reconcile/rollout"},
	"reconcile/why":              {"inventory", "reconcile", "reconcile/health", "reconcile/policy", "reconcile/rollout"},
	"reconcile/agent/webhook":    {},
	"reconcile/agent":            {"inventory", "inventory/store", "reconcile", "reconcile/agent/webhook", "reconcile/cluster", "reconcile/gate", "reconcile/health", "reconcile/policy", "reconcile/rollout", "reconcile/window", "render", "render/gitsource", "render/gitsource/signature", "render/sops"},
	"cmd/lamplighter/install":    {"examples/install", "inventory", "reconcile", "reconcile/policy", "render"},
	"cmd/lamplighter/cli":        {"cmd/lamplighter/install", "cmd/lamplighter/show", "inventory", "inventory/store", "reconcile", "reconcile/agent", "reconcile/check", "reconcile/cluster", "reconcile/gate", "reconcile/health", "reconcile/policy", "reconcile/rollout", "reconcile/snapshot", "reconcile/why", "reconcile/window", "render", "render/gitsource"},
	"cmd/lamplighter":            {"cmd/lamplighter/cli"},
	"inventory/store/storetest":  {"inventory", "inventory/store", "reconcile/policy", "reconcile/rollout"},
	"internal/archtest":          {},
	"internal/casefile":          {},
	"internal/testkit":           {},
	"internal/testsum":           {},
	"examples/install":           {},
	"examples/demo":              {"cmd/lamplighter/show"}, // reads what the command prints
}

// pure packages answer from their arguments alone.
var pure = []string{
	"cmd/lamplighter/install", "cmd/lamplighter/show", "inventory", "reconcile/check", "reconcile/health", "reconcile/policy",
	"reconcile/rollout", "reconcile/snapshot", "reconcile/why", "reconcile/window", "render", "render/gitsource/signature", "render/sops",
}

// effects are what a pure package may not import itself.
var effects = []string{"log", "log/slog", "net", "net/http", "os", "os/exec", "os/signal", "syscall"}

// heavy is who may import a library, by the prefix of its packages. One owner
// per library keeps its types and its traps in one place.
var heavy = []struct {
	library string
	owners  []string
}{
	{"sigs.k8s.io/kustomize/", []string{"render"}},
	{"github.com/go-git/", []string{"internal/testkit", "render/gitsource"}},
	{"github.com/ProtonMail/go-crypto/", []string{"render/gitsource/signature", "render/sops"}}, // one verifies, one decrypts
	{"github.com/getsops/", []string{"render/sops"}},
	{"filippo.io/age", []string{"render/sops"}},
	{"github.com/hiddeco/sshsig", []string{"render/gitsource/signature"}},
	{"github.com/robfig/cron/", []string{"reconcile/window"}},
	{"github.com/emersion/go-ical", []string{"cmd/lamplighter/show", "reconcile/window"}}, // one writes, one reads
	{"github.com/teambition/rrule-go", []string{"reconcile/window"}},
	{"sigs.k8s.io/cli-utils/pkg/kstatus/", []string{"reconcile/health"}},
	{"sigs.k8s.io/cli-utils/pkg/apply", nil},
	{"k8s.io/kubectl/", []string{"reconcile/cluster"}},
	{"github.com/prometheus/", []string{"reconcile/agent", "reconcile/gate"}},
	{"github.com/spf13/", []string{"cmd/lamplighter/cli"}},
	{"k8s.io/client-go/", []string{
		"cmd/lamplighter/cli", "examples/demo", "internal/testkit", "inventory/store", "inventory/store/storetest",
		"reconcile/agent", "reconcile/cluster",
	}},
}

// clients are what no pure package may reach, however many imports away.
var clients = []string{
	"github.com/go-git/go-git/", "github.com/prometheus/", "github.com/spf13/cobra",
	"k8s.io/client-go/dynamic", "k8s.io/client-go/informers", "k8s.io/client-go/kubernetes",
	"k8s.io/client-go/metadata", "k8s.io/client-go/rest", "k8s.io/client-go/tools/cache",
	"k8s.io/client-go/tools/clientcmd", "k8s.io/client-go/tools/leaderelection", "k8s.io/kubectl/",
}

// leaks are packages through which the search for clients does not look: pure
// libraries import them for a type or two, and we cannot change that.
var leaks = []string{
	"k8s.io/cli-runtime/pkg/resource", // cli-utils' object names its types after it
}

// importing is one import of one of our files.
type importing struct {
	File   string
	Line   int
	Target string // import path
}

// pkg is the folder of the importing package.
func (i importing) pkg() string { return path.Dir(i.File) }

func TestImportsPointOneWay(t *testing.T) {
	report(t, checkDirection(ourImports(t)))
}

func TestHeavyLibrariesHaveOneOwner(t *testing.T) {
	report(t, checkOwners(ourImports(t)))
}

func TestPurePackagesImportNoEffects(t *testing.T) {
	report(t, checkEffects(ourImports(t)))
}

func TestPurePackagesReachNoClient(t *testing.T) {
	graph := dependencies(t)
	for _, p := range pure {
		if _, ok := graph[module+"/"+p]; !ok {
			t.Errorf("%s: no such package, but the list of pure packages in internal/archtest names it", p)
		}
	}
	report(t, checkReach(graph))
}

func TestImportRulesFail(t *testing.T) {
	imports := []importing{
		{"render/render.go", 9, "lamplighter.dev/inventory"},
		{"render/render.go", 10, "os"},
		{"reconcile/agent/agent.go", 11, "lamplighter.dev/reconcile"},
		{"reconcile/agent/agent.go", 12, "github.com/robfig/cron/v3"},
		{"newcomer/new.go", 3, "lamplighter.dev/render"},
	}
	wantProblems(t, checkDirection(imports),
		"newcomer/new.go: package newcomer is not in the import table of internal/archtest/imports_test.go: say there what it may import",
		"render/render.go:9: render may not import inventory: move what both need to a package below them, or pass it as a parameter")
	wantProblems(t, checkOwners(imports),
		"reconcile/agent/agent.go:12: only reconcile/window may import github.com/robfig/cron/v3: use what it offers")
	wantProblems(t, checkEffects(imports),
		"render/render.go:10: render is pure and may not import os: take what it needs as a parameter")

	graph := map[string][]string{
		"lamplighter.dev/inventory":       {"example.com/a", "k8s.io/cli-runtime/pkg/resource"},
		"example.com/a":                   {"k8s.io/kubectl/pkg/drain"},
		"k8s.io/cli-runtime/pkg/resource": {"k8s.io/client-go/rest"},
	}
	wantProblems(t, checkReach(graph),
		"inventory: a pure package may not reach k8s.io/kubectl/pkg/drain: inventory -> example.com/a -> k8s.io/kubectl/pkg/drain")
}

func checkDirection(imports []importing) []problem {
	var problems []problem
	strangers := make(map[string]bool)
	for _, i := range imports {
		allowed, known := mayImport[i.pkg()]
		if !known {
			if !strangers[i.pkg()] {
				strangers[i.pkg()] = true
				problems = append(problems, problem{i.File, 0, fmt.Sprintf(
					"package %s is not in the import table of internal/archtest/imports_test.go: say there what it may import", i.pkg())})
			}
			continue
		}
		target, ours := strings.CutPrefix(i.Target, module+"/")
		if ours && !slices.Contains(allowed, target) {
			problems = append(problems, problem{i.File, i.Line, fmt.Sprintf(
				"%s may not import %s: move what both need to a package below them, or pass it as a parameter", i.pkg(), target)})
		}
	}
	return sorted(problems)
}

func checkOwners(imports []importing) []problem {
	var problems []problem
	for _, i := range imports {
		for _, h := range heavy {
			if !strings.HasPrefix(i.Target, h.library) || slices.Contains(h.owners, i.pkg()) {
				continue
			}
			what := fmt.Sprintf("only %s may import %s: use what it offers", strings.Join(h.owners, ", "), i.Target)
			if len(h.owners) == 0 {
				what = "no package may import " + i.Target
			}
			problems = append(problems, problem{i.File, i.Line, what})
		}
	}
	return sorted(problems)
}

func checkEffects(imports []importing) []problem {
	var problems []problem
	for _, i := range imports {
		if slices.Contains(pure, i.pkg()) && slices.Contains(effects, i.Target) {
			problems = append(problems, problem{i.File, i.Line, fmt.Sprintf(
				"%s is pure and may not import %s: take what it needs as a parameter", i.pkg(), i.Target)})
		}
	}
	return sorted(problems)
}

// checkReach looks for clients behind each pure package and shows the way there.
func checkReach(graph map[string][]string) []problem {
	var problems []problem
	for _, p := range pure {
		from := module + "/" + p
		cameFrom := map[string]string{from: ""}
		for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
			at := queue[0]
			if isClient(at) {
				problems = append(problems, problem{p, 0, fmt.Sprintf("a pure package may not reach %s: %s", at, way(cameFrom, at))})
				continue
			}
			if slices.Contains(leaks, at) {
				continue
			}
			for _, next := range graph[at] {
				if _, seen := cameFrom[next]; !seen {
					cameFrom[next] = at
					queue = append(queue, next)
				}
			}
		}
	}
	return problems
}

func isClient(pkg string) bool {
	if pkg == "k8s.io/client-go/kubernetes/scheme" || strings.HasPrefix(pkg, "k8s.io/client-go/tools/clientcmd/api") {
		return false // tables of types, without a client
	}
	return slices.ContainsFunc(clients, func(c string) bool { return strings.HasPrefix(pkg, c) })
}

func way(cameFrom map[string]string, to string) string {
	var steps []string
	for at := to; at != ""; at = cameFrom[at] {
		steps = append(steps, strings.TrimPrefix(at, module+"/"))
	}
	slices.Reverse(steps)
	return strings.Join(steps, " -> ")
}

func sorted(problems []problem) []problem {
	slices.SortFunc(problems, func(a, b problem) int { return strings.Compare(a.String(), b.String()) })
	return problems
}

// ourImports is every import of the main module's code, tests aside.
func ourImports(t *testing.T) []importing {
	t.Helper()
	var imports []importing
	for _, f := range goFiles(t) {
		if f.Test || strings.HasPrefix(f.Path, "cmd/sandbox/") || strings.HasPrefix(f.Path, "internal/forge/") { // modules of their own
			continue
		}
		for _, spec := range f.AST.Imports {
			imports = append(imports, importing{f.Path, f.line(spec), strings.Trim(spec.Path.Value, `"`)})
		}
	}
	return imports
}

// dependencies is the import graph of everything the main module's code is
// built from.
func dependencies(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-deps", "-json=ImportPath,Imports,ImportMap", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
	}
	graph := make(map[string][]string)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
			ImportMap  map[string]string
		}
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for _, i := range p.Imports {
			if mapped, ok := p.ImportMap[i]; ok {
				i = mapped
			}
			graph[p.ImportPath] = append(graph[p.ImportPath], i)
		}
		if p.Imports == nil {
			graph[p.ImportPath] = nil
		}
	}
	if len(graph) < 100 {
		t.Fatalf("go list knows only %d packages: %v", len(graph), slices.Sorted(maps.Keys(graph)))
	}
	return graph
}
