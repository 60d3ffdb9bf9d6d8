// SPDX-License-Identifier: Apache-2.0

// Package install holds the manifests of this folder, for the command that makes
// them fit a fleet.
package install

import "embed"

// Files are the manifests, as they lie here.
//
//go:embed *.yaml */*.yaml
var Files embed.FS
