// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// header is the first line of every Go file.
const header = "// SPDX-License-Identifier: Apache-2.0"

// maxLines is where a file has more than one idea.
const maxLines = 500

// goFile is one parsed Go file of any module.
type goFile struct {
	file
	AST  *ast.File
	Test bool
	fset *token.FileSet
}

func (f goFile) line(n ast.Node) int { return f.fset.Position(n.Pos()).Line }

func goFiles(t *testing.T) []goFile {
	t.Helper()
	var parsed []goFile
	for _, f := range files(t, ".go") {
		if strings.Contains(f.Path, "testdata/") {
			continue
		}
		parsed = append(parsed, parse(t, f))
	}
	return parsed
}

func parse(t *testing.T, f file) goFile {
	t.Helper()
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, f.Path, f.Text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return goFile{file: f, AST: syntax, Test: strings.HasSuffix(f.Path, "_test.go"), fset: fset}
}

func TestFilesStartWithTheLicence(t *testing.T) {
	var problems []problem
	for _, f := range goFiles(t) {
		problems = append(problems, checkHeader(f.file)...)
	}
	report(t, problems)
}

func TestFilesAreOneIdea(t *testing.T) {
	var problems []problem
	for _, f := range files(t, ".go", ".md", ".yaml", ".sh", "Makefile") {
		if !strings.Contains(f.Path, "testdata/") {
			problems = append(problems, checkLength(f)...)
		}
	}
	report(t, problems)
}

func TestPackagesHaveOneDoc(t *testing.T) {
	report(t, checkPackageDocs(goFiles(t)))
}

func TestPureCodeHasNoClock(t *testing.T) {
	var problems []problem
	for _, f := range goFiles(t) {
		if !f.Test && slices.Contains(pure, path.Dir(f.Path)) {
			problems = append(problems, checkCalls(f, clock)...)
		}
	}
	report(t, problems)
}

func TestClockIsReadAtTheEdges(t *testing.T) {
	edges := []string{"cmd/lamplighter/cli", "reconcile/agent"}
	var problems []problem
	for _, f := range goFiles(t) {
		if dir := path.Dir(f.Path); !f.Test && isProduct(dir) && !slices.Contains(edges, dir) {
			problems = append(problems, checkCalls(f, reading)...)
		}
	}
	report(t, problems)
}

func TestOnlyMainEndsTheProcess(t *testing.T) {
	var problems []problem
	for _, f := range goFiles(t) {
		if !f.Test && isProduct(path.Dir(f.Path)) && f.AST.Name.Name != "main" {
			problems = append(problems, checkCalls(f, rude)...)
			problems = append(problems, checkInit(f)...)
		}
	}
	report(t, problems)
}

func TestTestsNeitherSkipNorSleep(t *testing.T) {
	var problems []problem
	for _, f := range goFiles(t) {
		if f.Test {
			problems = append(problems, checkCalls(f, idling)...)
		}
	}
	report(t, problems)
}

func TestSourceRulesFail(t *testing.T) {
	wantProblems(t, checkHeader(file{"a.go", "package a\n"}),
		"a.go:1: the first line must be \"// SPDX-License-Identifier: Apache-2.0\"")
	wantProblems(t, checkLength(file{"a.go", strings.Repeat("\n", 501)}),
		"a.go:501: the file has 501 lines, more than 500: split it by idea")
	wantProblems(t, checkPackageDocs([]goFile{
		parse(t, file{"a/a.go", "// Package a is one.\npackage a\n"}),
		parse(t, file{"a/b.go", "// Package a is two.\npackage a\n"}),
		parse(t, file{"b/b.go", "// Header\n\npackage b\n"}),
		parse(t, file{"b/b_test.go", "// Package b of a test does not count.\npackage b\n"}),
	}),
		"a/b.go:2: package a has its doc comment in a/a.go too: keep one",
		"b/b.go:3: package b has no doc comment: say what it answers, what it never does, and a first call")
	wantProblems(t, checkCalls(parse(t, file{"a.go", "package a\n\nimport t \"time\"\n\nvar now = t.Now\nvar d = t.Hour\n"}), clock),
		"a.go:5: time.Now looks at the clock: take the instant as a parameter")
	wantProblems(t, checkCalls(parse(t, file{"a.go", "package a\n\nimport \"time\"\n\nvar now = time.Now\nvar d = time.NewTimer\n"}), reading),
		"a.go:5: time.Now looks at the clock: ask the clock that reconcile/agent or cmd/lamplighter/cli passes in")
	wantProblems(t, checkCalls(parse(t, file{"a.go", "package a\n\nimport (\n\t\"fmt\"\n\t\"os\"\n)\n\nfunc f() {\n\tfmt.Println()\n\tos.Exit(1)\n}\n"}), rude),
		"a.go:9: fmt.Println writes to whatever standard output is: write to a writer you were given",
		"a.go:10: os.Exit belongs to main: return an error")
	wantProblems(t, checkInit(parse(t, file{"a.go", "package a\n\nfunc init() {}\n\nfunc (t T) init() {}\n"})),
		"a.go:3: init runs whether anybody asked or not: do it in a constructor")
	wantProblems(t, checkCalls(parse(t, file{"a_test.go", "package a\n\nimport \"time\"\n\nfunc f(tb testing.TB) {\n\ttb.Skipf(\"\")\n\ttime.Sleep(1)\n\titerator.Skip(1, 2)\n}\n"}), idling),
		"a_test.go:6: Skipf: a test that does not run proves nothing; make what it needs a requirement",
		"a_test.go:7: time.Sleep: wait for what is to happen, or use testing/synctest")
}

