// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/agent"
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

// treeFlags say what to render of a working tree, and with which keys.
type treeFlags struct {
	path           string
	decryptionKeys string
}

const decryptionKeysUsage = "file with the age identities or OpenPGP secret keys that open what SOPS has encrypted, or folder with such files, *.agekey and *.asc"

func (f *treeFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.path, "path", ".", "kustomize root inside the working tree")
	cmd.Flags().StringVar(&f.decryptionKeys, "decryption-keys", "", decryptionKeysUsage)
}

// reader reads fleets with the keys that the flags name.
func (f *treeFlags) reader() (*reconcile.Reader, error) {
	r := new(reconcile.Reader)
	if f.decryptionKeys == "" {
		return r, nil
	}
	keys, err := agent.DecryptionKeys(f.decryptionKeys)
	if err != nil {
		return nil, err
	}
	r.Builder.Decryptor = keys
	return r, nil
}

// readFleet renders and reads the kustomize root in dir, and prints its
// warnings.
func (f *treeFlags) readFleet(ctx context.Context, g *globals, dir string) (_ *reconcile.Fleet, err error) {
	reader, err := f.reader()
	if err != nil {
		return nil, err
	}
	tree, closeTree, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := closeTree(); err == nil {
			err = closeErr
		}
	}()
	fleet, err := reader.Read(ctx, tree, f.path, reconcile.Commit{}, now())
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
		f        treeFlags
		policies bool
	)
	cmd := &cobra.Command{
		Use:   "render [DIR]",
		Short: "Print the objects a working tree renders to, in apply order",
		Long: `Print the objects a working tree renders to, in the order in which an empty
cluster would receive them. Only files inside the working tree are read, and no
cluster is asked. Text is YAML, ready for kubectl: the values of Secrets are in
it, in plain text if --decryption-keys opens them, else as SOPS has encrypted them.`,
		Example: `  lamplighter render . --path clusters/prod
  lamplighter render . --path clusters/prod --policies`,
		Args:              maxOneDir,
		ValidArgsFunction: completeDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			objects, err := f.renderObjects(cmd.Context(), dirArg(args), policies)
			if err != nil {
				return err
			}
			if n := encrypted(objects); n > 0 {
				fmt.Fprintf(g.streams.Err, "warning: %s encrypted by SOPS, and nobody applies that: give the keys with --decryption-keys\n", objectsAre(n))
			}
			return printObjects(g.streams.Out, g.output, objects)
		},
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&policies, "policies", false, "print the policy kinds instead of the objects")
	return cmd
}

// encrypted counts what nobody would apply as it is.
func encrypted(objects []*unstructured.Unstructured) (n int) {
	for _, o := range objects {
		if slices.ContainsFunc(inventory.Defects(o), func(d inventory.Defect) bool { return d.Encrypted }) {
			n++
		}
	}
	return n
}

func objectsAre(n int) string {
	if n == 1 {
		return "1 object is"
	}
	return fmt.Sprintf("%d objects are", n)
}

func (f *treeFlags) renderObjects(ctx context.Context, dir string, policies bool) (_ []*unstructured.Unstructured, err error) {
	reader, err := f.reader()
	if err != nil {
		return nil, err
	}
	tree, closeTree, err := openTree(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := closeTree(); err == nil {
			err = closeErr
		}
	}()
	out, err := reader.Builder.Build(ctx, tree, f.path)
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
