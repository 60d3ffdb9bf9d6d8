// SPDX-License-Identifier: Apache-2.0

package why

import (
	"fmt"
	"strings"

	"lamplighter.dev/reconcile/health"
)

// lastEvent is the newest about a subject; of one that is not well, the newest
// warning if there is one.
func lastEvent(events []health.Event, about health.Subject, sick bool) (health.Event, bool) {
	var newest health.Event
	found := false
	for _, e := range events {
		if e.About.Kind != about.Kind || e.About.Name != about.Name || (about.UID != "" && e.About.UID != "" && e.About.UID != about.UID) {
			continue
		}
		if !found {
			newest, found = e, true
		}
		if sick && e.Warning {
			return e, true
		}
	}
	return newest, found
}

func eventWords(e health.Event) string {
	words := e.Reason + ": " + e.Message
	if e.Count > 1 {
		words += fmt.Sprintf(" (%d times)", e.Count)
	}
	if !e.Last.IsZero() {
		words += ", last at " + stamp(e.Last)
	}
	return words
}

// cause is what keeps a pod from running, and where to look.
type cause struct{ Text, Look string }

// causeOf finds why a pod is missing or not well. What the pod itself says comes
// first: an event may be old.
func causeOf(p *health.Pod, e health.Event) cause {
	if p == nil {
		if e.Warning {
			return cause{wordsByReason[e.Reason], fmt.Sprintf("kubectl -n %s describe daemonset %s", e.About.Name.Namespace, e.About.Name.Name)}
		}
		return cause{}
	}
	if words := wordsOf(p.Problem.Reason, p.Problem.Message); words != "" {
		return cause{words, lookAt(p)}
	}
	if e.Warning {
		return cause{wordsOf(e.Reason, e.Message), lookAt(p)}
	}
	return cause{}
}

// wordsByReason says what the kubelet's, the scheduler's and the controllers'
// reasons mean for whoever has to act.
var wordsByReason = map[string]string{
	"BackOff":                       "a container ends again and again",
	"CrashLoopBackOff":              "a container ends again and again: its log says why",
	"CreateContainerConfigError":    "a ConfigMap or Secret that it needs is missing, or a key of it",
	"CreateContainerError":          "the node's container runtime cannot create the container",
	"ErrImageNeverPull":             "the image is not on the node, and the pod says never to pull it",
	"ErrImagePull":                  "the image cannot be pulled: its name, the registry, or the right to it",
	"Evicted":                       "the kubelet evicted it: the node lacks memory, disk or process IDs",
	"FailedAttachVolume":            "a volume cannot be attached to the node",
	"FailedCreate":                  "the API server does not take the pod: admission, quota or Pod Security",
	"FailedCreatePodSandBox":        "the node's container runtime or network plugin cannot make the pod's sandbox",
	"FailedKillPod":                 "the node's container runtime cannot end the pod",
	"FailedMapVolume":               "a volume cannot be mounted: what it names may be missing",
	"FailedMount":                   "a volume cannot be mounted: what it names may be missing",
	"FailedPostStartHook":           "its postStart hook fails",
	"FailedPrepareDynamicResources": "what its resource claims name cannot be prepared on the node",
	"ImageInspectError":             "the image on the node is damaged",
	"ImagePullBackOff":              "the image cannot be pulled: its name, the registry, or the right to it",
	"InvalidImageName":              "the image's name is not one",
	"NetworkNotReady":               "the node has no pod network: its network plugin does not run",
	"NodeAffinity":                  "the kubelet rejected it: the node does not match its selector or affinity",
	"NodePorts":                     "the kubelet rejected it: a host port that it needs is taken on the node",
	"NodeShutdown":                  "the kubelet rejected it: the node is shutting down",
	"OOMKilled":                     "a container needs more memory than its limit",
	"PostStartHookError":            "its postStart hook fails",
	"RegistryUnavailable":           "the registry does not answer",
	"RunContainerError":             "the node's container runtime cannot start the container",
	"SignatureValidationFailed":     "the node's container runtime does not accept the image's signature",
	"TaintToleration":               "the kubelet rejected it: the node has a taint that it does not tolerate",
	"UnexpectedAdmissionError":      "the kubelet rejected it: a device or another resource of the node cannot be given to it",
	"Unhealthy":                     "a probe fails",
}

// wordsOf looks into the message where the reason alone does not tell.
func wordsOf(reason, message string) string {
	switch reason {
	case "Unschedulable", "FailedScheduling":
		return unschedulable(message)
	case "Failed":
		if strings.Contains(message, "pull") || strings.Contains(message, "image") {
			return wordsOf("ErrImagePull", message)
		}
	case "ErrImagePull", "ImagePullBackOff":
		if strings.Contains(message, "no match for platform") || strings.Contains(message, "no matching manifest for") {
			return "the image is not built for the node's architecture"
		}
	case "CrashLoopBackOff":
		if strings.Contains(message, "(OOMKilled)") {
			return wordsByReason["OOMKilled"]
		}
	}
	if resource, lacking := strings.CutPrefix(reason, "OutOf"); lacking {
		return "the node has no room for it: " + resource
	}
	return wordsByReason[reason]
}

// unschedulable reads the scheduler's summary, which is of all nodes, though a
// pod of a DaemonSet is for one. The others fail at their taints or at the pod's
// affinity, so what is checked after those is said of the one.
func unschedulable(message string) string {
	for _, c := range []struct{ says, means string }{
		{"Insufficient", "the node has no room for it"},
		{"Too many pods", "the node has no room for it: number of pods"},
		{"free ports", "a host port that it needs is taken on the node"},
		{"anti-affinity", "anti-affinity keeps it away from a pod on the node"},
		{"volume", "a volume that it needs cannot be used on the node"},
		{"untolerated taint", "the node has a taint that it does not tolerate"},
		{"unschedulable", "the node is cordoned"},
		{"affinity/selector", "the node does not match its selector or affinity"},
	} {
		if strings.Contains(message, c.says) {
			return c.means
		}
	}
	return "the scheduler finds no place for it"
}

// lookAt is the command that shows what the kubelet or the container says.
func lookAt(p *health.Pod) string {
	switch p.Problem.Reason {
	case "CrashLoopBackOff", "RunContainerError", "OOMKilled", "Error":
		return fmt.Sprintf("kubectl -n %s logs %s --all-containers --previous", p.Name.Namespace, p.Name.Name)
	}
	return fmt.Sprintf("kubectl -n %s describe pod %s", p.Name.Namespace, p.Name.Name)
}
