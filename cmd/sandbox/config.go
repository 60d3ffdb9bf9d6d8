// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// config is what the command line says.
type config struct {
	Nodes         int
	Zones         int
	Dir           string // absolute once parsed
	Port          int    // of the API server; 0 takes a free one
	PodReadyAfter time.Duration
}

// parseConfig gives flag.ErrHelp, after printing the help, when that is what
// was asked for.
func parseConfig(args []string) (config, error) {
	var c config
	fs := flag.NewFlagSet("sandbox", flag.ContinueOnError)
	fs.IntVar(&c.Nodes, "nodes", 12, "number of simulated nodes")
	fs.IntVar(&c.Zones, "zones", 3, "number of zones the nodes are spread over")
	fs.StringVar(&c.Dir, "dir", ".sandbox", "folder for the kubeconfig, logs and state")
	fs.IntVar(&c.Port, "port", 0, "port of the API server; 0 takes a free one")
	fs.DurationVar(&c.PodReadyAfter, "pod-ready-after", 500*time.Millisecond, "time from a pod's start to Ready")
	fs.SetOutput(io.Discard) // it would print every error besides returning it
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fs.SetOutput(os.Stderr)
			fs.PrintDefaults()
		}
		return config{}, err
	}
	if fs.NArg() > 0 {
		return config{}, fmt.Errorf("unknown role or argument %q", fs.Arg(0))
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return config{}, fmt.Errorf("--dir: %w", err)
	}
	c.Dir = dir
	return c, c.validate()
}

func (c config) validate() error {
	var errs []error
	if c.Nodes < 0 || c.Nodes > 65_000 {
		errs = append(errs, fmt.Errorf("--nodes %d is outside 0 to 65000", c.Nodes))
	}
	if c.Zones < 1 || c.Zones > 26 {
		errs = append(errs, fmt.Errorf("--zones %d is outside 1 to 26", c.Zones))
	}
	if c.Port < 0 || c.Port > 65_535 {
		errs = append(errs, fmt.Errorf("--port %d is outside 0 to 65535", c.Port))
	}
	if c.PodReadyAfter < 0 {
		errs = append(errs, fmt.Errorf("--pod-ready-after %s is negative", c.PodReadyAfter))
	}
	return errors.Join(errs...)
}
