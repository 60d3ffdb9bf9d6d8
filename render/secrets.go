// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"strings"
)

// keepSecret remembers values that no error may show.
func (g *graph) keepSecret(literals []string) error {
	for i, l := range literals {
		key, value, ok := strings.Cut(l, "=")
		if !ok || key == "" {
			return fmt.Errorf("entry %d is not key=value", i)
		}
		g.secrets = append(g.secrets, strings.Trim(value, `"'`))
	}
	return nil
}

// redact hides the values of secrets that found their way into text.
func (g *graph) redact(text string) string {
	for _, s := range g.secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	return text
}
