// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/cmd/lamplighter/cli"
	"lamplighter.dev/render"
)

// install is what examples/install holds, by kind and name, with the components
// that it shows switched on or off.
func install(t *testing.T, components bool) map[string]render.Object {
	t.Helper()
	dir := t.TempDir()
	copyTree(t, filepath.Join(repository, "examples", "install"), dir)
	if components {
		file := filepath.Join(dir, "kustomization.yaml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		on := strings.ReplaceAll(string(text), "# components:", "components:")
		if on == string(text) {
			t.Fatal("examples/install/kustomization.yaml shows no component")
		}
		if err := os.WriteFile(file, []byte(on), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	built, err := render.Build(t.Context(), os.DirFS(dir), ".")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]render.Object{}
	for _, o := range built.Objects {
		found[o.GetKind()+"/"+o.GetName()] = o
	}
	return found
}

func as[T any](t *testing.T, o render.Object) T {
	t.Helper()
	var typed T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true); err != nil {
		t.Fatalf("%s/%s: %v", o.GetKind(), o.GetName(), err)
	}
	return typed
}

func TestInstalledAgentTakesItsArguments(t *testing.T) {
	t.Parallel()
	for _, components := range []bool{false, true} {
		t.Run(fmt.Sprintf("components %t", components), func(t *testing.T) {
			d := as[appsv1.Deployment](t, install(t, components)["Deployment/lamplighter"])
			args := d.Spec.Template.Spec.Containers[0].Args
			root := cli.NewCommand(cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard})
			cmd, rest, err := root.Find(args)
			if err != nil || cmd.Name() != "agent" {
				t.Fatalf("%v: %v", args, err)
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%v: %v", args, err)
			}
		})
	}
}

func TestInstalledReceiverIsReached(t *testing.T) {
	t.Parallel()
	objects := install(t, true)
	service := as[corev1.Service](t, objects["Service/lamplighter-webhook"])
	d := as[appsv1.Deployment](t, objects["Deployment/lamplighter"])
	pod := d.Spec.Template
	for key, value := range service.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("the Service selects %s=%s, the pods have %v", key, value, pod.Labels)
		}
	}
	container := pod.Spec.Containers[0]
	target := service.Spec.Ports[0].TargetPort.StrVal
	i := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == target })
	if i < 0 {
		t.Fatalf("the Service's target %q is none of %v", target, container.Ports)
	}
	if want := fmt.Sprintf("--webhook=:%d", container.Ports[i].ContainerPort); !slices.Contains(container.Args, want) {
		t.Errorf("the agent has no %s: %v", want, container.Args)
	}
	mounted(t, pod.Spec, "webhook", "--webhook-token-file=%s/token")
	mounted(t, pod.Spec, "keys", "--verify-keys=%s/keys")
	mounted(t, pod.Spec, "decryption-keys", "--decryption-keys=%s")
	mounted(t, pod.Spec, "git-auth", "--git-auth=%s")
	mounted(t, pod.Spec, "git-cache", "--cache=%s")

	ingress := ingressOf(t, "docs/guides/webhooks.md")
	path := ingress.Spec.Rules[0].HTTP.Paths[0]
	if path.Path != "/webhook" || path.Backend.Service.Name != service.Name || path.Backend.Service.Port.Name != service.Spec.Ports[0].Name || ingress.Namespace != service.Namespace {
		t.Errorf("the guide's Ingress leads to %+v in %s", path, ingress.Namespace)
	}
	if _, without := install(t, false)["Service/lamplighter-webhook"]; without {
		t.Error("the receiver is installed for those who did not ask for it")
	}
}

// mounted wants a volume to be where the agent looks for its file.
func mounted(t *testing.T, pod corev1.PodSpec, volume, arg string) {
	t.Helper()
	container := pod.Containers[0]
	i := slices.IndexFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	if i < 0 || !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == volume }) {
		t.Fatalf("no volume %s is mounted", volume)
	}
	if want := fmt.Sprintf(arg, container.VolumeMounts[i].MountPath); !slices.Contains(container.Args, want) {
		t.Errorf("the agent has no %s: %v", want, container.Args)
	}
}

// ingressOf is the Ingress that a page shows.
func ingressOf(t *testing.T, page string) networkingv1.Ingress {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var ingress networkingv1.Ingress
		if strings.Contains(block, "kind: Ingress\n") {
			if err := yaml.UnmarshalStrict([]byte(block), &ingress); err != nil {
				t.Fatal(err)
			}
			return ingress
		}
	}
	t.Fatalf("%s shows no Ingress", page)
	return networkingv1.Ingress{}
}
