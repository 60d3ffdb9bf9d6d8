// SPDX-License-Identifier: Apache-2.0

// Package snapshot is what the planner saw of a cluster, as a file: enough to
// plan a commit where no cluster can be reached, and nothing that is secret. It
// holds names, labels, states and digests; no Secret, no value of an environment
// variable, no annotation but those that are acted on.
//
//	data, err := snapshot.Encode(snapshot.New(obs, objects, now))
//	s, err := snapshot.Decode(data)
//	obs, unknown := s.Observe(fleet)
package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// The type of the file.
const (
	APIVersion = policy.APIVersion
	Kind       = "Snapshot"
)

// A Snapshot is a cluster at one instant, as one instance sees it. Lists are
// sorted, so that equal clusters are equal bytes.
type Snapshot struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Taken      time.Time `json:"taken"`
	Instance   Instance  `json:"instance"`

	Record  reconcile.Record `json:"record"`
	Ledger  rollout.Ledger   `json:"ledger"`
	Objects []Object         `json:"objects"` // that the instance owns

	Nodes      []Node      `json:"nodes"`
	DaemonSets []DaemonSet `json:"daemonSets"` // all of the cluster
	Pods       []Pod       `json:"pods"`       // of DaemonSets
	References [][]string  `json:"references"` // sets of objects that pods name
}

// Instance is whose view it is.
type Instance struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Object is one that the instance owns.
type Object struct {
	Object      string            `json:"object"`
	UID         types.UID         `json:"uid,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"` // those that are acted on
	Gone        bool              `json:"gone,omitempty"`
	Deleting    bool              `json:"deleting,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty"`
	Foreign     []string          `json:"foreign,omitempty"`
	Defines     string            `json:"defines,omitempty"` // Kind.group, of a CustomResourceDefinition
	Error       string            `json:"error,omitempty"`   // why it could not be looked at
	// Applied is a digest of the fields that were applied, with the values that
	// they have; empty when it is not known. Template is one of a DaemonSet's pod
	// template alone.
	Applied  string `json:"applied,omitempty"`
	Template string `json:"template,omitempty"`
}

// Node is a node.
type Node struct {
	Name           string            `json:"name"`
	Labels         map[string]string `json:"labels,omitempty"`
	Taints         []Taint           `json:"taints,omitempty"`
	Ready          bool              `json:"ready"`
	Since          time.Time         `json:"since,omitzero"`
	NotReadyReason string            `json:"notReadyReason,omitempty"`
	Unschedulable  bool              `json:"unschedulable,omitempty"`
	Deleting       bool              `json:"deleting,omitempty"`
	Hold           string            `json:"hold,omitempty"`
	Maintenance    string            `json:"maintenance,omitempty"`
	AtWork         bool              `json:"atWork,omitempty"`
	CordonedBy     string            `json:"cordonedBy,omitempty"`
	CordonTakenBy  string            `json:"cordonTakenBy,omitempty"`
	Conditions     map[string]string `json:"conditions,omitempty"` // status by type, of those that gates ask for
	Created        time.Time         `json:"created,omitzero"`
}

// Taint is a node's taint.
type Taint struct {
	Key    string             `json:"key"`
	Value  string             `json:"value,omitempty"`
	Effect corev1.TaintEffect `json:"effect"`
}

// DaemonSet is a DaemonSet, with what its template says of where pods belong.
type DaemonSet struct {
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
	Created    time.Time `json:"created,omitzero"`
	Generation int64     `json:"generation,omitempty"`
	// TemplateGeneration counts the templates that it has had.
	TemplateGeneration int64    `json:"templateGeneration,omitempty"`
	Revision           string   `json:"revision,omitempty"`
	RevisionObserved   bool     `json:"revisionObserved"`
	OnDelete           bool     `json:"onDelete"`
	Hold               string   `json:"hold,omitempty"`
	MinReadySeconds    int32    `json:"minReadySeconds,omitempty"`
	Deleting           bool     `json:"deleting,omitempty"`
	Locks              []string `json:"locks,omitempty"`
	// LockEnds says when the locks of nodes end by themselves, of those that do.
	LockEnds map[string]time.Time `json:"lockEnds,omitempty"`

	NodeName     string               `json:"nodeName,omitempty"`
	NodeSelector map[string]string    `json:"nodeSelector,omitempty"`
	Affinity     *corev1.NodeAffinity `json:"nodeAffinity,omitempty"`
	Tolerations  []corev1.Toleration  `json:"tolerations,omitempty"`
	HostNetwork  bool                 `json:"hostNetwork,omitempty"`
	References   []string             `json:"references,omitempty"` // objects that the template names

	Revisions []Revision `json:"revisions,omitempty"` // those that the API server keeps
}

