// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"text/tabwriter"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
)

const (
	// inFlight is how many requests both sides of a comparison send at once.
	inFlight = 32
	// quietPasses is over how many passes that find nothing to do one is timed.
	quietPasses = 20
	// edits is how many objects are edited to see how soon that is undone.
	edits = 200
)

// What the bare loop sends.
var (
	bareApply  = metav1.PatchOptions{FieldManager: "bare"}
	bareDryRun = metav1.PatchOptions{FieldManager: "bare", DryRun: []string{metav1.DryRunAll}}
)

var configMapResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// BenchmarkApply measures what applying costs, beside a bare loop of concurrent
// server-side applies and kubectl, all in one run, and prints a table with the
// bars. It needs bin/kubectl, which its make target builds.
func BenchmarkApply(b *testing.B) {
	for b.Loop() {
		for _, size := range []int{500, 2000} {
			m := bench{size: size, kit: testkit.Sandbox(b)}
			m.first(b, max(3, 4500/size))
			m.quiet(b)
			m.kubectl(b)
			m.agent(b)
			m.print(b)
		}
	}
}

// bench is what was measured with so many objects.
type bench struct {
	size int
	kit  *testkit.Cluster

	loop, rehearsed, whole, partial          []float64 // seconds, by round
	rehearsedRatio, wholeRatio, partialRatio []float64 // against the loop
	twiceRatio                               []float64 // of a whole pass, against the loop behind one of dry runs

	pass       cost
	requests   map[string]float64 // by verb
	changed    cost
	viaKubectl time.Duration
	drift      []time.Duration
	memory     float64 // MB
}

// cost is how long something took, and how much of that was work of this
// process: on a busy machine it waits.
type cost struct{ wall, cpu time.Duration }

func (c cost) String() string {
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	return fmt.Sprintf("%.1f ms, %.1f ms of CPU", ms(c.wall), ms(c.cpu))
}

func costOf(b *testing.B, f func()) cost {
	b.Helper()
	start, before := time.Now(), processorTime(b)
	f()
	return cost{wall: time.Since(start), cpu: processorTime(b) - before}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// place is a namespace, an instance in it, and its objects.
type place struct {
	instance inventory.Instance
	objects  []*unstructured.Unstructured
}

func (m *bench) place(b *testing.B) place {
	b.Helper()
	namespace := m.kit.Namespace(b)
	p := place{instance: inventory.Instance{Namespace: namespace, Name: "lamp-" + namespace[len(namespace)-5:]}}
	for i := range m.size {
		obj := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"key": "1"}}}
		obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		obj.SetName(fmt.Sprintf("object-%05d", i))
		obj.SetNamespace(namespace)
		p.objects = append(p.objects, obj)
	}
	return p
}

// file is the objects as one YAML file.
func (p place) file(b *testing.B) string {
	b.Helper()
	var text strings.Builder
	for _, o := range p.objects {
		document, err := yaml.Marshal(o.Object)
		if err != nil {
			b.Fatal(err)
		}
		text.WriteString("---\n" + string(document))
	}
	return text.String()
}

// first compares the loop with itself behind a loop of dry runs, which is what a
// commit that is applied whole or not at all needs, and with whole first passes,
// in turn.
func (m *bench) first(b *testing.B, rounds int) {
	m.bareLoop(b, bareApply) // warms the API server up
	for range rounds {
		loop, rehearsed := m.bareLoop(b, bareApply), m.bareLoop(b, bareDryRun, bareApply)
		m.rehearsed, m.rehearsedRatio = append(m.rehearsed, rehearsed), append(m.rehearsedRatio, loop/rehearsed)
		whole, partial := m.firstPass(b, life{inFlight: inFlight}), m.firstPass(b, life{inFlight: inFlight, partial: true})
		m.loop, m.whole, m.partial = append(m.loop, loop), append(m.whole, whole), append(m.partial, partial)
		m.wholeRatio, m.partialRatio = append(m.wholeRatio, loop/whole), append(m.partialRatio, loop/partial)
		m.twiceRatio = append(m.twiceRatio, rehearsed/whole)
	}
}

