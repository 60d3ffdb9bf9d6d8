// SPDX-License-Identifier: Apache-2.0

package why_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lamplighter.dev/reconcile/health"
	"lamplighter.dev/reconcile/why"
)

// What a person would find with describe and events is said as the cause, whoever
// has said it: the pod's status, or an event about it.
func TestCauseOfAPodThatDoesNotStart(t *testing.T) {
	pod := types.NamespacedName{Namespace: "agents", Name: "cni-n1"}
	const describe, logs = "kubectl -n agents describe pod cni-n1", "kubectl -n agents logs cni-n1 --all-containers --previous"
	said := func(reason, message string) health.Problem { return health.Problem{Reason: reason, Message: message} }
	for name, c := range map[string]struct {
		problem health.Problem
		event   health.Problem // the zero one is none
		cause   string
		look    string
	}{
		"an untolerated taint": {
			said("Unschedulable", "0/3 nodes are available: 1 node(s) had untolerated taint {dedicated: gpu}, 2 node(s) didn't match Pod's node affinity/selector."), health.Problem{},
			"the node has a taint that it does not tolerate", describe,
		},
		"selector or affinity": {
			said("Unschedulable", "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."), health.Problem{},
			"the node does not match its selector or affinity", describe,
		},
		"another pod that keeps it away": {
			said("Unschedulable", "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) didn't match Pod's node affinity/selector."), health.Problem{},
			"anti-affinity keeps it away from a pod on the node", describe,
		},
		"no room": {
			said("Unschedulable", "0/3 nodes are available: 1 Insufficient memory, 2 node(s) didn't match Pod's node affinity/selector."), health.Problem{},
			"the node has no room for it", describe,
		},
		"a host port": {
			said("Unschedulable", "0/3 nodes are available: 1 node(s) didn't have free ports for the requested pod ports, 2 node(s) didn't match Pod's node affinity/selector."), health.Problem{},
			"a host port that it needs is taken on the node", describe,
		},
		"no room, says the kubelet":               {said("OutOfcpu", "Pod was rejected"), health.Problem{}, "the node has no room for it: cpu", describe},
		"no room for what a plugin gives":         {said("OutOfnvidia.com/gpu", "Pod was rejected"), health.Problem{}, "the node has no room for it: nvidia.com/gpu", describe},
		"the kubelet's own reasons":               {said("UnexpectedAdmissionError", "Allocate failed due to no healthy devices present"), health.Problem{}, "the kubelet rejected it: a device or another resource of the node cannot be given to it", describe},
		"a node that shuts down":                  {said("NodeShutdown", "Pod was rejected as the node is shutting down."), health.Problem{}, "the kubelet rejected it: the node is shutting down", describe},
		"an image that is not there":              {said("ImagePullBackOff", "container agent: Back-off pulling image"), health.Problem{}, "the image cannot be pulled: its name, the registry, or the right to it", describe},
		"an image for other machines":             {said("ImagePullBackOff", `container agent: Back-off pulling image "a": ErrImagePull: no match for platform in manifest: not found`), health.Problem{}, "the image is not built for the node's architecture", describe},
		"a registry that does not answer":         {said("RegistryUnavailable", "container agent: 503"), health.Problem{}, "the registry does not answer", describe},
		"an image without a valid signature":      {said("SignatureValidationFailed", "container agent: no"), health.Problem{}, "the node's container runtime does not accept the image's signature", describe},
		"a pull that failed, as an event":         {health.Problem{}, said("Failed", `Failed to pull image "a:b": not found`), "the image cannot be pulled: its name, the registry, or the right to it", describe},
		"a container that ends":                   {said("CrashLoopBackOff", "container agent: exit code 1"), health.Problem{}, "a container ends again and again: its log says why", logs},
		"a container that needs memory":           {said("CrashLoopBackOff", "container agent: exit code 137 (OOMKilled)"), health.Problem{}, "a container needs more memory than its limit", logs},
		"a network that is not there":             {health.Problem{}, said("NetworkNotReady", "network is not ready: cni plugin not initialized"), "the node has no pod network: its network plugin does not run", describe},
		"a network plugin that fails":             {health.Problem{}, said("FailedCreatePodSandBox", `plugin type="calico" failed (add)`), "the node's container runtime or network plugin cannot make the pod's sandbox", describe},
		"a missing ConfigMap, mounted":            {health.Problem{}, said("FailedMount", `configmap "x" not found`), "a volume cannot be mounted: what it names may be missing", describe},
		"a missing ConfigMap, in the environment": {said("CreateContainerConfigError", `container agent: configmap "x" not found`), health.Problem{}, "a ConfigMap or Secret that it needs is missing, or a key of it", describe},
		"the runtime":                             {said("RunContainerError", "container agent: exec: no such file"), health.Problem{}, "the node's container runtime cannot start the container", logs},
		"a device of a resource claim":            {health.Problem{}, said("FailedPrepareDynamicResources", "no driver"), "what its resource claims name cannot be prepared on the node", describe},
		"a probe":                                 {health.Problem{}, said("Unhealthy", "Readiness probe failed"), "a probe fails", describe},
		"a hook":                                  {health.Problem{}, said("FailedPostStartHook", "exit code 1"), "its postStart hook fails", describe},
		"what nobody has words for":               {said("Odd", "container agent: odd"), health.Problem{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(t)
			p := in.Observation.Pods[0]
			p.Hash, p.Ready, p.Created, p.Problem = "new", false, now.Add(-time.Minute), c.problem
			if c.problem.Reason == "OutOfcpu" {
				p.Phase = corev1.PodFailed
			}
			if c.event.Reason != "" {
				in.Events = []health.Event{warning("Pod", pod, c.event.Reason, c.event.Message)}
			}
			chains, err := why.Node(planned(t, in), "n1")
			if err != nil {
				t.Fatal(err)
			}
			var got why.Link
			for _, l := range chains[0].Links {
				if l.Name == "cause" {
					got = l
				}
			}
			if got.Text != c.cause || got.Look != c.look {
				t.Errorf("got %q, look at %q; want %q, %q", got.Text, got.Look, c.cause, c.look)
			}
		})
	}
}

// A pod that does not go has a cause too.
func TestCauseOfAPodThatDoesNotGo(t *testing.T) {
	in := input(t)
	p := in.Observation.Pods[0]
	p.Ready, p.Deleting, p.DeletionDeadline = false, true, now.Add(-time.Hour)
	in.Events = []health.Event{warning("Pod", p.Name, "FailedKillPod", "error killing pod: context deadline exceeded")}
	chains, err := why.Node(planned(t, in), "n1")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range chains[0].Links {
		if l.Name == "cause" && l.Text == "the node's container runtime cannot end the pod" && l.Look != "" {
			return
		}
	}
	t.Errorf("no cause:\n%s", lines(chains[0]))
}
