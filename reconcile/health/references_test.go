// SPDX-License-Identifier: Apache-2.0

package health

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"lamplighter.dev/inventory"
)

func core(kind, name string) inventory.ID {
	return inventory.ID{Namespace: "ns", Name: name, GroupKind: schema.GroupKind{Kind: kind}}
}

func TestReferences(t *testing.T) {
	const spec = `
serviceAccountName: sa
priorityClassName: critical
runtimeClassName: gvisor
resourceClaims:
- {name: gpu, resourceClaimName: shared-gpu}
- {name: nic, resourceClaimTemplateName: nic}
imagePullSecrets: [{name: pull}]
volumes:
- {name: a, configMap: {name: cm-volume, optional: true}}
- {name: b, secret: {secretName: secret-volume}}
- {name: c, persistentVolumeClaim: {claimName: claim}}
- name: d
  projected:
    sources:
    - configMap: {name: cm-projected}
    - secret: {name: secret-projected}
    - serviceAccountToken: {path: token}
    - clusterTrustBundle: {name: roots, path: roots.pem}
    - clusterTrustBundle: {signerName: example.com/signer, path: signer.pem}
- {name: e, csi: {driver: x, nodePublishSecretRef: {name: secret-csi}}}
- {name: f, cephfs: {monitors: [m], secretRef: {name: secret-ceph}}}
- {name: g, hostPath: {path: /}}
- {name: h, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
- {name: j, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
initContainers:
- {name: i, env: [{name: A, valueFrom: {secretKeyRef: {name: secret-init, key: k}}}]}
containers:
- name: c
  env:
  - {name: A, value: x}
  - {name: B, valueFrom: {configMapKeyRef: {name: cm-env, key: k}}}
  - {name: C, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
  envFrom: [{configMapRef: {name: cm-from}}, {secretRef: {name: secret-from}}, {configMapRef: {name: cm-env}}]
ephemeralContainers:
- {name: e, envFrom: [{secretRef: {name: secret-ephemeral}}]}
`
	var pod corev1.PodSpec
	if err := yaml.UnmarshalStrict([]byte(spec), &pod); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, id := range References(&pod, "ns") {
		got = append(got, inventory.Format(id))
	}
	want := strings.Fields(`
		ClusterTrustBundle.certificates.k8s.io/roots ConfigMap/ns/cm-env ConfigMap/ns/cm-from ConfigMap/ns/cm-projected ConfigMap/ns/cm-volume
		PersistentVolumeClaim/ns/claim PriorityClass/critical
		ResourceClaim.resource.k8s.io/ns/shared-gpu ResourceClaimTemplate.resource.k8s.io/ns/nic RuntimeClass/gvisor
		Secret/ns/pull Secret/ns/secret-ceph Secret/ns/secret-csi Secret/ns/secret-ephemeral Secret/ns/secret-from
		Secret/ns/secret-init Secret/ns/secret-projected Secret/ns/secret-volume ServiceAccount/ns/sa
		StorageClass/fast`)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := References(nil, "ns"); got != nil {
		t.Errorf("no spec names %v", got)
	}
}

// Every volume source that can name a Secret, ConfigMap or claim is read: the
// test fills each one by reflection, so that a new one in the API fails here.
func TestReferencesOfEveryVolume(t *testing.T) {
	ephemeral := map[string]bool{"Ephemeral": true} // its claim is made for the pod
	source := reflect.TypeFor[corev1.VolumeSource]()
	for i := range source.NumField() {
		field := source.Field(i)
		if ephemeral[field.Name] {
			continue
		}
		volume := reflect.New(source).Elem()
		value := reflect.New(field.Type.Elem())
		named := fill(value.Elem())
		volume.Field(i).Set(value)
		pod := corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: volume.Interface().(corev1.VolumeSource)}}}
		if got := len(References(&pod, "ns")); got != named {
			t.Errorf("%s names %d objects, got %d", field.Name, named, got)
		}
	}
}

// fill names an object wherever the struct can name one that we prune, and says
// how many it named.
func fill(v reflect.Value) int {
	named := 0
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch {
		case f.Type() == reflect.TypeFor[*corev1.LocalObjectReference]():
			f.Set(reflect.ValueOf(&corev1.LocalObjectReference{Name: "x"}))
			named++
		case f.Type() == reflect.TypeFor[corev1.LocalObjectReference]():
			f.Set(reflect.ValueOf(corev1.LocalObjectReference{Name: "x"}))
			named++
		case (name == "SecretName" || name == "ClaimName") && f.Kind() == reflect.String:
			f.SetString("x")
			named++
		case f.Type() == reflect.TypeFor[[]corev1.VolumeProjection]():
			f.Set(reflect.ValueOf([]corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}, Optional: new(true)}},
			}))
			named += 2
		}
	}
	return named
}
