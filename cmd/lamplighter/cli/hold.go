// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/policy"
)

// holdManager owns the annotation that hold sets, so that the agent, which
// applies DaemonSets under another name, leaves it alone.
const holdManager = "lamplighter-hold"

func newHoldCommand(g *globals) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "hold NODE|daemonset/NAMESPACE/NAME --reason WHY",
		Short: "Skip a node, or all nodes of a DaemonSet",
		Long: `Put the annotation lamplighter.dev/hold on a Node or a DaemonSet. A held node is not
visited and keeps no other waiting; of a held DaemonSet no node is visited. A
pod that was evicted already comes back by itself.`,
		Example: `  lamplighter hold node-004 --reason "disk is being replaced"
  lamplighter hold daemonset/kube-system/calico-node --reason "INC-42"`,
		Args:              oneHoldable,
		ValidArgsFunction: completeHoldable(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkReason(cmd, reason); err != nil {
				return err
			}
			return annotate(cmd, g, args[0], reason)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in one line (required)")
	return cmd
}

func newReleaseCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "release NODE|daemonset/NAMESPACE/NAME",
		Short: "End a hold",
		Long:  `Take the annotation lamplighter.dev/hold off a Node or a DaemonSet, whoever put it there.`,
		Example: `  lamplighter release node-004
  lamplighter release daemonset/kube-system/calico-node`,
		Args:              oneHoldable,
		ValidArgsFunction: completeHoldable(g),
		RunE: func(cmd *cobra.Command, args []string) error {
			return annotate(cmd, g, args[0], "")
		},
	}
}

// annotate holds what a reference names, or releases it when there is no reason.
func annotate(cmd *cobra.Command, g *globals, ref, reason string) error {
	target, err := newHoldable(cmd, ref)
	if err != nil {
		return err
	}
	d, err := openDesk(cmd.Context(), g)
	if err != nil {
		return err
	}
	target.client = d.client
	before, err := target.get(cmd.Context())
	if err != nil {
		return target.explain(cmd.Context(), err)
	}
	answer := show.Held{Object: target.String(), Reason: reason}
	answer.Before, answer.WasHeld = before.GetAnnotations()[health.HoldAnnotation], has(before, health.HoldAnnotation)
	if reason == "" {
		if heldInGit(before) {
			return hint(fmt.Errorf("%s is held by the fleet repository", target), "take the annotation %s off there", health.HoldAnnotation)
		}
		if !answer.WasHeld {
			return printAnswer(g, answer, show.WriteHeld)
		}
	}
	if err := target.patch(cmd.Context(), annotation(reason)); err != nil {
		return target.explain(cmd.Context(), err)
	}
	return printAnswer(g, answer, show.WriteHeld)
}

func has(o metav1.Object, annotation string) bool {
	_, ok := o.GetAnnotations()[annotation]
	return ok
}

// annotation is a patch that sets the hold, or takes it away.
func annotation(reason string) []byte {
	var value any
	if reason != "" {
		value = reason
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{health.HoldAnnotation: value}}})
	if err != nil {
		panic(err) // strings and maps always can be
	}
	return patch
}

// heldInGit says that the agent applies the annotation, and would again.
func heldInGit(o metav1.Object) bool {
	for _, m := range o.GetManagedFields() {
		if m.Manager == inventory.FieldManager && m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:`+health.HoldAnnotation+`"`)) {
			return true
		}
	}
	return false
}

// holdable is a Node, or a DaemonSet when it has a namespace.
type holdable struct {
	client kubernetes.Interface
	name   types.NamespacedName
}

// newHoldable reads NODE, node/NODE or daemonset/NAMESPACE/NAME.
func newHoldable(cmd *cobra.Command, ref string) (holdable, error) {
	about, err := parseSubject(cmd, ref)
	if err != nil {
		return holdable{}, err
	}
	if about.node != "" {
		return holdable{name: types.NamespacedName{Name: about.node}}, nil
	}
	name, err := about.fullName(cmd, ref)
	return holdable{name: name}, err
}

// fullName is that of a DaemonSet, which has to have its namespace.
func (s subject) fullName(cmd *cobra.Command, ref string) (types.NamespacedName, error) {
	if s.daemonSet.Namespace == "" {
		return types.NamespacedName{}, usage(cmd, "%q: write daemonset/NAMESPACE/NAME", ref)
	}
	return s.daemonSet, nil
}

func (h holdable) String() string {
	if h.name.Namespace == "" {
		return "node " + h.name.Name
	}
	return "daemonset " + h.name.String()
}

func (h holdable) get(ctx context.Context) (metav1.Object, error) {
	if h.name.Namespace == "" {
		return h.client.CoreV1().Nodes().Get(ctx, h.name.Name, metav1.GetOptions{})
	}
	return h.client.AppsV1().DaemonSets(h.name.Namespace).Get(ctx, h.name.Name, metav1.GetOptions{})
}

func (h holdable) patch(ctx context.Context, patch []byte) error {
	options := metav1.PatchOptions{FieldManager: holdManager}
	var err error
	if h.name.Namespace == "" {
		_, err = h.client.CoreV1().Nodes().Patch(ctx, h.name.Name, types.MergePatchType, patch, options)
	} else {
		_, err = h.client.AppsV1().DaemonSets(h.name.Namespace).Patch(ctx, h.name.Name, types.MergePatchType, patch, options)
	}
	return err
}

// explain says what may be meant when there is nothing of the name.
func (h holdable) explain(ctx context.Context, err error) error {
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s: %w", h, err)
	}
	err = fmt.Errorf("%s does not exist", h)
	others, listErr := h.others(ctx)
	near := policy.Nearest(strings.TrimPrefix(h.name.String(), "/"), others)
	switch {
	case listErr == nil && near != "":
		return hint(err, "did you mean %s?", near)
	case h.name.Namespace == "":
		return hint(err, "lamplighter status --nodes lists them; is it another --context?")
	}
	return hint(err, "lamplighter status lists those of policies; is it another --context?")
}

// others are the names of all objects of the kind.
func (h holdable) others(ctx context.Context) ([]string, error) {
	var names []string
	if h.name.Namespace == "" {
		nodes, err := h.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return nil, err
		}
		for i := range nodes.Items {
			names = append(names, nodes.Items[i].Name)
		}
		return names, nil
	}
	sets, err := h.client.AppsV1().DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	for i := range sets.Items {
		names = append(names, sets.Items[i].Namespace+"/"+sets.Items[i].Name)
	}
	return names, nil
}

func oneHoldable(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(cmd, "%s takes the name of one node or daemonset/NAMESPACE/NAME, got %d arguments", cmd.Name(), len(args))
	}
	return nil
}

// completeHoldable completes the names of nodes.
func completeHoldable(g *globals) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		d, err := openDesk(cmd.Context(), g)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		names, err := holdable{client: d.client}.others(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