// Revision is one of a DaemonSet.
type Revision struct {
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	Owner      types.UID `json:"owner"`
	Hash       string    `json:"hash"`
	Number     int64     `json:"number"`
	Deleting   bool      `json:"deleting,omitempty"`
	References []string  `json:"references,omitempty"` // objects that its template names
}

// Pod is a pod of a DaemonSet.
type Pod struct {
	Namespace          string          `json:"namespace"`
	Name               string          `json:"name"`
	UID                types.UID       `json:"uid"`
	Node               string          `json:"node,omitempty"`
	Owner              types.UID       `json:"owner,omitempty"`
	Hash               string          `json:"hash,omitempty"`
	TemplateGeneration int64           `json:"templateGeneration,omitempty"`
	Phase              corev1.PodPhase `json:"phase,omitempty"`
	Created            time.Time       `json:"created,omitzero"`
	Ready              bool            `json:"ready"`
	ReadySince         time.Time       `json:"readySince,omitzero"`
	UnreadySince       time.Time       `json:"unreadySince,omitzero"`
	Deleting           bool            `json:"deleting,omitempty"`
	DeletionDeadline   time.Time       `json:"deletionDeadline,omitzero"`
	Finalizers         []string        `json:"finalizers,omitempty"`
	GraceSeconds       int64           `json:"graceSeconds,omitempty"`
	Problem            string          `json:"problem,omitempty"`
	ProblemMessage     string          `json:"problemMessage,omitempty"`
	Disruption         string          `json:"disruption,omitempty"`
	References         int             `json:"references"` // its place in the snapshot's references; -1 for none
}

// Encode writes a snapshot as JSON that people can read. Equal snapshots are
// equal bytes.
func Encode(s Snapshot) ([]byte, error) {
	s.APIVersion, s.Kind = APIVersion, Kind
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Decode reads what Encode wrote. Its error is one line.
func Decode(data []byte) (Snapshot, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := decodeOne(data, &head); err != nil {
		return Snapshot{}, fmt.Errorf("is not a snapshot: %w", err)
	}
	if head.Kind != Kind {
		return Snapshot{}, fmt.Errorf("is not a snapshot: its kind is %.80q, not %s", head.Kind, Kind)
	}
	if head.APIVersion != APIVersion {
		return Snapshot{}, fmt.Errorf("is of version %.80q, and this lamplighter reads %s: take it anew", head.APIVersion, APIVersion)
	}
	var s Snapshot
	if err := decodeOne(data, &s); err != nil {
		return Snapshot{}, fmt.Errorf("cannot be read: %w", err)
	}
	if err := s.validate(); err != nil {
		return Snapshot{}, fmt.Errorf("cannot be read: %w", err)
	}
	return s, nil
}

// decodeOne reads one JSON value, and nothing may follow.
func decodeOne(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("it is empty")
		}
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its end")
	}
	return nil
}

// validate checks what planning relies on.
func (s Snapshot) validate() error {
	if s.Taken.IsZero() || s.Instance.Name == "" || s.Instance.Namespace == "" {
		return errors.New("it does not say when it was taken, or of which instance")
	}
	seen := map[string]bool{}
	once := func(kind, name string) error {
		if name == "" || seen[kind+" "+name] {
			return fmt.Errorf("%s %.80q: want each once, with its name", kind, name)
		}
		seen[kind+" "+name] = true
		return nil
	}
	for _, o := range s.Objects {
		if _, err := inventory.ParseFormat(o.Object); err != nil {
			return err
		}
		if err := once("object", o.Object); err != nil {
			return err
		}
	}
	for _, n := range s.Nodes {
		if err := once("node", n.Name); err != nil {
			return err
		}
	}
	for _, d := range s.DaemonSets {
		if err := once("DaemonSet", string(d.UID)); err != nil {
			return err
		}
		if _, err := parseAll(d.References); err != nil {
			return err
		}
		for _, r := range d.Revisions {
			if _, err := parseAll(r.References); err != nil {
				return err
			}
		}
	}
	for _, set := range s.References {
		if _, err := parseAll(set); err != nil {
			return err
		}
	}
	for _, p := range s.Pods {
		if err := once("pod", string(p.UID)); err != nil {
			return err
		}
		if p.References < -1 || p.References >= len(s.References) {
			return fmt.Errorf("pod %.80q: its references are not there", p.Name)
		}
	}
	return nil
}

func parseAll(formatted []string) ([]inventory.ID, error) {
	var ids []inventory.ID
	for _, f := range formatted {
		id, err := inventory.ParseFormat(f)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func formatAll(ids []inventory.ID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, inventory.Format(id))
	}
	return out
}
