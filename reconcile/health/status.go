// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// Established says whether the API server serves a CustomResourceDefinition's
// kind, and if not why.
func Established(crd *unstructured.Unstructured) (bool, string) {
	result, err := status.Compute(crd)
	switch {
	case err != nil:
		return false, err.Error()
	case result.Status == status.CurrentStatus:
		return true, ""
	}
	return false, cmp.Or(result.Message, string(result.Status))
}
