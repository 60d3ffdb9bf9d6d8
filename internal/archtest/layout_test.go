// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// topLevel is everything the repository's root may hold. A new entry is a
// decision about the project, not about a folder.
var topLevel = []string{
	".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE", "Makefile", "README.md",
	"cmd", "docs", "examples", "go.mod", "go.sum", "internal", "inventory", "reconcile", "render",
}

func TestTopLevelIsFixed(t *testing.T) {
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	report(t, checkTopLevel(names, read(t, ".gitignore").Text))
}

func TestDockerfileBuildsWhatIsHere(t *testing.T) {
	var sources []string
	graph := dependencies(t)
	for pkg := range reachable(graph, module+"/cmd/lamplighter") {
		if ours, ok := strings.CutPrefix(pkg, module+"/"); ok {
			sources = append(sources, ours)
		}
	}
	slices.Sort(sources)
	report(t, checkDockerfile(read(t, "Dockerfile"), read(t, "go.mod").Text, sources, exists))
}

func TestVersionStampHasAVariable(t *testing.T) {
	variables := make(map[string]bool)
	for _, f := range goFiles(t) {
		for _, decl := range f.AST.Decls {
			if gen, ok := decl.(*ast.GenDecl); ok {
				for _, name := range stringVariables(gen) {
					variables[module+"/"+path.Dir(f.Path)+"."+name] = true
				}
			}
		}
	}
	report(t, checkStamps(read(t, "Dockerfile"), variables))
	report(t, checkStamps(read(t, "Makefile"), variables))
}

func TestLayoutRulesFail(t *testing.T) {
	wantProblems(t, checkTopLevel([]string{".git", "bin", "pkg", "docs"}, "/bin/\n"),
		"pkg: does not belong at the top level: put it into a folder that is there, or add it to internal/archtest/layout_test.go")

	dockerfile := file{"Dockerfile", "FROM golang:1.25.1 AS build\nCOPY go.mod go.sum ./\nCOPY render gone /src/\nCOPY --from=build /a /b\n"}
	here := func(path string) bool { return path != "gone" }
	wantProblems(t, checkDockerfile(dockerfile, "module m\n\ngo 1.26.0\n", []string{"inventory/store", "render"}, here),
		"Dockerfile:1: builds with golang:1.25.1, but go.mod wants 1.26",
		"Dockerfile:3: copies gone, which does not exist",
		"Dockerfile: copies nothing that holds inventory/store, which the binary is built from")

	wantProblems(t, checkStamps(file{"Makefile", "a:\n\tgo build -ldflags '-s -X m/cli.stamp=$(V) -X m/cli.gone=1'\n"}, map[string]bool{"m/cli.stamp": true}),
		"Makefile:2: stamps m/cli.gone, and no such string variable is declared: the linker would not say so")
}

func checkTopLevel(names []string, gitignore string) []problem {
	ignored := strings.Fields(gitignore)
	var problems []problem
	for _, name := range names {
		if name == ".git" || slices.Contains(topLevel, name) || slices.Contains(ignored, "/"+name+"/") {
			continue
		}
		problems = append(problems, problem{name, 0,
			"does not belong at the top level: put it into a folder that is there, or add it to internal/archtest/layout_test.go"})
	}
	return problems
}

// checkDockerfile wants every copied path to exist, every source folder to be
// copied, and the Go version of go.mod.
func checkDockerfile(dockerfile file, gomod string, sources []string, exists func(string) bool) []problem {
	_, version, _ := strings.Cut(gomod, "\ngo ")
	version, _, _ = strings.Cut(version, "\n")
	minor := version
	if parts := strings.SplitN(version, ".", 3); len(parts) == 3 {
		minor = parts[0] + "." + parts[1]
	}
	var problems []problem
	var copied []string
	for i, line := range strings.Split(dockerfile.Text, "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) > 1 && words[0] == "FROM" && strings.HasPrefix(words[1], "golang:"):
			if !strings.HasPrefix(words[1], "golang:"+minor+".") {
				problems = append(problems, problem{dockerfile.Path, i + 1, fmt.Sprintf("builds with %s, but go.mod wants %s", words[1], minor)})
			}
		case len(words) > 2 && words[0] == "COPY" && !strings.HasPrefix(words[1], "--from="):
			for _, source := range words[1 : len(words)-1] {
				copied = append(copied, source)
				if !exists(source) {
					problems = append(problems, problem{dockerfile.Path, i + 1, fmt.Sprintf("copies %s, which does not exist", source)})
				}
			}
		}
	}
	for _, source := range sources {
		if !slices.ContainsFunc(copied, func(c string) bool { return source == c || strings.HasPrefix(source, c+"/") }) {
			problems = append(problems, problem{dockerfile.Path, 0, fmt.Sprintf("copies nothing that holds %s, which the binary is built from", source)})
		}
	}
	return problems
}

// checkStamps wants every linker stamp (-X package.variable=value) to name a
// string variable that exists.
func checkStamps(f file, variables map[string]bool) []problem {
	var problems []problem
	for i, line := range strings.Split(f.Text, "\n") {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t'\"", r) })
		for j, word := range words {
			if word != "-X" || j+1 == len(words) {
				continue
			}
			name, _, _ := strings.Cut(words[j+1], "=")
			if !variables[name] {
				problems = append(problems, problem{f.Path, i + 1, fmt.Sprintf(
					"stamps %s, and no such string variable is declared: the linker would not say so", name)})
			}
		}
	}
	return problems
}

// stringVariables are the names of "var name string" in a declaration.
func stringVariables(gen *ast.GenDecl) []string {
	var names []string
	for _, spec := range gen.Specs {
		value, ok := spec.(*ast.ValueSpec)
		if !ok || len(value.Values) > 0 {
			continue
		}
		if kind, ok := value.Type.(*ast.Ident); ok && kind.Name == "string" {
			for _, n := range value.Names {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// reachable is everything that from is built from, itself included.
func reachable(graph map[string][]string, from string) map[string]bool {
	seen := map[string]bool{from: true}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range graph[queue[0]] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return seen
}
