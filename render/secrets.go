// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// keepLiterals remembers the values of key=value pairs. Kustomize quotes a
// pair that it cannot split, so that is refused here.
func (g *graph) keepLiterals(literals []string) error {
	for i, l := range literals {
		key, value, ok := strings.Cut(l, "=")
		if !ok || key == "" {
			return fmt.Errorf("entry %d is not key=value", i)
		}
		g.keepSecret(strings.Trim(value, `"'`))
	}
	return nil
}

// keepSecret remembers text that no error may show.
func (g *graph) keepSecret(text string) {
	g.secrets = append(g.secrets, lines(text)...)
}

// shortest is how long a text must be to be looked for: anything shorter would be
// found in every sentence.
const shortest = 3

// lines are what to look for of a text: its lines and their values.
func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		_, value, _ := strings.Cut(line, "=")
		for _, s := range []string{line, value} {
			if len(s) >= shortest {
				out = append(out, s)
			}
		}
	}
	return out
}

// keepSecretObject remembers the values of a Secret written as a manifest.
func (g *graph) keepSecretObject(n *yaml.Node) {
	for _, field := range []string{"data", "stringData"} {
		if m := child(n, field); m != nil {
			for i := 1; i < len(m.Content); i += 2 {
				g.keepSecret(text(m.Content[i]))
			}
		}
	}
}

// redact hides secrets that found their way into text.
func (g *graph) redact(text string) string { return redact(text, g.secrets) }

// redact hides the longest first: a part of one may be a secret itself.
func redact(text string, secrets []string) string {
	longest := slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(b) - len(a) })
	for _, s := range longest {
		text = strings.ReplaceAll(text, s, "***")
	}
	return text
}

// redacted hides values that are encrypted in the tree, whoever quotes them.
func (f *filesystem) redacted(err error) error {
	if text := redact(err.Error(), f.secrets()); text != err.Error() {
		return redactedError{text, err}
	}
	return err
}

// secrets are what to look for of what was encrypted in the tree.
func (f *filesystem) secrets() []string {
	var out []string
	for _, values := range f.encrypted {
		for _, v := range values {
			out = append(out, lines(v)...)
		}
	}
	return out
}

// redactedError is an error that shows less than its cause.
type redactedError struct {
	text  string
	cause error
}

func (e redactedError) Error() string { return e.text }
func (e redactedError) Unwrap() error { return e.cause }