// bareLoop sends objects side by side, all of them once for each of the options,
// and does nothing else.
func (m *bench) bareLoop(b *testing.B, each ...metav1.PatchOptions) float64 {
	b.Helper()
	config := rest.CopyConfig(m.kit.Config)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	p := m.place(b)
	for i, o := range p.objects { // with our label and annotation, so that both sides write the same
		if p.objects[i], err = inventory.Prepare(o, p.instance); err != nil {
			b.Fatal(err)
		}
	}
	start := time.Now()
	for _, options := range each {
		var work errgroup.Group
		work.SetLimit(inFlight)
		for _, obj := range p.objects {
			work.Go(func() error {
				body, err := json.Marshal(obj.Object)
				if err != nil {
					return err
				}
				_, err = client.Resource(configMapResource).Namespace(p.instance.Namespace).Patch(b.Context(), obj.GetName(),
					types.ApplyPatchType, body, options)
				return err
			})
		}
		if err := work.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(start)
	m.clear(b, p)
	return took.Seconds()
}

// clear deletes the objects of a place. A watch that begins reads all ConfigMaps of
// the cluster: what earlier rounds have made is not to count.
func (m *bench) clear(b *testing.B, p place) {
	b.Helper()
	ours := metav1.ListOptions{LabelSelector: inventory.InstanceLabel + "=" + p.instance.Name}
	api := m.kit.Client.CoreV1().ConfigMaps(p.instance.Namespace)
	if err := api.DeleteCollection(b.Context(), metav1.DeleteOptions{}, ours); err != nil {
		b.Fatal(err)
	}
}

// firstPass is a pass of an instance that has nothing yet.
func (m *bench) firstPass(b *testing.B, l life) float64 {
	b.Helper()
	p := m.place(b)
	process := live(b, m.kit, p.instance, l)
	start := time.Now()
	report, err := process.pass(p.objects)
	took := time.Since(start)
	process.end()
	done(b, report, err)
	m.clear(b, p)
	return took.Seconds()
}

func done(b *testing.B, report reconcile.Report, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
	for _, o := range report.Outcomes {
		if o.Err != nil {
			b.Fatalf("%s: %v", inventory.Format(o.ID), o.Err)
		}
	}
}

// quiet times passes that find nothing to do, and one for a commit that changes
// one object, from the tree of files on.
func (m *bench) quiet(b *testing.B) {
	b.Helper()
	p := m.place(b)
	process := live(b, m.kit, p.instance, life{inFlight: inFlight})
	defer process.end()
	tree := func() fstest.MapFS {
		return fstest.MapFS{
			"objects.yaml":       {Data: []byte(p.file(b))},
			"kustomization.yaml": {Data: []byte("resources: [objects.yaml]\n")},
		}
	}
	read := func(tree fstest.MapFS, hash string) *reconcile.Fleet {
		fleet, err := reconcile.Read(b.Context(), tree, ".", reconcile.Commit{Hash: strings.Repeat(hash, 40)}, time.Now())
		if err != nil {
			b.Fatal(err)
		}
		return fleet
	}
	pass := func(fleet *reconcile.Fleet) reconcile.Report {
		report, err := process.reconciler.Pass(process.ctx, reconcile.Source{Fleet: fleet})
		done(b, report, err)
		return report
	}
	fleet := read(tree(), "a")
	for pass(fleet).Plan.Objects.Touches() { // until the watch has caught up
	}
	before := m.requestsSoFar(b)
	all := costOf(b, func() {
		for range quietPasses {
			pass(fleet)
		}
	})
	m.pass = cost{wall: all.wall / quietPasses, cpu: all.cpu / quietPasses}
	m.requests = m.requestsSoFar(b)
	for verb := range m.requests {
		m.requests[verb] -= before[verb]
	}

	p.objects[m.size/2].Object["data"] = map[string]any{"key": "2"}
	changed := tree()
	m.changed = costOf(b, func() { pass(read(changed, "b")) })
}

// requestsSoFar is how many requests about ConfigMaps the API server has seen,
// by verb, dry runs apart.
func (m *bench) requestsSoFar(b *testing.B) map[string]float64 {
	b.Helper()
	text, err := m.kit.Client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(text)))
	if err != nil {
		b.Fatal(err)
	}
	seen := map[string]float64{}
	for _, metric := range families["apiserver_request_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range metric.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["resource"] != "configmaps" {
			continue
		}
		verb := labels["verb"]
		if labels["dry_run"] != "" {
			verb = "dry run"
		}
		seen[verb] += metric.GetCounter().GetValue()
	}
	return seen
}

