// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/render"
)

// openTree opens the working tree so that nothing outside it can be read.
func openTree(dir string) (fs.FS, func() error, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		if cause, ok := errors.AsType[*fs.PathError](err); ok {
			err = cause.Err
		}
		return nil, nil, fmt.Errorf("working tree %s: %w", dir, err)
	}
	return root.FS(), root.Close, nil
}

// readFleet renders and reads the kustomize root at path in dir, and prints
// its warnings.
func readFleet(ctx context.Context, g *globals, dir, path string) (_ *reconcile.Fleet, err error) {
	tree, closeTree, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := closeTree(); err == nil {
			err = closeErr
		}
	}()
	fleet, err := reconcile.Read(ctx, tree, path, reconcile.Commit{}, now())
	if err != nil {
		return nil, err
	}
	for _, w := range fleet.Warnings {
		fmt.Fprintf(g.streams.Err, "warning: %s\n", w)
	}
	return fleet, nil
}

func newRenderCommand(g *globals) *cobra.Command {
	var (
		path     string
		policies bool
	)
	cmd := &cobra.Command{
		Use:   "render [DIR]",
		Short: "Print the objects a working tree renders to, in apply order",
		Long: `Print the objects a working tree renders to, in the order in which an empty
cluster would receive them. Only files inside the working tree are read, and no
cluster is asked. Text is YAML, ready for kubectl.`,
		Example: `  lamplighter render . --path clusters/prod
  lamplighter render . --path clusters/prod --policies`,
		Args:              maxOneDir,
		ValidArgsFunction: completeDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			objects, err := renderObjects(cmd.Context(), dirArg(args), path, policies)
			if err != nil {
				return err
			}
			return printObjects(g.streams.Out, g.output, objects)
		},
	}
	cmd.Flags().StringVar(&path, "path", ".", "kustomize root inside the working tree")
	cmd.Flags().BoolVar(&policies, "policies", false, "print the policy kinds instead of the objects")
	return cmd
}

func renderObjects(ctx context.Context, dir, path string, policies bool) (_ []*unstructured.Unstructured, err error) {
	tree, closeTree, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := closeTree(); err == nil {
			err = closeErr
		}
	}()
	out, err := render.Build(ctx, tree, path)
	if err != nil {
		return nil, err
	}
	if policies {
		return unwrap(out.Policies), nil
	}
	return inApplyOrder(unwrap(out.Objects))
}

// inApplyOrder sorts objects as an empty cluster would receive them.
func inApplyOrder(objects []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var in inventory.Input
	for _, o := range objects {
		in.Changes = append(in.Changes, inventory.Change{ID: inventory.IDOf(o), Kind: inventory.Create, Object: o})
	}
	plan, err := inventory.New(in)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, step := range plan.Steps {
		for _, d := range step {
			if d.Action != inventory.Apply {
				return nil, fmt.Errorf("%s: %s: %s", inventory.Format(d.ID), d.Reason, d.Message)
			}
			out = append(out, d.Object)
		}
	}
	return out, nil
}

func unwrap(objects []render.Object) []*unstructured.Unstructured {
	out := make([]*unstructured.Unstructured, 0, len(objects))
	for _, o := range objects {
		out = append(out, o.Unstructured)
	}
	return out
}

// printObjects writes YAML documents, which is the text that people write, or a
// JSON list as kubectl has it.
func printObjects(w io.Writer, format string, objects []*unstructured.Unstructured) error {
	if format == formatJSON {
		items := make([]any, 0, len(objects))
		for _, o := range objects {
			items = append(items, o.Object)
		}
		return show.JSON(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
	}
	for i, o := range objects {
		data, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("%s: %w", inventory.Format(inventory.IDOf(o)), err)
		}
		if i > 0 {
			fmt.Fprintln(w, "---")
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return nil
}
