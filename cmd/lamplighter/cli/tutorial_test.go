// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/cmd/lamplighter/show"
	"lamplighter.dev/internal/testkit"
)

// rolloutPatience bounds the wait for a rollout over all nodes.
const rolloutPatience = 3 * time.Minute

// TestTutorial does what docs/tutorial.md says, word for word, and sees that
// what the page promises comes true. Building and starting are done already,
// and kubectl only looks.
func TestTutorial(t *testing.T) {
	t.Parallel()
	r := newReader(t, testkit.Sandbox(t))
	text, err := os.ReadFile(filepath.Join(repository, "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	promises := []struct {
		section string
		sees    func()
	}{
		{"3. Look before you leap", func() { r.printed("frozen by year-end", "apply DaemonSet/kube-system/calico-node: Created") }},
		{"4. Apply", r.allUp},
		{"5. Upgrade, and see it wait", func() {
			r.printed("DaemonSet/kube-system/calico-node: ", "+        image: docker.io/calico/node:v3.30.3")
		}},
		{"6. The agent", func() { r.upgraded("upgrade the network now") }},
		{"7. A bad version", func() { r.upgraded(`Revert "a bad day"`) }},
	}
	page := blocks(string(text))
	for _, p := range promises {
		found := slices.ContainsFunc(page, func(b block) bool { return b.section == p.section })
		if !found {
			t.Errorf("the tutorial has no commands under %q any more", p.section)
		}
	}
	for i, b := range page {
		if i == 0 || page[i-1].section != b.section {
			r.output = ""
		}
		r.do(b.text)
		last := i+1 == len(page) || page[i+1].section != b.section
		for _, p := range promises {
			if last && p.section == b.section {
				p.sees()
			}
		}
		if strings.Contains(b.text, `"a bad day"`) {
			r.halted()
		}
	}
	r.run("lamplighter resume network")
	r.printed("0 failures acknowledged")
}

// reader sits at the terminal that the tutorial asks for.
type reader struct {
	t       *testing.T
	cluster *testkit.Cluster
	dir     string // where the terminal is
	output  string // since the section began
}

func newReader(t *testing.T, cluster *testkit.Cluster) *reader {
	t.Helper()
	r := &reader{t: t, cluster: cluster, dir: filepath.Join(t.TempDir(), "lamplighter")}
	copyTree(t, filepath.Join(repository, "examples"), filepath.Join(r.dir, "examples"))
	r.forgetEarlierReaders()
	return r
}

// forgetEarlierReaders empties the cluster of what a run before has left.
func (r *reader) forgetEarlierReaders() {
	r.t.Helper()
	k := newKube(r.t, r.cluster)
	for _, namespace := range []string{"lamplighter-system", "monitoring", "logging"} {
		if err := k.clear(namespace); err != nil {
			r.t.Fatal(err)
		}
	}
	ours := metav1.ListOptions{LabelSelector: "lamplighter.dev/instance=lamplighter"}
	err := r.cluster.Client.AppsV1().DaemonSets("kube-system").DeleteCollection(r.t.Context(), metav1.DeleteOptions{}, ours)
	if err != nil {
		r.t.Fatal(err)
	}
}

// do types the lines of a block.
func (r *reader) do(text string) {
	r.t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch program, rest, _ := strings.Cut(line, " "); {
		case slices.Contains([]string{"make", "export", "sandbox", "kubectl"}, program):
		case program == "cd":
			r.dir = filepath.Join(r.dir, rest)
		case strings.HasPrefix(line, "lamplighter agent"), strings.HasSuffix(line, "--watch"):
			r.begin(line)
		default:
			r.run(line)
		}
	}
}

func (r *reader) command(line string) *exec.Cmd {
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.cluster.Kubeconfig, "PWD="+r.dir)
	for name, value := range gitEnv {
		if !strings.HasSuffix(name, "_DATE") {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	return cmd
}

// run runs a line to its end. Differences are what diff is asked for.
func (r *reader) run(line string) {
	r.t.Helper()
	out, err := r.command(line).CombinedOutput()
	r.output += string(out)
	code := exitCode(r.t, err)
	if code != 0 && (code != 1 || !strings.HasPrefix(line, "lamplighter diff")) {
		r.t.Fatalf("$ %s\n%s[exit %d]", line, out, code)
	}
}

// begin starts what goes on until Ctrl-C, which comes with the end of the test.
func (r *reader) begin(line string) {
	r.t.Helper()
	var out buffer
	cmd := r.command("exec " + line)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			r.t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			r.t.Errorf("$ %s\n%s%v", line, &out, err)
		}
		if r.t.Failed() {
			r.t.Logf("$ %s\n%s", line, &out)
		}
	})
}

func (r *reader) printed(texts ...string) {
	r.t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.output, text) {
			r.t.Errorf("nothing printed %q:\n%s", text, r.output)
		}
	}
}

// allUp sees that every pod is ready, and that a second diff is empty.
func (r *reader) allUp() {
	r.t.Helper()
	r.see(patience, func(s show.Status) error { return done(s) })
	r.output = ""
	r.run("lamplighter diff --path clusters/demo")
	if r.output != "" {
		r.t.Errorf("the second diff is not empty:\n%s", r.output)
	}
}

// upgraded sees that a commit is in force on all nodes.
func (r *reader) upgraded(subject string) {
	r.t.Helper()
	r.see(rolloutPatience, func(s show.Status) error {
		if s.Commit.Subject != subject {
			return fmt.Errorf("commit %q is in force, want %q", s.Commit.Subject, subject)
		}
		if len(s.Objects) > 0 && s.Objects[0].Object != "" && s.Objects[0].Failed() {
			return fmt.Errorf("%v", s.Objects[0])
		}
		for _, p := range s.Policies {
			if p.Name == "network" && (p.Remaining > 0 || p.Halted) {
				return fmt.Errorf("%+v", p)
			}
		}
		return done(s)
	})
}

// halted sees that the first node that fails stops the rest.
func (r *reader) halted() {
	r.t.Helper()
	r.see(rolloutPatience, func(s show.Status) error {
		for _, p := range s.Policies {
			if p.Name == "network" && p.Halted {
				return nil
			}
		}
		return fmt.Errorf("network is not halted: %+v", s.Policies)
	})
	for _, d := range r.status().DaemonSets {
		if d.Name == "calico-node" && (d.Failed != 1 || d.Available != nodes-1) {
			r.t.Errorf("got %+v, want one node that failed and all others as they were", d)
		}
	}
}

func done(s show.Status) error {
	if len(s.DaemonSets) != 4 {
		return fmt.Errorf("%d DaemonSets, want 4", len(s.DaemonSets))
	}
	for _, d := range s.DaemonSets {
		if d.Desired == 0 || d.UpToDate != d.Desired || d.Available != d.Desired {
			return fmt.Errorf("%+v", d)
		}
	}
	return nil
}

func (r *reader) see(within time.Duration, cond func(show.Status) error) {
	r.t.Helper()
	testkit.Eventually(r.t, within, func(context.Context) error { return cond(r.status()) })
}

func (r *reader) status() show.Status {
	r.t.Helper()
	out, err := r.command("lamplighter status -o json").Output()
	if code := exitCode(r.t, err); code > 1 {
		r.t.Fatalf("status: exit code %d: %s", code, out)
	}
	var s show.Status
	if err := json.Unmarshal(out, &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}
