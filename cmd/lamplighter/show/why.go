// SPDX-License-Identifier: Apache-2.0

package show

import (
	"fmt"
	"io"
	"strings"

	"lamplighter.dev/reconcile/why"
)

// Why is why a node or a DaemonSet is as it is.
type Why struct {
	Chains []WhyChain `json:"chains"`
}

// WhyChain is the way from the commit to the pod, for one policy.
type WhyChain struct {
	Node      string    `json:"node,omitempty"`
	Policy    string    `json:"policy,omitempty"`
	DaemonSet string    `json:"daemonSet,omitempty"`
	Decision  string    `json:"decision"`
	Links     []WhyLink `json:"links"`
	Next      string    `json:"next,omitempty"` // when it is looked at again if nothing moves before
}

// WhyLink is one fact on that way.
type WhyLink struct {
	Name    string `json:"name"`
	Mark    string `json:"mark"` // ok, wait, stop or note
	Text    string `json:"text"`
	Until   string `json:"until,omitempty"`
	Look    string `json:"look,omitempty"`    // a command that shows more
	Decides bool   `json:"decides,omitempty"` // it holds up what is next
}

// NewWhy makes the answer of chains.
func NewWhy(chains []why.Chain) Why {
	out := Why{Chains: []WhyChain{}}
	for _, c := range chains {
		chain := WhyChain{Node: c.Node, Policy: c.Policy, Decision: c.Decision, Links: []WhyLink{}}
		if c.DaemonSet.Name != "" {
			chain.DaemonSet = c.DaemonSet.String()
		}
		if !c.Next.IsZero() {
			chain.Next = Time(c.Next)
		}
		for i, l := range c.Links {
			link := WhyLink{Name: l.Name, Mark: string(l.Mark), Text: l.Text, Look: l.Look, Decides: i == c.Decides}
			if !l.Until.IsZero() {
				link.Until = Time(l.Until)
			}
			chain.Links = append(chain.Links, link)
		}
		out.Chains = append(out.Chains, chain)
	}
	return out
}

// WriteWhy writes chains, a line for each link; ">" is before the one that
// decides.
func WriteWhy(w io.Writer, answer Why, opts Options) error {
	var b strings.Builder
	for i, c := range answer.Chains {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintln(&b, c.headline())
		width := 0
		for _, l := range c.Links {
			width = max(width, len(l.Name))
		}
		for _, l := range c.Links {
			l.write(&b, width, opts)
		}
		fmt.Fprintf(&b, "  looked at again: %s\n", whenever(c.Next))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c WhyChain) headline() string {
	var about []string
	if c.Node != "" {
		about = append(about, "node "+c.Node)
	} else {
		about = append(about, "DaemonSet "+c.DaemonSet)
	}
	if c.Policy != "" {
		about = append(about, "policy "+c.Policy)
	}
	return line(strings.Join(about, ", "), c.Decision, "", "")
}

func (l WhyLink) write(b *strings.Builder, width int, opts Options) {
	pointer, color, end := " ", "", ""
	if l.Decides {
		pointer = ">"
		if opts.Color {
			color, end = red, reset
		}
	}
	text := l.Text
	if l.Until != "" {
		text += ", until " + l.Until
	}
	fmt.Fprintf(b, "%s%s %-4s  %-*s  %s%s\n", color, pointer, l.Mark, width, l.Name, text, end)
	if l.Look != "" {
		fmt.Fprintf(b, "%*s  look: %s\n", width+8, "", l.Look)
	}
}

func whenever(next string) string {
	if next == "" {
		return "when something changes"
	}
	return "when something changes, and at " + next
}
