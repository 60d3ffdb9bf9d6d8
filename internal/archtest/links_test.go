// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var link = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)

func TestLinksResolve(t *testing.T) {
	pages := make(map[string]string)
	for _, f := range files(t, ".md") {
		pages[f.Path] = f.Text
	}
	report(t, checkLinks(pages, exists))
}

func TestDocumentationHasAnIndex(t *testing.T) {
	pages := make(map[string]string)
	for _, f := range files(t, ".md") {
		if strings.HasPrefix(f.Path, "docs/") {
			pages[f.Path] = f.Text
		}
	}
	report(t, checkIndex("docs/README.md", pages))
}

func TestMetricsAreDocumented(t *testing.T) {
	var code []file
	for _, f := range goFiles(t) {
		if !f.Test && strings.HasPrefix(f.Path, "reconcile/") {
			code = append(code, f.file)
		}
	}
	report(t, checkMetrics(code, read(t, "docs/reference/metrics.md")))
}

func TestPolicyFieldsAreDocumented(t *testing.T) {
	var code []file
	for _, f := range goFiles(t) {
		if !f.Test && path.Dir(f.Path) == "reconcile/policy" {
			code = append(code, f.file)
		}
	}
	report(t, checkFields(code, read(t, "docs/reference/kinds.md")))
}

func TestDocumentRulesFail(t *testing.T) {
	pages := map[string]string{
		"docs/README.md": "See [a](a.md#the-first-step), [b](b.md), [c](a.md#nowhere), [d](https://example.com).\n```sh\n[e](e.md)\n```\n",
		"docs/a.md":      "# A\n\n## The `first` step!\n",
		"docs/lost.md":   "# Lost\n",
	}
	here := func(path string) bool { _, ok := pages[path]; return ok }
	wantProblems(t, checkLinks(pages, here),
		"docs/README.md:1: links to a.md#nowhere, and docs/a.md has no such heading",
		"docs/README.md:1: links to b.md, and there is no docs/b.md")
	wantProblems(t, checkIndex("docs/README.md", pages),
		"docs/lost.md: nobody finds this page: link it from docs/README.md")
	wantProblems(t, checkFields([]file{{"p.go", "s.text(\"windows\")\noneOf(s, \"scope\", A)\n"}}, file{"k.md", "`windows`\n"}),
		"p.go:2: the field scope is not described in k.md")
	wantProblems(t, checkMetrics([]file{{"a.go", `Name: "lamplighter_new_total", Help`}}, file{"m.md", "`lamplighter_old_total`\n"}),
		"a.go:1: lamplighter_new_total is not described in m.md",
		"m.md:1: there is no metric lamplighter_old_total any more")
}

// checkLinks wants each relative link to lead to a file, and to a heading in it.
func checkLinks(pages map[string]string, exists func(string) bool) []problem {
	var problems []problem
	for page, text := range pages {
		for _, l := range prose(text) {
			for _, m := range link.FindAllStringSubmatch(l.Text, -1) {
				if what := brokenLink(pages, exists, page, m[1]); what != "" {
					problems = append(problems, problem{page, l.Number, what})
				}
			}
		}
	}
	return sorted(problems)
}

func brokenLink(pages map[string]string, exists func(string) bool, page, target string) string {
	if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
		return ""
	}
	name, anchor, hasAnchor := strings.Cut(target, "#")
	to := page
	if name != "" {
		to = path.Join(path.Dir(page), name)
	}
	if !exists(to) {
		return fmt.Sprintf("links to %s, and there is no %s", target, to)
	}
	if text, ok := pages[to]; ok && hasAnchor && !headings(text)[anchor] {
		return fmt.Sprintf("links to %s, and %s has no such heading", target, to)
	}
	return ""
}

// checkIndex wants every page to be linked from the index.
func checkIndex(index string, pages map[string]string) []problem {
	linked := map[string]bool{index: true}
	for _, m := range link.FindAllStringSubmatch(pages[index], -1) {
		name, _, _ := strings.Cut(m[1], "#")
		linked[path.Join(path.Dir(index), name)] = true
	}
	var problems []problem
	for page := range pages {
		if !linked[page] {
			problems = append(problems, problem{page, 0, "nobody finds this page: link it from " + index})
		}
	}
	return sorted(problems)
}

var (
	metricInCode = regexp.MustCompile(`Name:\s*"(lamplighter_[a-z_]+)"`)
	metricInDocs = regexp.MustCompile("`(lamplighter_[a-z_]+)`")
)

// checkMetrics wants the metrics of the code and of the page to be the same.
func checkMetrics(code []file, page file) []problem {
	var problems []problem
	inCode := make(map[string]bool)
	for _, f := range code {
		for i, l := range strings.Split(f.Text, "\n") {
			for _, m := range metricInCode.FindAllStringSubmatch(l, -1) {
				inCode[m[1]] = true
				if !strings.Contains(page.Text, "`"+m[1]+"`") {
					problems = append(problems, problem{f.Path, i + 1, fmt.Sprintf("%s is not described in %s", m[1], page.Path)})
				}
			}
		}
	}
	for i, l := range strings.Split(page.Text, "\n") {
		for _, m := range metricInDocs.FindAllStringSubmatch(l, -1) {
			if !inCode[m[1]] {
				problems = append(problems, problem{page.Path, i + 1, fmt.Sprintf("there is no metric %s any more", m[1])})
			}
		}
	}
	return problems
}

// fieldInCode finds the fields that a reader of policy kinds asks for.
var fieldInCode = regexp.MustCompile(`(?:\.(?:text|number|duration|flag|instant|list|object|objects|references)\(|(?:oneOf|readSelector)\(\w+(?:\.\w+)?, )"([A-Za-z]+)"`)

// checkFields wants the page to describe each field of the policy kinds.
func checkFields(code []file, page file) []problem {
	var problems []problem
	for _, f := range code {
		for i, l := range strings.Split(f.Text, "\n") {
			for _, m := range fieldInCode.FindAllStringSubmatch(l, -1) {
				if !strings.Contains(page.Text, "`"+m[1]+"`") {
					problems = append(problems, problem{f.Path, i + 1, fmt.Sprintf("the field %s is not described in %s", m[1], page.Path)})
				}
			}
		}
	}
	return problems
}

// line is one line of a page.
type line struct {
	Number int
	Text   string
}

// prose is the lines of a page outside its code blocks.
func prose(text string) []line {
	var lines []line
	fenced := false
	for i, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			lines = append(lines, line{i + 1, l})
		}
	}
	return lines
}

// headings are the anchors that a page's headings get.
func headings(text string) map[string]bool {
	anchors := make(map[string]bool)
	for _, l := range prose(text) {
		if strings.HasPrefix(l.Text, "#") {
			anchors[anchor(strings.TrimLeft(l.Text, "# "))] = true
		}
	}
	return anchors
}

func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
