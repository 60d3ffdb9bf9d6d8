// SPDX-License-Identifier: Apache-2.0

package health

import (
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestClassify(t *testing.T) {
	ago := func(d time.Duration) time.Time { return at.Add(-d) }
	pod := func(hash string, change func(*Pod)) *Pod {
		p := &Pod{Name: types.NamespacedName{Namespace: "ns", Name: hash}, UID: types.UID(hash), Hash: hash, Created: ago(time.Hour), Ready: true, ReadySince: ago(time.Hour), Phase: corev1.PodRunning}
		if change != nil {
			change(p)
		}
		return p
	}
	unready := func(created time.Duration) func(*Pod) {
		return func(p *Pod) { p.Ready, p.ReadySince, p.Created = false, time.Time{}, ago(created) }
	}
	readyFor := func(d time.Duration) func(*Pod) { return func(p *Pod) { p.ReadySince, p.Created = ago(d), ago(d) } }
	going := func(past time.Duration) func(*Pod) {
		return func(p *Pod) { p.Deleting, p.DeletionDeadline = true, ago(past) }
	}
	phase := func(phase corev1.PodPhase) func(*Pod) {
		return func(p *Pod) { p.Phase, p.Ready = phase, false }
	}
	loops := func(p *Pod) { p.Ready, p.Problem = false, Problem{"CrashLoopBackOff", "x"} }
	up, down := Node{Name: "n", Ready: true}, Node{Name: "n", NotReadyReason: "gone"}
	back := Node{Name: "n", Ready: true, Since: ago(time.Minute)}
	dead := func(since time.Duration) Node { return Node{Name: "n", Since: ago(since)} }
	should, stay, leave := Placement{ShouldRun: true, ShouldContinue: true}, Placement{ShouldContinue: true, Reason: "taint"}, Placement{Reason: "selector"}
	visited := Visit{Evicted: ago(2 * time.Minute), GracePeriod: 30 * time.Second}
	long := Visit{Evicted: ago(15*time.Minute + 30*time.Second), GracePeriod: 30 * time.Second, Gone: ago(15 * time.Minute)}
	hung := func(gone time.Duration) Visit {
		return Visit{Evicted: ago(time.Hour), GracePeriod: 30 * time.Second, Gone: ago(gone)}
	}
	replaced := func(d time.Duration) Visit { return Visit{Evicted: ago(time.Hour), Replaced: ago(d)} }
	tests := map[string]struct {
		node      Node
		placement Placement
		pods      []*Pod
		visit     Visit
		want      State
		until     time.Duration // from now; zero for never
	}{
		"settled":                                {up, should, []*Pod{pod("new", nil)}, Visit{}, Current, 0},
		"settled at this instant":                {up, should, []*Pod{pod("new", readyFor(30*time.Second))}, Visit{}, Current, 0},
		"a second before":                        {up, should, []*Pod{pod("new", readyFor(29*time.Second))}, Visit{}, Settling, time.Second},
		"not Ready":                              {up, should, []*Pod{pod("new", unready(time.Minute))}, Visit{}, Settling, 9 * time.Minute},
		"not Ready for readyTimeout":             {up, should, []*Pod{pod("new", unready(10*time.Minute))}, Visit{}, Failed, 0},
		"was settled before it stopped":          {up, should, []*Pod{pod("new", func(p *Pod) { p.Ready, p.UnreadySince = false, ago(time.Minute) })}, Visit{}, Settling, 9 * time.Minute},
		"in a visit it has one timeout":          {up, should, []*Pod{pod("new", func(p *Pod) { p.Ready, p.UnreadySince = false, ago(time.Minute) })}, replaced(10 * time.Minute), Failed, 0},
		"in a visit, created again":              {up, should, []*Pod{pod("new", unready(time.Second))}, replaced(9 * time.Minute), Settling, time.Minute},
		"Ready past the timeout":                 {up, should, []*Pod{pod("new", readyFor(10*time.Second))}, replaced(20 * time.Minute), Settling, 20 * time.Second},
		"crash loop":                             {up, should, []*Pod{pod("new", loops)}, Visit{}, Failed, 0},
		"Failed":                                 {up, should, []*Pod{pod("new", phase(corev1.PodFailed))}, Visit{}, Failed, 0},
		"ended":                                  {up, should, []*Pod{pod("new", phase(corev1.PodSucceeded))}, Visit{}, Failed, 0},
		"the newest of two new ones":             {up, should, []*Pod{pod("new", phase(corev1.PodFailed)), pod("new", readyFor(40*time.Second))}, Visit{}, Current, 0},
		"old":                                    {up, should, []*Pod{pod("old", nil)}, Visit{}, Outdated, 0},
		"old, not Ready":                         {up, should, []*Pod{pod("old", unready(time.Minute))}, Visit{}, OutdatedDown, 0},
		"old, Ready but not available":           {up, should, []*Pod{pod("old", readyFor(10*time.Second))}, Visit{}, OutdatedDown, 20 * time.Second},
		"old, crash loop":                        {up, should, []*Pod{pod("old", loops)}, Visit{}, OutdatedDown, 0},
		"old, Failed":                            {up, should, []*Pod{pod("old", phase(corev1.PodFailed))}, Visit{}, OutdatedDown, 0},
		"without a label":                        {up, should, []*Pod{pod("", nil)}, Visit{}, Outdated, 0},
		"old going, in its grace period":         {up, should, []*Pod{pod("old", going(-20*time.Second))}, Visit{}, Replacing, 5*time.Minute + 20*time.Second},
		"old going, past terminationTimeout":     {up, should, []*Pod{pod("old", going(5*time.Minute))}, Visit{}, Stuck, 0},
		"new going":                              {up, should, []*Pod{pod("new", going(0))}, Visit{}, Replacing, 5 * time.Minute},
		"old going beside a new one":             {up, should, []*Pod{pod("old", going(time.Hour)), pod("new", nil)}, Visit{}, Current, 0},
		"terminal old object that lingers":       {up, should, []*Pod{pod("old", func(p *Pod) { going(time.Hour)(p); p.Phase = corev1.PodFailed })}, visited, Replacing, 13*time.Minute + 30*time.Second},
		"nothing":                                {up, should, nil, Visit{}, Missing, 0},
		"nothing after an eviction":              {up, should, nil, visited, Replacing, 13*time.Minute + 30*time.Second},
		"nothing long after an eviction":         {up, should, nil, long, Failed, 0},
		"the old one hung and is gone just now":  {up, should, nil, Visit{Evicted: ago(time.Hour), GracePeriod: 30 * time.Second}, Replacing, 10 * time.Minute},
		"it hung and is gone for a while":        {up, should, nil, hung(9 * time.Minute), Replacing, time.Minute},
		"it hung and is gone for readyTimeout":   {up, should, nil, hung(10 * time.Minute), Failed, 0},
		"not wanted":                             {up, leave, nil, Visit{}, NotWanted, 0},
		"not wanted, the pod is going to be":     {up, leave, []*Pod{pod("old", nil)}, visited, NotWanted, 0},
		"may stay, is not there":                 {up, stay, nil, visited, NotWanted, 0},
		"may stay, is there":                     {up, stay, []*Pod{pod("old", nil)}, Visit{}, Outdated, 0},
		"node back, pod not Ready yet":           {back, should, []*Pod{pod("new", func(p *Pod) { p.Ready, p.UnreadySince = false, ago(time.Hour) })}, Visit{}, Settling, 9 * time.Minute},
		"node back, in a visit":                  {back, should, []*Pod{pod("new", unready(time.Hour))}, replaced(time.Hour), Settling, 9 * time.Minute},
		"node back, no pod yet":                  {back, should, nil, long, Replacing, 14*time.Minute + 30*time.Second},
		"node down since our eviction":           {dead(time.Minute), stay, nil, visited, Unreachable, 9 * time.Minute},
		"node down for readyTimeout since it":    {dead(10 * time.Minute), stay, nil, long, Unreachable, 0},
		"node down, our eviction was never sent": {dead(time.Minute), should, []*Pod{pod("old", nil)}, visited, Unreachable, 0},
		"node down":                              {down, should, []*Pod{pod("new", nil)}, Visit{}, Unreachable, 0},
		"node down, tainted, pod gone, visited":  {down, stay, nil, visited, Unreachable, 8 * time.Minute},
		"node down, tainted, no pod, never ours": {down, stay, nil, Visit{}, NotWanted, 0},
	}
	limits := Limits{MinReady: 10 * time.Second, ReadyTimeout: 10 * time.Minute, TerminationTimeout: 5 * time.Minute}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ds := DaemonSet{Revision: "new", RevisionObserved: true, MinReadySeconds: 30}
			rand.Shuffle(len(tt.pods), func(i, j int) { tt.pods[i], tt.pods[j] = tt.pods[j], tt.pods[i] })
			got := Classify(Situation{Node: &tt.node, DaemonSet: &ds, Placement: tt.placement, Pods: tt.pods, Visit: tt.visit, Limits: limits}, at)
			if got.State != tt.want {
				t.Errorf("got %s (%s), want %s", got.State, got.Message, tt.want)
			}
			if late := tt.node.Since.Equal(ago(10*time.Minute)) || tt.want == Failed; got.Overdue != late {
				t.Errorf("overdue %v, want %v", got.Overdue, late)
			}
			switch want := at.Add(tt.until); {
			case tt.until == 0 && !got.Until.IsZero():
				t.Errorf("changes at %s, want never", got.Until)
			case tt.until != 0 && !got.Until.Equal(want):
				t.Errorf("changes at %s, want %s", got.Until, want)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	limits, ds := Limits{MinReady: 10 * time.Second}, DaemonSet{MinReadySeconds: 5}
	pod := Pod{Ready: true, ReadySince: at}
	if limits.Available(&ds, &pod, at.Add(9*time.Second)) || !limits.Available(&ds, &pod, at.Add(10*time.Second)) {
		t.Error("want available from 10s on")
	}
	if pod.Deleting = true; limits.Available(&ds, &pod, at.Add(time.Hour)) {
		t.Error("a pod that is going is not available")
	}
}

func TestShortDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m", 15*time.Minute + 30*time.Second: "15m30s", 30 * time.Second: "30s", 0: "0s"} {
		if got := shortDuration(d); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