// kubectl times the same objects from a file.
func (m *bench) kubectl(b *testing.B) {
	b.Helper()
	program := testkit.Kubectl(b)
	p := m.place(b)
	file := filepath.Join(b.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(p.file(b)), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(program, "--kubeconfig", m.kit.Kubeconfig, "apply", "--server-side", "-f", file)
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	m.viaKubectl = time.Since(start)
}

// agent measures an agent in a process of its own: its memory, and how soon it
// undoes what others do to its objects.
func (m *bench) agent(b *testing.B) {
	b.Helper()
	w := newWorld(b)
	agent := w.spawn(b, "--listen", "127.0.0.1:0")
	p := m.place(b)
	w.inForce(b, w.commit(b, "objects", map[string]string{
		"objects.yaml": p.file(b), "kustomization.yaml": "resources: [objects.yaml]\n",
	}))
	api := m.kit.Client.CoreV1().ConfigMaps(p.instance.Namespace)
	testkit.Eventually(b, patience, func(ctx context.Context) error {
		list, err := api.List(ctx, metav1.ListOptions{LabelSelector: inventory.InstanceLabel + "=" + w.instance.Name})
		if err == nil && len(list.Items) != m.size {
			err = fmt.Errorf("%d objects", len(list.Items))
		}
		return err
	})
	for i := range edits {
		m.drift = append(m.drift, m.undone(b, p, p.objects[i*(m.size/edits)].GetName()))
	}
	slices.Sort(m.drift)
	m.memory = agent.resident(b)
	agent.kill(b)
}

// undone is how long an edit of an object is seen.
func (m *bench) undone(b *testing.B, p place, name string) time.Duration {
	b.Helper()
	api := m.kit.Client.CoreV1().ConfigMaps(p.instance.Namespace)
	edited, err := api.Patch(b.Context(), name, types.MergePatchType, []byte(`{"data":{"key":"edited"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	defer cancel()
	watching, err := api.Watch(ctx, metav1.ListOptions{ResourceVersion: edited.ResourceVersion, FieldSelector: "metadata.name=" + name})
	if err != nil {
		b.Fatal(err)
	}
	defer watching.Stop()
	for e := range watching.ResultChan() {
		if cm, ok := e.Object.(*corev1.ConfigMap); ok && cm.Data["key"] == "1" {
			return time.Since(start)
		}
	}
	b.Fatalf("the edit of %s was not undone within %s", name, patience)
	return 0
}

// print writes the table, a line for each figure with its bar.
func (m *bench) print(b *testing.B) {
	b.Helper()
	writes, verbs := 0.0, []string{}
	for _, verb := range []string{"GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "APPLY", "DELETE", "dry run"} {
		verbs = append(verbs, fmt.Sprintf("%s %.0f", verb, m.requests[verb]))
		if !slices.Contains([]string{"GET", "LIST", "WATCH"}, verb) {
			writes += m.requests[verb]
		}
	}
	perSecond := func(seconds float64) string {
		return fmt.Sprintf("%.2f s, %.0f objects/s", seconds, float64(m.size)/seconds)
	}
	loop, whole, partial := median(m.loop), median(m.whole), median(m.partial)
	ratio, partialRatio := median(m.wholeRatio), median(m.partialRatio)
	p50, p99 := m.drift[len(m.drift)/2], m.drift[len(m.drift)*99/100]
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	line := func(what, measured, bar string, met bool) {
		verdict := map[bool]string{true: "met", false: "MISSED"}[met]
		if bar == "" {
			verdict = ""
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", what, measured, bar, verdict)
	}
	fmt.Fprintf(table, "\n%d OBJECTS\tMEASURED\tBAR\t\n", m.size)
	line("bare loop", perSecond(loop), "", true)
	rehearsed := median(m.rehearsed)
	line("the loop behind one of dry runs", fmt.Sprintf("%s, %.2f x the loop", perSecond(rehearsed), median(m.rehearsedRatio)), "", true)
	line("first apply", fmt.Sprintf("%s, %.2f x the loop", perSecond(whole), ratio), ">= 0.75 x", ratio >= 0.75)
	line("first apply, against that", fmt.Sprintf("%.2f x", median(m.twiceRatio)), "", true)
	line("first apply, --partial", fmt.Sprintf("%s, %.2f x the loop", perSecond(partial), partialRatio), "", true)
	line("kubectl apply --server-side", fmt.Sprintf("%s, %.2f x the loop", perSecond(m.viaKubectl.Seconds()), loop/m.viaKubectl.Seconds()), "", true)
	line("nothing changed, one pass", m.pass.String(), "<= 20 ms", m.pass.wall <= 20*time.Millisecond)
	line(fmt.Sprintf("requests of %d such passes", quietPasses), strings.Join(verbs, ", "), "no write, no dry run", writes == 0)
	line("one object changed, after the fetch", m.changed.String(), "<= 300 ms", m.changed.wall <= 300*time.Millisecond)
	line(fmt.Sprintf("an edit undone, p50 and p99 of %d", edits), ms(p50)+", "+ms(p99), "p99 <= 1 s", p99 <= time.Second)
	memoryBar := ""
	if m.size == 500 {
		memoryBar = "<= 80 MB"
	}
	line("memory of the agent", fmt.Sprintf("%.0f MB", m.memory), memoryBar, m.memory <= 80)
	if err := table.Flush(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(ratio, fmt.Sprintf("ratio-%d", m.size))
}
