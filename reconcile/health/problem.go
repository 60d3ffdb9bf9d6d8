// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// A Problem is why a pod is not running well, in the words of the kubelet or
// the scheduler. The zero value is no problem.
type Problem struct {
	Reason  string // CrashLoopBackOff, ImagePullBackOff, Evicted, Unschedulable…
	Message string
}

// String is "Reason: message", or "" for no problem.
func (p Problem) String() string { return joinWords(p.Reason, p.Message) }

// Fatal says that waiting for readyTimeout would be a waste: the kubelet has
// tried more than once, or never will. ErrImagePull and
// CreateContainerConfigError are not fatal: the first try may come too early.
func (p Problem) Fatal() bool {
	switch p.Reason {
	case "CrashLoopBackOff", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		return true
	default:
		return false
	}
}

// problemOf finds the first problem: of the pod as a whole, then of its
// containers in the order in which they start, fatal ones before others.
func problemOf(p *corev1.Pod) Problem {
	if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
		return Problem{Reason: cmp.Or(p.Status.Reason, string(p.Status.Phase)), Message: cmp.Or(p.Status.Message, endedContainer(p))}
	}
	var first Problem
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range statuses {
			switch problem := containerProblem(&statuses[i]); {
			case problem.Fatal():
				return problem
			case first == Problem{}:
				first = problem
			}
		}
	}
	return cmp.Or(first, unscheduled(p))
}

func containerProblem(c *corev1.ContainerStatus) Problem {
	w := c.State.Waiting
	if w == nil || w.Reason == "" || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing" {
		return Problem{}
	}
	message := w.Message
	if last := c.LastTerminationState.Terminated; last != nil && w.Reason == "CrashLoopBackOff" {
		message = exitWords(last)
	}
	return Problem{Reason: w.Reason, Message: fmt.Sprintf("container %s: %s", c.Name, cmp.Or(message, w.Reason))}
}

// endedContainer names the container that made a pod end.
func endedContainer(p *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range statuses {
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				return fmt.Sprintf("container %s: %s", c.Name, exitWords(t))
			}
		}
	}
	return ""
}

func exitWords(t *corev1.ContainerStateTerminated) string {
	words := fmt.Sprintf("exit code %d", t.ExitCode)
	if t.Reason != "" && t.Reason != "Error" {
		words += " (" + t.Reason + ")"
	}
	return words
}

func unscheduled(p *corev1.Pod) Problem {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return Problem{Reason: cmp.Or(c.Reason, "Unschedulable"), Message: c.Message}
		}
	}
	return Problem{}
}
