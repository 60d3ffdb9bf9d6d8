// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/rollout"
)

// Labels of the Jobs of gates and of their pods: whose they are, and what for. A
// value that is too long for a label ends with a part of its hash.
const (
	JobInstanceLabel = "lamplighter.dev/gate-of"
	JobPolicyLabel   = "lamplighter.dev/policy"
	JobGateLabel     = "lamplighter.dev/gate"
	JobNodeLabel     = "lamplighter.dev/node"
	JobRevisionLabel = "lamplighter.dev/revision"
)

const jobsInFlight = 8

// CreateJobs creates Jobs in the namespace of the instance, each of which runs on
// its node. One that exists already is left as it is.
func (c *Cluster) CreateJobs(ctx context.Context, jobs []rollout.Job) []rollout.JobAttempt {
	attempts := make([]rollout.JobAttempt, len(jobs))
	var work errgroup.Group
	work.SetLimit(jobsInFlight)
	for i, job := range jobs {
		work.Go(func() error {
			attempts[i] = rollout.JobAttempt{Job: job, Err: c.createJob(ctx, job)}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		panic(err) // no function of the group returns one
	}
	return attempts
}

func (c *Cluster) createJob(ctx context.Context, job rollout.Job) error {
	if ctx.Err() != nil {
		return fmt.Errorf("not created: %w", context.Cause(ctx))
	}
	object, err := jobObject(job, c.opts.Instance)
	if err != nil {
		return err
	}
	err = c.try(ctx, func(ctx context.Context) error {
		_, err := c.typed.BatchV1().Jobs(c.opts.Instance.Namespace).Create(ctx, object, metav1.CreateOptions{FieldManager: inventory.FieldManager})
		return err
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// jobObject is a Job as it is sent: pinned to its node as a DaemonSet's pod is,
// so that the scheduler sees it, and taints of the node count but for a cordon.
func jobObject(job rollout.Job, instance inventory.Instance) (*batchv1.Job, error) {
	spec, err := job.Gate.Job.JobSpec()
	if err != nil {
		return nil, fmt.Errorf("spec of gate %s: %w", job.Gate.Name, err)
	}
	ours := map[string]string{
		JobInstanceLabel: instance.ID(), JobPolicyLabel: labelValue(job.Policy), JobGateLabel: job.Gate.Name,
		JobNodeLabel: labelValue(job.Node), JobRevisionLabel: labelValue(job.Revision),
	}
	pod := &spec.Template
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, ours)
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{job.Node}}},
		}}},
	}}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations,
		corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: instance.Namespace, Name: job.Name, Labels: ours},
		Spec:       spec,
	}, nil
}

// labelValue is a text as the value of a label.
func labelValue(text string) string {
	const longest, enough = 63, 5
	if len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	tail := hex.EncodeToString(sum[:enough])
	return strings.TrimRight(text[:longest-len(tail)-1], "-._") + "-" + tail
}

// Job answers how the Job of a gate does.
func (c *Cluster) Job(ctx context.Context, q rollout.Question) rollout.Answer {
	var job *batchv1.Job
	err := c.once(ctx, func(ctx context.Context) (err error) {
		job, err = c.typed.BatchV1().Jobs(c.opts.Instance.Namespace).Get(ctx, q.Job, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return rollout.Answer{Reply: rollout.Absent}
	case err != nil:
		return rollout.Answer{Reply: rollout.Unknown, Message: oneLine(err.Error())}
	case job.Labels[JobInstanceLabel] != c.opts.Instance.ID():
		return rollout.Answer{Reply: rollout.Unknown, Message: "it is not ours: delete it"}
	}
	return jobAnswer(job)
}

// jobAnswer is the answer that a Job is.
func jobAnswer(job *batchv1.Job) rollout.Answer {
	for _, condition := range job.Status.Conditions {
		switch {
		case condition.Status != corev1.ConditionTrue:
		case condition.Type == batchv1.JobComplete:
			return rollout.Answer{Reply: rollout.Yes, Ended: condition.LastTransitionTime.Time}
		case condition.Type == batchv1.JobFailed:
			return rollout.Answer{
				Reply: rollout.No, Ended: condition.LastTransitionTime.Time,
				Message: fmt.Sprintf("Job %s failed: %s: %s", job.Name, condition.Reason, oneLine(condition.Message)),
			}
		}
	}
	switch {
	case job.DeletionTimestamp != nil:
		return rollout.Answer{Reply: rollout.Pending, Message: "is being deleted"}
	case job.Status.Active == 0:
		return rollout.Answer{Reply: rollout.Pending, Message: "has no pod"}
	case job.Status.Ready == nil || *job.Status.Ready == 0:
		return rollout.Answer{Reply: rollout.Pending, Message: "its pod is not ready"}
	}
	return rollout.Answer{Reply: rollout.Pending}
}

// StopJobs deletes the Jobs of the instance's gates that have not ended and are
// not wanted, with their pods.
func (c *Cluster) StopJobs(ctx context.Context, wanted map[string]bool) error {
	ctx, cancel := context.WithTimeout(ctx, c.opts.RequestTimeout+time.Minute)
	defer cancel()
	jobs := c.typed.BatchV1().Jobs(c.opts.Instance.Namespace)
	ours := labels.Set{JobInstanceLabel: c.opts.Instance.ID()}.String()
	list, err := jobs.List(ctx, metav1.ListOptions{LabelSelector: ours})
	if err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		job := &list.Items[i]
		if wanted[job.Name] || job.DeletionTimestamp != nil || jobAnswer(job).Reply != rollout.Pending {
			continue
		}
		background := metav1.DeletePropagationBackground
		err := c.try(ctx, func(ctx context.Context) error {
			return jobs.Delete(ctx, job.Name, metav1.DeleteOptions{
				PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &job.UID},
			})
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("%s: %w", job.Name, err))
		}
	}
	return errors.Join(errs...)
}
