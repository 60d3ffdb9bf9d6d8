// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/install"
	"lamplighter.dev/inventory"
	"lamplighter.dev/render/gitsource"
)

func newInstallCommand(g *globals) *cobra.Command {
	var (
		f treeFlags
		o install.Options
	)
	cmd := &cobra.Command{
		Use:   "install [DIR] --git URL --image IMAGE",
		Short: "Print the manifests of an agent, with the least rights that a working tree takes",
		Long: `Print what an agent needs in its cluster: its namespace, account, rights and
Deployment. The rights are those that the working tree takes: to apply and prune the
kinds it holds, to write the roles it holds, by name, and to cordon nodes or run Jobs
only if a policy does. Nothing is created, and no cluster is asked. Print it again
when a commit brings a new kind, and apply it before that commit.

Parts that not everybody wants are added by --with: git-auth (the Secret NAME-git),
webhook (the Secret NAME-webhook), verify (the ConfigMap NAME-keys) and decryption
(the Secret sops-keys). Each has to be there before the agent starts.`,
		Example: `  lamplighter install . --path clusters/prod --git https://git.example.com/platform/fleet.git --image registry.example.com/lamplighter:v0.1.0 | kubectl apply -f -
  lamplighter install . --path clusters/prod --git ssh://git@git.example.com/platform/fleet.git --image registry.example.com/lamplighter:v0.1.0 --with git-auth,verify`,
		Args:              maxOneDir,
		ValidArgsFunction: completeDir,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.Git == "":
				return usage(cmd, "--git is missing: name the repository that the agent follows")
			case o.Image == "":
				return usage(cmd, "--image is missing: name the agent's image, as it was pushed")
			}
			if err := checkRemote(o); err != nil {
				return err
			}
			o.Path, o.Instance = f.path, inventory.Instance{Namespace: g.namespace, Name: g.name}
			return printManifests(cmd.Context(), g, f, dirArg(args), o)
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&o.Git, "git", "", "the agent's --git (required)")
	cmd.Flags().StringVar(&o.Ref, "ref", "main", "the agent's --ref")
	cmd.Flags().StringVar(&o.Image, "image", "", "the agent's image, with a tag or a digest (required)")
	cmd.Flags().StringSliceVar(&o.Components, "with", nil, "parts that not everybody wants: "+strings.Join(install.Components(), ", "))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("with", cobra.FixedCompletions(install.Components(), cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// checkRemote says what is wrong with the repository that the agent is to follow.
// Credentials are in a folder of its pod, for which the one here stands.
func checkRemote(o install.Options) error {
	remote := gitsource.Options{URL: o.Git, Ref: o.Ref}
	if slices.Contains(o.Components, "git-auth") {
		remote.Auth = "."
	}
	_, err := gitsource.New(remote)
	if err != nil && remote.Auth == "" && strings.HasPrefix(o.Git, "ssh:") {
		return hint(err, "--with git-auth mounts the Secret that has them")
	}
	return err
}

func printManifests(ctx context.Context, g *globals, f treeFlags, dir string, o install.Options) error {
	fleet, err := f.readFleet(ctx, g, dir)
	if err != nil {
		return err
	}
	objects, err := install.Manifests(ctx, o, fleet)
	if err != nil {
		return err
	}
	for _, kind := range install.Guessed(fleet.Objects) {
		fmt.Fprintf(g.streams.Err, "warning: %s: where the API server has this kind is guessed: compare kubectl api-resources\n", kind)
	}
	return printObjects(g.streams.Out, g.output, objects)
}