func checkHeader(f file) []problem {
	if first, _, _ := strings.Cut(f.Text, "\n"); first != header {
		return []problem{{f.Path, 1, fmt.Sprintf("the first line must be %q", header)}}
	}
	return nil
}

func checkLength(f file) []problem {
	if n := strings.Count(f.Text, "\n"); n > maxLines {
		return []problem{{f.Path, n, fmt.Sprintf("the file has %d lines, more than %d: split it by idea", n, maxLines)}}
	}
	return nil
}

// checkPackageDocs wants one package comment per folder with code. A folder
// with tests only has nothing to document.
func checkPackageDocs(files []goFile) []problem {
	var problems []problem
	documented := make(map[string]string) // folder → file with the comment
	first := make(map[string]goFile)      // folder → its first file
	for _, f := range files {
		dir := path.Dir(f.Path)
		if f.Test {
			continue
		}
		if _, ok := first[dir]; !ok {
			first[dir] = f
		}
		if f.AST.Doc == nil {
			continue
		}
		if other, ok := documented[dir]; ok {
			problems = append(problems, problem{f.Path, f.fset.Position(f.AST.Package).Line, fmt.Sprintf(
				"package %s has its doc comment in %s too: keep one", f.AST.Name.Name, other)})
			continue
		}
		documented[dir] = f.Path
	}
	for dir, f := range first {
		if documented[dir] == "" {
			problems = append(problems, problem{f.Path, f.fset.Position(f.AST.Package).Line, fmt.Sprintf(
				"package %s has no doc comment: say what it answers, what it never does, and a first call", f.AST.Name.Name)})
		}
	}
	return sorted(problems)
}

// rule answers what is wrong with a mention of pkg.name, or nothing. pkg is an
// import path, and empty when the selector is not of a package.
type rule func(pkg, name string) string

// clock finds what looks at the clock.
func clock(pkg, name string) string {
	if pkg == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep"}, name) {
		return "time." + name + " looks at the clock: take the instant as a parameter"
	}
	return ""
}

// reading finds what reads the clock. Timers are no reading.
func reading(pkg, name string) string {
	if pkg == "time" && slices.Contains([]string{"Now", "Since", "Until"}, name) {
		return "time." + name + " looks at the clock: ask the clock that reconcile/agent or cmd/lamplighter/cli passes in"
	}
	return ""
}

// rude finds what takes the process or its standard output for its own.
func rude(pkg, name string) string {
	switch {
	case pkg == "os" && name == "Exit", pkg == "log" && strings.HasPrefix(name, "Fatal"):
		return pkg + "." + name + " belongs to main: return an error"
	case pkg == "fmt" && strings.HasPrefix(name, "Print"):
		return "fmt." + name + " writes to whatever standard output is: write to a writer you were given"
	case pkg == "context" && name == "TODO":
		return "context.TODO: take the caller's context"
	}
	return ""
}

// isProduct tells whether a folder holds what ships, and not what tests it.
func isProduct(dir string) bool {
	return !strings.HasPrefix(dir, "cmd/sandbox") && !strings.HasPrefix(dir, "examples") && !strings.HasPrefix(dir, "internal")
}

// checkInit finds init functions.
func checkInit(f goFile) []problem {
	var problems []problem
	for _, decl := range f.AST.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			problems = append(problems, problem{f.Path, f.line(fn), "init runs whether anybody asked or not: do it in a constructor"})
		}
	}
	return problems
}

// idling finds tests that do not run or that wait for nothing in particular.
func idling(pkg, name string) string {
	switch {
	case pkg == "" && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, name):
		return name + ": a test that does not run proves nothing; make what it needs a requirement"
	case pkg == "time" && name == "Sleep":
		return "time.Sleep: wait for what is to happen, or use testing/synctest"
	}
	return ""
}

// checkCalls applies the rule to every selector on a package or on a test.
func checkCalls(f goFile, r rule) []problem {
	imported := make(map[string]string) // name → import path
	for _, spec := range f.AST.Imports {
		target := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = target
	}
	var problems []problem
	ast.Inspect(f.AST, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return true
		}
		pkg, isPackage := imported[x.Name]
		if !isPackage && !slices.Contains([]string{"t", "b", "f", "tb", "T"}, x.Name) {
			return true
		}
		if what := r(pkg, sel.Sel.Name); what != "" {
			problems = append(problems, problem{f.Path, f.line(sel), what})
		}
		return true
	})
	return problems
}
