// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/reconcile/cluster"
	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

const jobSpec = `{"activeDeadlineSeconds":600,"backoffLimit":0,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"example.com/c:1"}]}}}`

func gateJob(name, node string) rollout.Job {
	return rollout.Job{
		Name: name, Policy: "cni", Node: node, Revision: "6d4b5f",
		Gate: policy.Gate{Name: "smoke", Job: policy.JobGate{When: policy.After, Spec: jobSpec, Timeout: 10 * time.Minute}},
	}
}

func (w *world) createJobs(t *testing.T, jobs ...rollout.Job) {
	t.Helper()
	for _, a := range w.cluster.CreateJobs(t.Context(), jobs) {
		if a.Err != nil {
			t.Fatalf("%s: %v", a.Job.Name, a.Err)
		}
	}
}

func (w *world) job(t *testing.T, name string) *batchv1.Job {
	t.Helper()
	job, err := w.Client.BatchV1().Jobs(w.instance.Namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// answered waits for an answer about a Job.
func (w *world) answered(t *testing.T, job string, reply rollout.Reply, words string) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		a := w.cluster.Job(ctx, rollout.Question{Kind: rollout.JobGate, Job: job})
		if a.Reply != reply || !strings.Contains(a.Message, words) {
			return fmt.Errorf("%s: got %+v, want %s with %q", job, a, reply, words)
		}
		if over := reply == rollout.Yes || reply == rollout.No; over == a.Ended.IsZero() {
			t.Errorf("%s: %s, and ended %s", job, reply, a.Ended)
		}
		return nil
	})
}

// When a Job has ended does not depend on when that is asked.
func TestJobThatHasEndedAnswersWhen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Options{})
	w.createJobs(t, gateJob("smoke-1", "node-001"))
	w.answered(t, "smoke-1", rollout.Yes, "")
	a := w.cluster.Job(t.Context(), rollout.Question{Kind: rollout.JobGate, Job: "smoke-1"})
	if want := w.job(t, "smoke-1").Status.CompletionTime; want == nil || a.Ended.Sub(want.Time).Abs() > time.Second {
		t.Errorf("ended %s, want %s", a.Ended, want)
	}
}

// A Job runs on its node, once, and tells whose it is.
func TestJobRunsOnItsNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Options{})
	w.answered(t, "smoke-1", rollout.Absent, "")
	w.createJobs(t, gateJob("smoke-1", "node-001"))
	made := w.job(t, "smoke-1")
	w.createJobs(t, gateJob("smoke-1", "node-001")) // it is there
	if again := w.job(t, "smoke-1"); again.UID != made.UID {
		t.Error("the Job was made twice")
	}
	for label, want := range map[string]string{
		cluster.JobInstanceLabel: w.instance.ID(), cluster.JobPolicyLabel: "cni", cluster.JobNodeLabel: "node-001",
		cluster.JobGateLabel: "smoke", cluster.JobRevisionLabel: "6d4b5f",
	} {
		if made.Labels[label] != want || made.Spec.Template.Labels[label] != want {
			t.Errorf("label %s: %q, on its pods %q, want %q", label, made.Labels[label], made.Spec.Template.Labels[label], want)
		}
	}
	w.answered(t, "smoke-1", rollout.Yes, "")
	pods, err := w.Client.CoreV1().Pods(w.instance.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: cluster.JobGateLabel + "=smoke"})
	if err != nil || len(pods.Items) != 1 || pods.Items[0].Spec.NodeName != "node-001" {
		t.Errorf("pods %+v (%v), want one on node-001", pods.Items, err)
	}
}

// A cordon does not keep it from its node; a node that is not there does.
func TestJobRunsOnACordonedNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Options{})
	w.createJobs(t, gateJob("smoke-1", "no-such-node"))
	cordon := corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	if !slices.Contains(w.job(t, "smoke-1").Spec.Template.Spec.Tolerations, cordon) {
		t.Error("the taint of a cordon is not tolerated")
	}
	w.answered(t, "smoke-1", rollout.Pending, "its pod is not ready")
}

func TestJobThatFailsAnswersWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Options{})
	job := gateJob("smoke-1", "no-such-node")
	job.Gate.Job.Spec = strings.Replace(jobSpec, "600", "1", 1)
	w.createJobs(t, job)
	w.answered(t, "smoke-1", rollout.No, "Job smoke-1 failed: DeadlineExceeded: ")
}

// Only what runs, is ours and is not wanted is stopped.
func TestJobsThatNobodyWaitsForAreStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster.Options{})
	neighbour := *w
	neighbour.instance.Name = "neighbour"
	other := neighbour.newCluster(t, cluster.Options{})
	w.createJobs(t, gateJob("stray", "no-such-node"), gateJob("wanted", "no-such-node"), gateJob("done", "node-002"))
	if a := other.CreateJobs(t.Context(), []rollout.Job{gateJob("theirs", "no-such-node")})[0]; a.Err != nil {
		t.Fatal(a.Err)
	}
	w.answered(t, "done", rollout.Yes, "")
	w.answered(t, "theirs", rollout.Unknown, "it is not ours")
	for range 2 { // the second time there is nothing to do
		if err := w.cluster.StopJobs(t.Context(), map[string]bool{"wanted": true}); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Eventually(t, time.Minute, func(ctx context.Context) error {
		_, err := w.Client.BatchV1().Jobs(w.instance.Namespace).Get(ctx, "stray", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the stray Job is there (%w)", err)
		}
		return nil
	})
	for _, name := range []string{"wanted", "done", "theirs"} {
		if w.job(t, name).DeletionTimestamp != nil {
			t.Errorf("Job %s was stopped", name)
		}
	}
}
