// SPDX-License-Identifier: Apache-2.0

// Package install answers what an agent needs in its cluster: the manifests of
// examples/install, made to fit one instance and the least rights that its fleet
// takes. It asks no cluster.
//
//	objects, err := install.Manifests(ctx, install.Options{Instance: us, Image: image, Git: url, Ref: "main", Path: path}, fleet)
package install

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	manifests "lamplighter.dev/examples/install"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/render"
)

// Options say what is installed.
type Options struct {
	// Instance is the agent's. Two of one cluster differ in name or namespace.
	Instance inventory.Instance
	// Image is the agent's image, with a tag or a digest.
	Image string
	// Git, Ref and Path are the agent's flags of these names.
	Git, Ref, Path string
	// Components are those of Components that are wanted.
	Components []string
}

// Components are the parts that not everybody wants, sorted. Each needs a Secret
// or a ConfigMap before the agent can start.
func Components() []string { return []string{"decryption", "git-auth", "verify", "webhook"} }

// Manifests are the objects to create, in the order in which they can be. Their
// rights are those that the fleet takes: its kinds, its roles by name, and those
// of drains and Jobs only if a policy has any.
func Manifests(ctx context.Context, o Options, fleet *reconcile.Fleet) ([]*unstructured.Unstructured, error) {
	for _, c := range o.Components {
		if !slices.Contains(Components(), c) {
			return nil, fmt.Errorf("component %q: use %s", c, strings.Join(Components(), ", "))
		}
	}
	tree, err := overlay(o, fleet.Policies)
	if err != nil {
		return nil, err
	}
	built, err := render.Build(ctx, tree, ".")
	if err != nil {
		return nil, err
	}
	objects, err := fleetRights(o.Instance.Namespace, fleet.Objects)
	if err != nil {
		return nil, err
	}
	for _, b := range built.Objects {
		objects = append(objects, b.Unstructured)
	}
	for _, obj := range objects {
		o.fit(obj)
	}
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(inventory.Format(inventory.IDOf(a)), inventory.Format(inventory.IDOf(b))))
	})
	return objects, nil
}

// rank is which objects others need: their namespace first, the agent last.
func rank(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "Namespace":
		return 0
	case "Deployment":
		return 2
	}
	return 1
}

// kustomization is what of examples/install one instance takes.
type kustomization struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Namespace  string   `json:"namespace"`
	Labels     []labels `json:"labels"`
	Resources  []string `json:"resources"`
	Components []string `json:"components,omitempty"`
}

type labels struct {
	Pairs map[string]string `json:"pairs"`
}

// overlay is examples/install with a kustomization of this instance.
func overlay(o Options, policies policy.Set) (fs.FS, error) {
	k := kustomization{
		APIVersion: "kustomize.config.k8s.io/v1beta1", Kind: "Kustomization", Namespace: o.Instance.Namespace,
		Labels:     []labels{{Pairs: nameLabel}},
		Resources:  []string{"namespace.yaml", "rbac.yaml", "deployment.yaml", "poddisruptionbudget.yaml"},
		Components: o.Components,
	}
	if slices.ContainsFunc(policies.Upgrades, func(p policy.UpgradePolicy) bool { return p.Drain != nil }) {
		k.Resources = append(k.Resources, "drain-rbac.yaml")
	}
	if slices.ContainsFunc(policies.Upgrades, runsJobs) {
		k.Resources = append(k.Resources, "jobs-rbac.yaml")
	}
	data, err := yaml.Marshal(k)
	if err != nil {
		return nil, err
	}
	files := []txtar.File{{Name: "kustomization.yaml", Data: data}}
	err = fs.WalkDir(manifests.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == "kustomization.yaml" {
			return err
		}
		data, err := manifests.Files.ReadFile(name)
		files = append(files, txtar.File{Name: name, Data: data})
		return err
	})
	if err != nil {
		return nil, err
	}
	return txtar.FS(&txtar.Archive{Files: files})
}

func runsJobs(p policy.UpgradePolicy) bool {
	gates := slices.Clone(p.Gates)
	for _, w := range p.Waves {
		gates = append(gates, w.Gates...)
	}
	return slices.ContainsFunc(gates, func(g policy.Gate) bool { return g.Job != policy.JobGate{} })
}
