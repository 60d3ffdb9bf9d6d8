// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Gate is something that has to be so before a visit starts or, with a Job, ends.
// It has exactly one of NodeCondition, HTTP, Prometheus and Job; the others are
// zero. Gates can be compared.
type Gate struct {
	// Name is unique among the gates of a policy.
	Name          string
	NodeCondition NodeCondition
	HTTP          HTTPGate
	Prometheus    PrometheusGate
	Job           JobGate
}

// NodeCondition is a condition of the node that is to be visited.
type NodeCondition struct {
	Type   string
	Status string // True, False or Unknown
}

// HTTPGate is an address that has to answer a GET with a status.
type HTTPGate struct {
	URL            string
	ExpectedStatus int
}

// PrometheusGate is a query of which every value has to compare.
type PrometheusGate struct {
	URL        string // of the server; the API's path is added
	Query      string
	Comparison Comparison
}

// Comparison is with a number, such as "< 0.01". The zero Comparison holds of
// nothing.
type Comparison struct {
	Operator  string // one of < <= > >= == !=
	Threshold float64
}

func (c Comparison) String() string {
	return c.Operator + " " + strconv.FormatFloat(c.Threshold, 'g', -1, 64)
}

// Holds says that a value compares. What is not a number never does.
func (c Comparison) Holds(value float64) bool {
	switch {
	case math.IsNaN(value):
		return false
	case c.Operator == "<":
		return value < c.Threshold
	case c.Operator == "<=":
		return value <= c.Threshold
	case c.Operator == ">":
		return value > c.Threshold
	case c.Operator == ">=":
		return value >= c.Threshold
	case c.Operator == "==":
		return value == c.Threshold
	case c.Operator == "!=":
		return value != c.Threshold
	}
	return false
}

// ParseComparison reads an operator and a number.
func ParseComparison(text string) (Comparison, error) {
	rest := strings.TrimLeft(strings.TrimSpace(text), "<>=!")
	c := Comparison{Operator: strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), rest))}
	switch c.Operator {
	case "<", "<=", ">", ">=", "==", "!=":
	default:
		return Comparison{}, fmt.Errorf("%q is not a comparison: write <, <=, >, >=, == or != and a number, such as \"< 0.01\"", shorten(text))
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return Comparison{}, fmt.Errorf("%q does not compare with a number: write one after the %s, such as \"< 0.01\"", shorten(text), c.Operator)
	}
	c.Threshold = n
	return c, nil
}

// GatesOf are the gates that a visit in a wave waits for: the policy's, then the
// wave's own. The place is that of WaveOf.
func (p UpgradePolicy) GatesOf(wave int) []Gate {
	if wave < 0 || wave >= len(p.Waves) || len(p.Waves[wave].Gates) == 0 {
		return p.Gates
	}
	return append(p.Gates[:len(p.Gates):len(p.Gates)], p.Waves[wave].Gates...)
}

// AllGates are the gates of a policy and of all its waves.
func (p UpgradePolicy) AllGates() []Gate {
	all := p.Gates[:len(p.Gates):len(p.Gates)]
	for _, w := range p.Waves {
		all = append(all, w.Gates...)
	}
	return all
}

// gateReader reads the gates of one policy, in which each has a name of its own.
type gateReader struct{ paths map[string]string }

func (r *gateReader) read(parent *fields) []Gate {
	if empty, isList := parent.values["gates"].([]any); isList && len(empty) == 0 {
		parent.errorf("gates", "has no gate: drop it to wait for none")
	}
	var gates []Gate
	for _, f := range parent.objects("gates") {
		g := Gate{Name: f.text("name")}
		r.checkName(f, g.Name)
		kinds := 0
		for _, kind := range []string{"nodeCondition", "http", "prometheus", "job"} {
			if f.has(kind) {
				kinds++
			}
		}
		g.NodeCondition = readNodeCondition(f.object("nodeCondition"))
		g.HTTP = readHTTPGate(f.object("http"))
		g.Prometheus = readPrometheusGate(f.object("prometheus"))
		g.Job = readJobGate(f.object("job"))
		f.done()
		if kinds != 1 {
			f.subject.errorf(f.path, "has %d of nodeCondition, http, prometheus and job: write exactly one", kinds)
			continue
		}
		gates = append(gates, g)
	}
	return gates
}

func (r *gateReader) checkName(f *fields, name string) {
	if r.paths == nil {
		r.paths = map[string]string{}
	}
	switch other, taken := r.paths[name]; {
	case f.blank("name"):
		f.errorf("name", "is required: it says in status which gate is shut")
	case name == "": // not text: said already
	case len(validation.IsDNS1123Label(name)) > 0:
		f.errorf("name", "%q is not a name: lower case letters, digits and - only, at most %d", shorten(name), validation.DNS1123LabelMaxLength)
	case taken:
		f.errorf("name", "%q is taken by %s: rename one of them", name, other)
	default:
		r.paths[name] = f.path
	}
}

func readNodeCondition(f *fields) NodeCondition {
	if f == nil {
		return NodeCondition{}
	}
	c := NodeCondition{Type: f.text("type"), Status: oneOf(f, "status", "True", "False", "Unknown")}
	if f.blank("type") {
		f.errorf("type", "is required: a condition in the status of nodes")
	}
	f.done()
	return c
}

func readHTTPGate(f *fields) HTTPGate {
	if f == nil {
		return HTTPGate{}
	}
	g := HTTPGate{
		URL:            readURL(f),
		ExpectedStatus: int(f.number("expectedStatus", 200, limits{200, 599})),
	}
	f.done()
	return g
}

func readPrometheusGate(f *fields) PrometheusGate {
	if f == nil {
		return PrometheusGate{}
	}
	g := PrometheusGate{URL: readURL(f), Query: f.text("query")}
	if u, err := url.Parse(g.URL); err == nil && u.RawQuery != "" {
		f.errorf("url", "has a query: write only where the server is, and what to ask in query")
	}
	if f.blank("query") {
		f.errorf("query", "is required: a PromQL expression")
	}
	comparison := f.text("comparison")
	var err error
	switch g.Comparison, err = ParseComparison(comparison); {
	case f.blank("comparison"):
		f.errorf("comparison", "is required, such as \"< 0.01\"")
	case err != nil && comparison != "":
		f.errorf("comparison", "%s", err)
	}
	f.done()
	return g
}

// readURL reads an address that may be in Git and in messages: without
// credentials.
func readURL(f *fields) string {
	text := f.text("url")
	if f.blank("url") {
		f.errorf("url", "is required: http://HOST or https://HOST")
		return ""
	}
	u, err := url.Parse(text)
	switch {
	case text == "": // not text: said already
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Hostname() == "":
		f.errorf("url", "is not the address of a server: write http://HOST or https://HOST, with a port and path if need be")
	case u.User != nil:
		f.errorf("url", "holds credentials, which everybody who reads the repository would know: leave them out")
	case u.Fragment != "":
		f.errorf("url", "has a fragment, which is never sent: leave out # and what follows")
	}
	return text
}
