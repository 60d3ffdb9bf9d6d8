// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/agent"
)

// A folder with an age and an OpenPGP key is mounted, and one of them comes late, as
// a Secret that somebody adds to. Until then nothing of the commit reaches the
// cluster; after that the Secrets have what SOPS itself decrypts, and nobody else.
func TestSecretsAreDecryptedOnceTheirKeysAreThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	samples, keys := filepath.Join("..", "..", "render", "sops", "testdata"), t.TempDir()
	give := func(name string) {
		t.Helper()
		key, err := os.ReadFile(filepath.Join(samples, "keys", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(keys, name), key, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files := map[string]string{"a.yaml": configMap("a", "1")}
	var resources []string
	for _, kind := range []string{"secret", "pgp"} { // both are the Secret cni
		archive, err := txtar.ParseFile(filepath.Join(samples, kind+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		files[kind+"/secret.yaml"] = string(archive.Files[0].Data)
		files[kind+"/kustomization.yaml"] = "namePrefix: " + kind + "-\nresources: [secret.yaml]\n"
		resources = append(resources, kind)
	}
	files["kustomization.yaml"] = w.kustomization(append(resources, "a.yaml"), "")

	give("age.agekey")
	started := w.start(t, func(cfg *agent.Config) { cfg.DecryptionKeys = keys })
	hash := w.commit(t, "two Secrets", files)
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err == nil && !strings.Contains(state.Record.Problem, "is encrypted for") {
			err = fmt.Errorf("problem: %q", state.Record.Problem)
		}
		return err
	})
	w.polled(t, 2)
	if _, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("ConfigMap a of a commit that cannot be decrypted: %v", err)
	}
	give("alice.asc")
	w.inForce(t, hash)
	want := map[string]string{"password": "s3cr3t-lamp", "config.yaml": "token: abc\nlines: two\n", "empty": "", "number": "0123", "yes": "yes"}
	for _, name := range []string{"secret-cni", "pgp-cni"} {
		var secret *corev1.Secret
		testkit.Eventually(t, patience, func(ctx context.Context) (err error) {
			secret, err = w.Client.CoreV1().Secrets(w.namespace).Get(ctx, name, metav1.GetOptions{})
			return err
		})
		for key, value := range want {
			if got := string(secret.Data[key]); got != value {
				t.Errorf("Secret %s: %s is %q, want %q", name, key, got, value)
			}
		}
		if len(secret.Data) != len(want) || len(secret.ManagedFields) != 1 || secret.ManagedFields[0].Manager != inventory.FieldManager {
			t.Errorf("Secret %s has %d values and the managers %v", name, len(secret.Data), secret.ManagedFields)
		}
	}
	state := text(t, w.stateNow(t))
	for _, secret := range []string{"s3cr3t-lamp", "czNjcjN0LWxhbXA", "AGE-SECRET-KEY", "PRIVATE KEY"} {
		if strings.Contains(state, secret) || strings.Contains(started.log.String(), secret) {
			t.Errorf("%s is in the state or in the log", secret)
		}
	}
}
