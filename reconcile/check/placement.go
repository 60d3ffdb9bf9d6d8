// SPDX-License-Identifier: Apache-2.0

package check

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// Folders of the node that only its network, its storage and its devices need.
var (
	networkFolders = []string{"/etc/cni/net.d", "/opt/cni/bin"}
	kubeletFolders = []string{"/var/lib/kubelet/device-plugins", "/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry"}
)

var criticalClasses = []string{"system-cluster-critical", "system-node-critical"}

// placement checks where and with which priority the pods run.
func (r *report) placement(a agent) {
	spec := a.pod()
	network := mounted(spec, networkFolders)
	vital := network
	if vital == "" {
		vital = mounted(spec, kubeletFolders)
	}
	switch class := spec.PriorityClassName; {
	case vital != "" && !slices.Contains(criticalClasses, class):
		r.find(NodeCriticalPriority, a.subject, podField+".priorityClassName",
			"is %s, but other pods need what it does in %s: on a full node its new pod waits for them", orNone(class), vital)
	case vital == "" && class == "":
		r.find(NoPriorityClass, a.subject, podField+".priorityClassName", "is not set: on a full node a restarted pod may find no room")
	}
	if network != "" && spec.HostNetwork && !tolerates(spec, corev1.TaintNodeNotReady) {
		r.find(NotReadyToleration, a.subject, podField+".tolerations",
			"do not tolerate %s:NoSchedule: a node is not ready until it has a network, so that this pod never starts on a new one", corev1.TaintNodeNotReady)
	}
	if !tolerates(spec, controlPlaneTaint) && forAllNodes(spec) {
		r.find(NotOnControlPlane, a.subject, podField+".tolerations", "do not tolerate %s:NoSchedule: it does not run on control plane nodes", controlPlaneTaint)
	}
}

const controlPlaneTaint = "node-role.kubernetes.io/control-plane"

func orNone(s string) string {
	if s == "" {
		return "not set"
	}
	return s
}

// mounted is the first of the folders that a pod mounts from its node.
func mounted(spec *corev1.PodSpec, folders []string) string {
	for _, v := range spec.Volumes {
		if v.HostPath == nil {
			continue
		}
		if path := strings.TrimSuffix(v.HostPath.Path, "/"); slices.Contains(folders, path) {
			return path
		}
	}
	return ""
}

// tolerates reports whether the taint, with effect NoSchedule, keeps no pod away.
func tolerates(spec *corev1.PodSpec, key string) bool {
	taint := corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}
	return slices.ContainsFunc(spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(klog.Logger{}, &taint, false)
	})
}

// forAllNodes: nothing but the operating system says where it runs.
func forAllNodes(spec *corev1.PodSpec) bool {
	for key := range spec.NodeSelector {
		if key != corev1.LabelOSStable && key != corev1.LabelArchStable {
			return false
		}
	}
	return spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil
}
