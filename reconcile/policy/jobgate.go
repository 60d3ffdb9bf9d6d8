// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	kjson "sigs.k8s.io/json"
)

// JobGate is a Job that has to succeed on the node of a visit.
type JobGate struct {
	When JobWhen
	// Spec is a batch/v1 JobSpec as JSON, with our defaults filled in. It is
	// text so that gates can be compared; JobSpec reads it.
	Spec string
	// Timeout bounds the Job from when it was decided. It is also the Job's
	// activeDeadlineSeconds.
	Timeout time.Duration
}

// A JobWhen says at which end of a visit a Job runs.
type JobWhen string

const (
	// Before anything is done to the node.
	Before JobWhen = "Before"
	// After the last pod of the visit has settled.
	After JobWhen = "After"
)

// JobSpec is the Job to run.
func (g JobGate) JobSpec() (batchv1.JobSpec, error) {
	var spec batchv1.JobSpec
	err := json.Unmarshal([]byte(g.Spec), &spec)
	return spec, err
}

// JobGatesOf are the gates of a wave that run a Job at one end of a visit, in
// the order in which they run.
func (p UpgradePolicy) JobGatesOf(wave int, when JobWhen) []Gate {
	var jobs []Gate
	for _, g := range p.GatesOf(wave) {
		if g.Job.When == when {
			jobs = append(jobs, g)
		}
	}
	return jobs
}

const (
	defaultJobTimeout = 10 * time.Minute
	// keptJob is how long a Job is kept after its end, so that its logs can be read.
	keptJob = time.Hour
)

func readJobGate(f *fields) JobGate {
	if f == nil {
		return JobGate{}
	}
	g := JobGate{When: JobWhen(f.text("when"))}
	switch {
	case f.blank("when"):
		f.errorf("when", "is required: write Before or After")
	case g.When != "" && g.When != Before && g.When != After:
		f.errorf("when", "%q is not known%s", shorten(string(g.When)), didYouMean(string(g.When), []string{string(Before), string(After)}, "write Before or After"))
	}
	timeout := f.duration("timeout", 0)
	if !f.has("spec") {
		f.errorf("spec", "is required: what runs, as in the spec of a batch/v1 Job")
	}
	if spec := f.object("spec"); spec != nil {
		g.Spec, g.Timeout = readJobSpec(f, spec, timeout)
	}
	f.done()
	return g
}

// readJobSpec reads the spec of a Job strictly and fills in our defaults.
func readJobSpec(gate, f *fields, timeout time.Duration) (text string, bound time.Duration) {
	data, err := json.Marshal(f.values)
	if err != nil {
		gate.errorf("spec", "is not the spec of a Job: %s", err)
		return "", 0
	}
	var spec batchv1.JobSpec
	strict, err := kjson.UnmarshalStrict(data, &spec)
	for _, problem := range strict {
		explainStrict(f, problem)
	}
	switch {
	case err != nil:
		explainType(f, err)
	case len(strict) == 0:
		checkJobSpec(f, spec)
	}
	if own := spec.ActiveDeadlineSeconds; own != nil {
		bound = time.Duration(*own) * time.Second
		if timeout > 0 {
			gate.errorf("timeout", "is said twice: drop it, or spec.activeDeadlineSeconds")
		}
		if *own <= 0 {
			f.errorf("activeDeadlineSeconds", "is the number %d: write how long the Job may take at most", *own)
		}
	} else if bound = timeout; bound == 0 {
		bound = defaultJobTimeout
	}
	fillJobSpec(&spec, bound)
	if data, err = json.Marshal(spec); err != nil {
		gate.errorf("spec", "is not the spec of a Job: %s", err)
	}
	return string(data), bound
}

func fillJobSpec(spec *batchv1.JobSpec, bound time.Duration) {
	seconds, never, kept := int64(bound/time.Second), int32(0), int32(keptJob/time.Second)
	spec.ActiveDeadlineSeconds = &seconds
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if spec.BackoffLimit == nil {
		spec.BackoffLimit = &never
	}
	if spec.TTLSecondsAfterFinished == nil {
		spec.TTLSecondsAfterFinished = &kept
	}
}

// checkJobSpec refuses what is against the sense of a Job that looks at one node.
func checkJobSpec(f *fields, spec batchv1.JobSpec) {
	pod := spec.Template.Spec
	for field, number := range map[string]*int32{"parallelism": spec.Parallelism, "completions": spec.Completions} {
		if number != nil && *number != 1 {
			f.errorf(field, "is the number %d: one pod looks at the node; drop it", *number)
		}
	}
	for field, set := range map[string]bool{
		"selector": spec.Selector != nil, "manualSelector": spec.ManualSelector != nil, "managedBy": spec.ManagedBy != nil, "suspend": spec.Suspend != nil && *spec.Suspend,
		"completionMode": spec.CompletionMode != nil && *spec.CompletionMode != batchv1.NonIndexedCompletion,
	} {
		if set {
			f.errorf(field, "is not for the Job of a gate: drop it")
		}
	}
	for field, set := range map[string]bool{
		"template.spec.nodeName": pod.NodeName != "", "template.spec.nodeSelector": len(pod.NodeSelector) > 0, "template.spec.affinity": pod.Affinity != nil,
	} {
		if set {
			f.errorf(field, "is not for the Job of a gate, which runs on the node that is visited: drop it")
		}
	}
	for field, number := range map[string]*int32{"backoffLimit": spec.BackoffLimit, "ttlSecondsAfterFinished": spec.TTLSecondsAfterFinished} {
		if number != nil && *number < 0 {
			f.errorf(field, "is the number %d: write 0 or more", *number)
		}
	}
	if policy := pod.RestartPolicy; policy != "" && policy != corev1.RestartPolicyNever {
		f.errorf("template.spec.restartPolicy", "is %q: a container that fails has to be seen to fail; write Never, or drop it", shorten(string(policy)))
	}
	if len(pod.Containers) == 0 {
		f.errorf("template.spec.containers", "is required: at least one, with a name and an image")
	}
	for i, c := range pod.Containers {
		if c.Name == "" || c.Image == "" {
			f.errorf(fmt.Sprintf("template.spec.containers[%d]", i), "needs a name and an image")
		}
	}
}

var unknownField = regexp.MustCompile(`^unknown field "(.*)"$`)

var wrongType = regexp.MustCompile(`cannot unmarshal (\w+) into Go struct field \w+\.(\S+) of type`)

// explainType reports a value that a Job cannot have in a place.
func explainType(f *fields, err error) {
	if found := wrongType.FindStringSubmatch(err.Error()); found != nil {
		f.errorf(found[2], "does not fit: a Job has no %s there", found[1])
		return
	}
	f.subject.errorf(f.path, "is not the spec of a Job: %s", strings.TrimPrefix(err.Error(), "json: "))
}

// explainStrict reports what a strict decoder says about a field.
func explainStrict(f *fields, problem error) {
	text := strings.TrimPrefix(problem.Error(), "json: ")
	found := unknownField.FindStringSubmatch(text)
	if found == nil {
		f.subject.errorf(f.path, "%s", text)
		return
	}
	path := found[1]
	parent, name := "", path
	if i := strings.LastIndex(path, "."); i >= 0 {
		parent, name = path[:i], path[i+1:]
	}
	f.errorf(path, "is not a known field%s", didYouMean(name, jsonNames(batchv1.JobSpec{}, parent), "drop it"))
}
