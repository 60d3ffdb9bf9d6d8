// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"

	"lamplighter.dev/cmd/lamplighter/show"
)

// clustersAtOnce bounds how many clusters are read at the same time: each takes
// memory for its nodes and pods.
const clustersAtOnce = 4

// printContexts reads the instance on every cluster of some contexts, and prints
// them side by side. One that cannot be read does not keep the others from it.
func printContexts(ctx context.Context, g *globals, patterns []string) error {
	contexts, err := g.contexts(patterns)
	if err != nil {
		return err
	}
	clusters := show.Clusters{Clusters: make([]show.Cluster, len(contexts))}
	var group errgroup.Group
	group.SetLimit(clustersAtOnce)
	for i, name := range contexts {
		group.Go(func() error {
			clusters.Clusters[i] = clusterNow(ctx, g, name)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := printAnswer(g, clusters, show.WriteClusters); err != nil {
		return err
	}
	switch {
	case clusters.Unread():
		return exitCode(exitError)
	case clusters.Bad():
		return exitCode(exitSignal)
	}
	return nil
}

func clusterNow(ctx context.Context, g *globals, name string) show.Cluster {
	ctx, cancel := context.WithCancel(ctx) // ends the watches
	defer cancel()
	there := *g
	there.context = name
	c, err := connect(ctx, &there, connectOptions{})
	if err != nil {
		return show.Cluster{Context: name, Error: err.Error()}
	}
	status, err := statusNow(ctx, c)
	if err != nil {
		return show.Cluster{Context: name, Error: err.Error()}
	}
	return show.Cluster{Context: name, Status: &status}
}

// contexts are those of the kubeconfig that match a pattern, each once, in the
// order of the patterns.
func (g *globals) contexts(patterns []string) ([]string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = g.kubeconfig
	config, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	known := slices.Sorted(maps.Keys(config.Contexts))
	var found []string
	for _, pattern := range patterns {
		matched := false
		for _, name := range known {
			matches, err := path.Match(pattern, name)
			if err != nil {
				return nil, fmt.Errorf("--contexts %q: %w", pattern, err)
			}
			if !matches && name != pattern {
				continue
			}
			if matched = true; !slices.Contains(found, name) {
				found = append(found, name)
			}
		}
		if !matched {
			return nil, hint(fmt.Errorf("--contexts %q: the kubeconfig has no such context", pattern), "it has %s", strings.Join(known, ", "))
		}
	}
	return found, nil
}
