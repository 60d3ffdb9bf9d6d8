// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// stamp is set by the linker to the release's version.
var stamp string

// version is the stamped release, or what the Go toolchain recorded.
func version() string {
	if stamp != "" {
		return stamp
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// dependencyVersion is the version of a module this binary was built with.
func dependencyVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, dep := range info.Deps {
		if dep.Path == path {
			return dep.Version
		}
	}
	return "unknown"
}

func newVersionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary and of what it renders with",
		Args:  cobra.NoArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			if err := g.validate("text", "json"); err != nil {
				return err
			}
			kustomize := dependencyVersion("sigs.k8s.io/kustomize/api")
			if g.output == "json" {
				return json.NewEncoder(g.streams.Out).Encode(map[string]string{
					"version": version(), "go": runtime.Version(), "kustomize": kustomize,
				})
			}
			_, err := fmt.Fprintf(g.streams.Out, "lamplighter %s (%s, kustomize %s)\n", version(), runtime.Version(), kustomize)
			return err
		},
	}
}
