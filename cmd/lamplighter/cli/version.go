// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/reconcile/agent"
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
		Short: "Print the version of this binary, and of what it was built with",
		Args:  noArgs,
		RunE: func(_ *cobra.Command, _ []string) error {
			return printAnswer(g, show.Version{
				Version: version(), Go: runtime.Version(), Kustomize: dependencyVersion("sigs.k8s.io/kustomize/api"),
				TimeZones: agent.TimeZones(),
			}, show.WriteVersion)
		},
	}
}
