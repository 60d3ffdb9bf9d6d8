// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lamplighter.dev/reconcile/health"
)

// versionLabels are labels that tools change with every release.
var versionLabels = []string{"app.kubernetes.io/version", "chart", "helm.sh/chart", "version"}

// template checks what holds for the DaemonSet as a whole.
func (r *report) template(a agent) {
	selector, err := metav1.LabelSelectorAsSelector(a.Spec.Selector)
	switch {
	case err != nil:
		r.find(SelectorMismatch, a.subject, "spec.selector", "cannot be read: %s", err)
	case selector.Empty():
		r.find(SelectorMismatch, a.subject, "spec.selector", "is empty")
	case !selector.Matches(labels.Set(a.Spec.Template.Labels)):
		r.find(SelectorMismatch, a.subject, "spec.selector", "does not match the labels of the template: %s", selector)
	}
	if a.Spec.Selector != nil {
		for _, key := range versionLabels {
			if value, ok := a.Spec.Selector.MatchLabels[key]; ok {
				r.find(VersionInSelector, a.subject, "spec.selector.matchLabels",
					"has %s=%s: a selector is immutable, so the DaemonSet has to be deleted when that label changes", key, value)
			}
		}
	}
	if reason, held := a.Annotations[health.HoldAnnotation]; held && !isReason(reason) {
		r.find(HoldWithoutReason, a.subject, "metadata.annotations["+health.HoldAnnotation+"]", "is %q, which is no reason", reason)
	}
}

func isReason(s string) bool {
	return !slices.Contains([]string{"", "true", "yes", "1", "hold"}, strings.ToLower(strings.TrimSpace(s)))
}

// containers checks each container, and what they are together.
func (r *report) containers(a agent) {
	spec, ready := a.pod(), false
	each(spec.InitContainers, "initContainers", func(c *corev1.Container, field string) {
		r.image(a, c, field)
		ready = ready || isSidecar(c) && c.ReadinessProbe != nil
	})
	each(spec.Containers, "containers", func(c *corev1.Container, field string) {
		r.image(a, c, field)
		r.requests(a, c, field)
		ready = ready || c.ReadinessProbe != nil
	})
	if a.policy != nil && !ready && len(spec.Containers) > 0 {
		r.find(NoReadinessProbe, a.subject, podField+".containers", "no container has a readinessProbe: a pod is Ready as soon as it runs, so that a node counts as settled whether the agent works or not")
	}
}

func each(containers []corev1.Container, name string, visit func(*corev1.Container, string)) {
	for i := range containers {
		visit(&containers[i], fmt.Sprintf("%s.%s[%d]", podField, name, i))
	}
}

// isSidecar: an init container that goes on running.
func isSidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func (r *report) image(a agent, c *corev1.Container, field string) {
	switch name, pinned := splitImage(c.Image); {
	case pinned:
	case name.tag == "" || name.tag == "latest":
		r.find(LatestTag, a.subject, field+".image", "%s of container %s is another image every day: nodes of one revision run different ones", c.Image, c.Name)
	default:
		r.find(NoDigest, a.subject, field+".image", "%s of container %s has no digest: the tag may be moved", c.Image, c.Name)
	}
}

// imageName is an image without its digest.
type imageName struct{ repository, tag string }

func splitImage(image string) (name imageName, pinned bool) {
	image, _, pinned = strings.Cut(image, "@")
	if colon := strings.LastIndex(image, ":"); colon > strings.LastIndex(image, "/") {
		return imageName{image[:colon], image[colon+1:]}, pinned
	}
	return imageName{repository: image}, pinned
}

func (r *report) requests(a agent, c *corev1.Container, field string) {
	var missing []string
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		_, requested := c.Resources.Requests[resource]
		_, limited := c.Resources.Limits[resource] // which is a request too
		if !requested && !limited {
			missing = append(missing, string(resource))
		}
	}
	if len(missing) > 0 {
		r.find(NoRequests, a.subject, field+".resources.requests",
			"container %s requests no %s: the node promises it none, and evicts it early", c.Name, strings.Join(missing, " and no "))
	}
}
