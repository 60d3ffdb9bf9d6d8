// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"lamplighter.dev/render"
)

// backwards reads files that begin with "sealed", whose lines are written
// backwards but for the first.
type backwards struct{ key string }

func (b backwards) ID() string { return b.key }

func (b backwards) Decrypt(name string, data []byte) ([]byte, []string, error) {
	text, ok := strings.CutPrefix(string(data), "sealed\n")
	if !ok {
		return data, nil, nil
	}
	if b.key == "" {
		return nil, nil, errors.New("is encrypted for somebody else")
	}
	var out bytes.Buffer
	for line := range strings.Lines(text) {
		line = reverse(strings.TrimSuffix(line, "\n"))
		out.WriteString(line + "\n")
	}
	return out.Bytes(), strings.FieldsFunc(out.String(), func(r rune) bool { return strings.ContainsRune(" {}[]:=/.\n", r) }), nil
}

func reverse(s string) string {
	var out []rune
	for _, r := range s {
		out = append([]rune{r}, out...)
	}
	return string(out)
}

// sealed writes text as backwards reads it.
func sealed(text string) string {
	out := "sealed\n"
	for line := range strings.Lines(text) {
		out += reverse(strings.TrimSuffix(line, "\n")) + "\n"
	}
	return out
}

func TestEncryptedFilesAreBuiltInPlainText(t *testing.T) {
	tree := directory(t, map[string]string{
		"agent.conf":          "-> real/agent.conf",
		"kustomization.yaml":  "resources: [secret.yaml]\npatches: [{path: patch.yaml}]\nsecretGenerator: [{name: gen, envs: [agent.env], files: [agent.conf], options: {disableNameSuffixHash: true}}]\n",
		"secret.yaml":         sealed("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {p: one}\n"),
		"patch.yaml":          sealed("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {q: two}\n"),
		"agent.env":           sealed("TOKEN=three\n"),
		"real/agent.conf":     sealed("four\n"),
		"not-part-of-it.yaml": sealed("x: y"),
	})
	b := render.Builder{Decryptor: backwards{"key"}}
	out, err := b.Build(t.Context(), tree, ".")
	if err != nil {
		t.Fatal(err)
	}
	var got []any
	for _, o := range out.Objects {
		got = append(got, o.Object["data"], o.Object["stringData"])
	}
	want := []any{nil, map[string]any{"p": "one", "q": "two"}, map[string]any{"TOKEN": "dGhyZWU=", "agent.conf": "Zm91cgo="}, nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// inBraces opens what is written as <<value>>.
type inBraces struct{}

var braces = regexp.MustCompile(`<<(.*?)>>`)

func (inBraces) ID() string { return "braces" }

func (inBraces) Decrypt(_ string, data []byte) ([]byte, []string, error) {
	var values []string
	for _, m := range braces.FindAllStringSubmatch(string(data), -1) {
		values = append(values, m[1])
	}
	return braces.ReplaceAll(data, []byte("$1")), values, nil
}

// Wherever in an object what was encrypted ends up, its path is told, and nothing
// else is hidden.
func TestWhatWasEncryptedIsHidden(t *testing.T) {
	tree := directory(t, map[string]string{
		"kustomization.yaml": `
resources: [app.yaml, clear.yaml]
patches: [{path: patch.yaml}]
configMapGenerator:
- {name: gen, envs: [agent.env], files: [note.txt], options: {disableNameSuffixHash: true}}
- {name: bytes, files: [blob], options: {disableNameSuffixHash: true}}
- {name: open, literals: [a=b], options: {disableNameSuffixHash: true}}
secretGenerator:
- {name: secret, envs: [agent.env], options: {disableNameSuffixHash: true}}
`,
		"app.yaml": `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: app}
spec:
  minReadySeconds: <<7>>
  template: {spec: {containers: [{name: app, image: "app:v1", args: [--pin=s3cr3t], env: [{name: TOKEN, value: <<s3cr3t>>}]}]}}
`,
		"clear.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: clear}\ndata: {a: b}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: patched}\nspec: {clusterIP: None}\n",
		"patch.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: patched, annotations: {token: <<hunter2>>}}\n",
		"agent.env":  "TOKEN=<<three>>\nPIN=<<1>>\n",
		"note.txt":   "clear\n",
		"blob":       "\xff<<four>>",
	})
	b := render.Builder{Decryptor: inBraces{}}
	out, err := b.Build(t.Context(), tree, ".")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, o := range out.Objects {
		for _, path := range o.Hidden {
			got[o.GetName()] = append(got[o.GetName()], strings.Join(path, "."))
		}
	}
	want := map[string][]string{
		"app":     {"spec.minReadySeconds", "spec.template.spec.containers.*.args.*", "spec.template.spec.containers.*.env.*.value"},
		"gen":     {"data.*"},
		"bytes":   {"binaryData.*"},
		"patched": {"metadata.annotations.token"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := out.Redact("hunter2 and three"); got != "*** and ***" {
		t.Errorf("redacted: %q", got)
	}
}

func TestWhatCannotBeDecryptedIsNamed(t *testing.T) {
	tree := directory(t, map[string]string{
		"kustomization.yaml": "configMapGenerator: [{name: gen, envs: [agent.env]}]\n",
		"agent.env":          sealed("TOKEN=three\n"),
	})
	b := render.Builder{Decryptor: backwards{}}
	_, err := b.Build(t.Context(), tree, ".")
	const want = "kustomization.yaml: line 1: configMapGenerator[0].envs[0]: agent.env: is encrypted for somebody else"
	if err == nil || err.Error() != want {
		t.Errorf("err = %v, want %s", err, want)
	}
	if _, ok := errors.AsType[*render.DecryptError](err); !ok {
		t.Errorf("%T is no DecryptError", err)
	}
}

// Kustomize quotes what it cannot use.
func TestNoErrorShowsWhatWasEncrypted(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"a patch":     {"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": configMap, "p.yaml": sealed("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hunter2}\n")},
		"a reference": {"kustomization.yaml": sealed("resources: [hunter2.yaml]")},
	} {
		b := render.Builder{Decryptor: backwards{"key"}}
		_, err := b.Build(t.Context(), directory(t, files), ".")
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

// A build that is not made again answers the very objects of the last.
func TestOnlyWhatABuildReadsMakesItBuildAgain(t *testing.T) {
	base := func() map[string]string {
		return map[string]string{
			"README.md":                        "one",
			"clusters/prod/kustomization.yaml": "resources: [../../agents/a, ../../plain]\nconfigMapGenerator: [{name: gen, files: [settings]}]\n",
			"clusters/prod/settings":           "x",
			"agents/a/kustomization.yaml":      "resources: [a.yaml]\n",
			"agents/a/a.yaml":                  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n",
			"plain/kustomization.yaml":         "resources: [b.yaml]\n",
			"plain/b.yaml":                     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n",
		}
	}
	const path = "clusters/prod"
	for name, tt := range map[string]struct {
		change func(files map[string]string)
		key    string
		path   string
		again  bool
	}{
		"nothing":                     {func(map[string]string) {}, "key", path, false},
		"a README":                    {func(f map[string]string) { f["README.md"] = "two" }, "key", path, false},
		"a file beside":               {func(f map[string]string) { f["agents/a/new.yaml"] = configMap }, "key", path, false},
		"a base":                      {func(f map[string]string) { f["agents/a/a.yaml"] += "data: {a: b}\n" }, "key", path, true},
		"a file of a generator":       {func(f map[string]string) { f["clusters/prod/settings"] = "y" }, "key", path, true},
		"a kustomization":             {func(f map[string]string) { f["plain/kustomization.yaml"] += "namePrefix: x-\n" }, "key", path, true},
		"a kustomization that is new": {func(f map[string]string) { f["agents/a/Kustomization"] = "resources: []\n" }, "key", path, true},
		"a file that is gone":         {func(f map[string]string) { delete(f, "plain/b.yaml") }, "key", path, true},
		"other keys":                  {func(map[string]string) {}, "other", path, true},
		"another path":                {func(map[string]string) {}, "key", "agents/a", true},
	} {
		t.Run(name, func(t *testing.T) {
			b := render.Builder{Decryptor: backwards{"key"}}
			last, err := b.Build(t.Context(), directory(t, base()), path)
			if err != nil {
				t.Fatal(err)
			}
			files := base()
			tt.change(files)
			tree := directory(t, files)
			b.Decryptor = backwards{tt.key}
			got, err := b.Build(t.Context(), tree, tt.path)

			fresh := render.Builder{Decryptor: backwards{tt.key}}
			want, wantErr := fresh.Build(t.Context(), tree, tt.path)
			if diff := cmp.Diff(format(t, want), format(t, got)); diff != "" || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%v, want %v (-fresh +got):\n%s", err, wantErr, diff)
			}
			if again := err != nil || got.Objects[0].Unstructured != last.Objects[0].Unstructured; again != tt.again {
				t.Errorf("built again: %v, want %v", again, tt.again)
			}
		})
	}
}

// What was built before a tree that cannot be is still known after it.
func TestBuildThatFailsForgetsNothing(t *testing.T) {
	good, bad := fstest.MapFS{"a.yaml": {Data: []byte(configMap)}}, fstest.MapFS{"a.yaml": {Data: []byte("kind: [")}}
	var b render.Builder
	first, err := b.Build(t.Context(), good, ".")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Build(t.Context(), bad, "."); err == nil {
		t.Fatal("no error")
	}
	second, err := b.Build(t.Context(), good, ".")
	if err != nil || first.Objects[0].Unstructured != second.Objects[0].Unstructured {
		t.Errorf("built again, or %v", err)
	}
	added := fstest.MapFS{"a.yaml": good["a.yaml"], "b.yaml": {Data: []byte(strings.ReplaceAll(configMap, "name: a", "name: b"))}}
	if third, err := b.Build(t.Context(), added, "."); err != nil || len(third.Objects) != 2 {
		t.Errorf("a manifest more: %d objects, %v", len(third.Objects), err)
	}
}
