// SPDX-License-Identifier: Apache-2.0

package cluster

// PodOf is the pod of a dry run.
var PodOf = podOf
