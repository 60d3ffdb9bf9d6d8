// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// Group of the policy kinds.
	Group = "lamplighter.dev"
	// APIVersion of the policy kinds.
	APIVersion = Group + "/v1alpha1"
)

// The policy kinds.
const (
	KindMaintenanceWindow = "MaintenanceWindow"
	KindFreeze            = "Freeze"
	KindUpgradePolicy     = "UpgradePolicy"
)

var kinds = []string{KindMaintenanceWindow, KindFreeze, KindUpgradePolicy}

// Document is one rendered object of a policy kind. It can be kept as JSON and
// read again.
type Document struct {
	Object map[string]any `json:"object"`
	// OriginalName is the name in the file, before prefixes and suffixes.
	OriginalName string `json:"originalName,omitempty"`
	// File is relative to the root of the tree; empty when not known.
	File string `json:"file,omitempty"`
	// Line is where in File the object begins; 0 when not known. It is not kept: to
	// move an object within its file changes nothing.
	Line int `json:"-"`
	// Calendar is the text of the file that spec.calendar of a Freeze names. In
	// a Set, only what matters of it is left.
	Calendar string `json:"calendar,omitempty"`
	// CalendarFault says why that file could not be read; empty when it could.
	CalendarFault string `json:"-"`
}

// CalendarOf is the file that an object of a policy kind names in
// spec.calendar: a Freeze whose events are in a file. Empty when it names none.
func CalendarOf(object map[string]any) string {
	spec, _ := object["spec"].(map[string]any)
	name, _ := spec["calendar"].(string)
	if object["kind"] != KindFreeze {
		return ""
	}
	return name
}

// DaemonSet is what policies need to know of one DaemonSet of the fleet.
type DaemonSet struct {
	Name types.NamespacedName
	// OriginalName is the name in the file, before prefixes and suffixes.
	OriginalName string
	Labels       map[string]string
	// UpdateStrategy is spec.updateStrategy.type; empty when not set.
	UpdateStrategy string
	File           string
	Line           int // where in File it begins; 0 when not known
}

// header is what every policy kind has.
type header struct {
	kind, name string
	spec       *fields
	subject    subject
}

// readHeader checks everything outside spec. It is false if nothing more can be
// read.
func readHeader(r *report, d Document) (header, bool) {
	kind, _ := d.Object["kind"].(string)
	metadata, _ := d.Object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	h := header{kind: kind, name: name, subject: subject{report: r, file: d.File, line: d.Line, object: kindName(kind, name)}}
	top := newFields(h.subject, "", d.Object)
	if !checkType(top) {
		return h, false
	}
	readMetadata(top)
	h.spec = top.object("spec")
	top.done()
	if h.spec == nil && top.has("spec") {
		return h, false
	}
	if h.spec == nil {
		h.spec = newFields(h.subject, "spec", nil)
	}
	return h, true
}

func checkType(top *fields) bool {
	version, kind := top.text("apiVersion"), top.text("kind")
	ok := true
	if version != APIVersion {
		top.errorf("apiVersion", "is %q: write %s", version, APIVersion)
		ok = false
	}
	for _, k := range kinds {
		if kind == k {
			return ok
		}
	}
	if kind == "" {
		top.errorf("kind", "is required: %s", strings.Join(kinds, ", "))
	} else {
		top.errorf("kind", "%q is not known%s", kind, didYouMean(kind, kinds, "there are "+strings.Join(kinds, ", ")))
	}
	return false
}

// readMetadata takes what people and kustomize put there. A namespace means
// nothing: a transformer sets it on every object.
func readMetadata(top *fields) {
	m := top.object("metadata")
	if m == nil {
		m = newFields(top.subject, "metadata", nil)
	}
	name := m.text("name")
	for _, other := range []string{"namespace", "labels", "annotations", "creationTimestamp"} {
		m.take(other)
	}
	m.done()
	switch faults := validation.IsDNS1123Subdomain(name); {
	case name == "":
		m.errorf("name", "is required")
	case name == always:
		m.errorf("name", "%q means any time in a list of windows: choose another name", name)
	case len(faults) > 0:
		m.errorf("name", "%q is not a name: lower case letters, digits, - and . only", name)
	}
}

func kindName(kind, name string) string {
	if kind == "" {
		kind = "?"
	}
	if name == "" {
		name = "?"
	}
	return fmt.Sprintf("%s/%s", kind, name)
}
