// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/url"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
)

// refusal names the first field of k that would leave the tree by its nature,
// and says what to do instead.
func refusal(k *types.Kustomization) (field, why string) {
	const helm = "helm charts are not rendered: commit the output of helm template"
	switch {
	case len(k.HelmCharts) > 0:
		return "helmCharts", helm
	case len(k.HelmChartInflationGenerator) > 0:
		return "helmChartInflationGenerator", helm
	case k.HelmGlobals != nil:
		return "helmGlobals", helm
	default:
		return "", ""
	}
}

// userAtHost is how git spells a remote over SSH.
var userAtHost = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]*@`)

// isRemote says whether kustomize would go to the network, or to another
// repository on this disk, for target. It covers every form that kustomize
// takes for a URL or for a git remote, and a few more.
func isRemote(target string) bool {
	if isURL(target) {
		return true
	}
	lower := strings.ToLower(target)
	return strings.Contains(lower, "://") ||
		strings.HasPrefix(lower, "git::") ||
		strings.HasPrefix(lower, "github.com/") ||
		strings.HasPrefix(lower, "github.com:") ||
		userAtHost.MatchString(target)
}

// isURL says whether kustomize would download target, wherever it stands.
func isURL(target string) bool {
	u, err := url.Parse(target)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https")
}

var (
	userinfo = regexp.MustCompile(`//[^/@]*@`)
	query    = regexp.MustCompile(`\?.*`)
)

// redactURL drops the parts of a URL that may hold a credential.
func redactURL(target string) string {
	return query.ReplaceAllString(userinfo.ReplaceAllString(target, "//"), "")
}
