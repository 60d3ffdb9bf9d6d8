// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"lamplighter.dev/internal/testkit"
	"lamplighter.dev/inventory"
)

// needed is one object that the pods of the first version need.
type needed struct {
	object   string // as notes name it
	resource schema.GroupVersionResource
	manifest string
}

// whatPodsNeed is one of each kind that the prune guard knows. Names of objects
// without a namespace are the test's own.
func whatPodsNeed(w *world) []needed {
	core, rights := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	own := w.namespace
	subject := fmt.Sprintf("subjects: [{kind: ServiceAccount, name: agent, namespace: %s}]\n", w.namespace)
	return []needed{
		{w.in("ConfigMap", "needed"), core.WithResource("configmaps"), configMap("needed", "1")},
		{w.in("Secret", "needed"), core.WithResource("secrets"), "apiVersion: v1\nkind: Secret\nmetadata: {name: needed}\nstringData: {key: value}\n"},
		{w.in("ServiceAccount", "agent"), core.WithResource("serviceaccounts"), "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: agent}\n"},
		{w.in("PersistentVolumeClaim", "needed"), core.WithResource("persistentvolumeclaims"), fmt.Sprintf("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: needed, annotations: {pv.kubernetes.io/bind-completed: \"yes\"}}\nspec: {accessModes: [ReadWriteMany], storageClassName: \"\", volumeName: %s, resources: {requests: {storage: 1Mi}}}\n", own)},
		{"PriorityClass/" + own, schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}, fmt.Sprintf("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: %s}\nvalue: 1000\n", own)},
		{"RuntimeClass/" + own, schema.GroupVersionResource{Group: "node.k8s.io", Version: "v1", Resource: "runtimeclasses"}, fmt.Sprintf("apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: %s}\nhandler: runc\n", own)},
		{"ClusterRole/" + own, rights.WithResource("clusterroles"), fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: %s}\nrules: [{apiGroups: [\"\"], resources: [nodes], verbs: [get]}]\n", own)},
		{"ClusterRoleBinding/" + own, rights.WithResource("clusterrolebindings"), fmt.Sprintf("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: %s}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}\n%s", own, own, subject)},
		{w.in("Role", "needed"), rights.WithResource("roles"), "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: needed}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}]\n"},
		{w.in("RoleBinding", "needed"), rights.WithResource("rolebindings"), "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: needed}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: needed}\n" + subject},
	}
}

// needy is the DaemonSet agent that needs one of each.
func needy(w *world) string {
	return strings.Replace(daemonSet("1", "slow-500ms"), "    spec:\n      terminationGracePeriodSeconds: 1\n", fmt.Sprintf(`    spec:
      terminationGracePeriodSeconds: 1
      serviceAccountName: agent
      priorityClassName: %s
      runtimeClassName: %s
      volumes:
      - {name: config, configMap: {name: needed}}
      - {name: data, persistentVolumeClaim: {claimName: needed}}
`, w.namespace, w.namespace), 1) + "        envFrom: [{secretRef: {name: needed}}]\n"
}

// Git drops all that the old pods need in the commit that brings the new
// template. All of it stays while the template waits for its window, and until
// the last old pod is gone; then it goes.
func TestWhatOldPodsNeedStaysUntilTheLastIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	all := whatPodsNeed(w)
	volume := fmt.Sprintf("apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: %s}\nspec: {accessModes: [ReadWriteMany], capacity: {storage: 1Mi}, hostPath: {path: /tmp}, claimRef: {namespace: %s, name: needed}}\n", w.namespace, w.namespace)
	files := func(agent string, night span, more ...needed) map[string]string {
		out := map[string]string{
			"agent.yaml": agent, "volume.yaml": volume,
			"rules.yaml": rules{windows: "night", maxUnavailable: "4", more: night.window("night")}.yaml(w),
		}
		for i := range len(all) { // what is dropped must not be the most of it
			out[fmt.Sprintf("other-%d.yaml", i)] = configMap(fmt.Sprintf("other-%d", i), "1")
		}
		for i, n := range more {
			out[fmt.Sprintf("needed-%d.yaml", i)] = n.manifest
		}
		return w.fleet(out)
	}
	t.Cleanup(func() { // it is in no namespace that goes with the test
		err := w.Client.CoreV1().PersistentVolumes().Delete(context.WithoutCancel(t.Context()), w.namespace, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
		w.unprotect(t, "persistentvolumes", "", w.namespace)
		w.unprotect(t, "persistentvolumeclaims", w.namespace, "needed")
	})
	w.commit(t, "version 1, and what it needs", files(needy(w), far(), all...))
	w.settled(t, "1")
	var deletions []func(*testing.T) string
	for _, n := range all {
		deletions = append(deletions, w.watchDeletion(t, n))
	}

	// A ServiceAccount that is only left out stays in the template, by its older name.
	plain := strings.Replace(daemonSet("2", "slow-500ms"), "      containers:", "      serviceAccountName: default\n      containers:", 1)
	w.inForce(t, w.commit(t, "version 2 needs nothing", files(plain, far())))
	w.keepInUse(t, all)

	w.commit(t, "open tonight", files(plain, span{second(0), second(time.Hour)}))
	w.settled(t, "2")
	for i, n := range all {
		pruned := deletions[i](t)
		for _, e := range w.pods.Events(t) {
			if e.Type == watch.Deleted && e.Pod.Annotations[versionKey] == "1" && newer(t, e.Pod.ResourceVersion, pruned) {
				t.Errorf("%s was pruned while pod %s still needed it", n.object, e.Pod.Name)
			}
		}
	}
	w.unprotect(t, "persistentvolumeclaims", w.namespace, "needed")
	testkit.Eventually(t, patience, func(ctx context.Context) error {
		state, err := w.state(ctx)
		if err != nil {
			return err
		}
		for _, id := range state.Inventory.IDs() {
			if slices.ContainsFunc(all, func(n needed) bool { return n.object == inventory.Format(id) }) {
				return fmt.Errorf("%s is still in the inventory", inventory.Format(id))
			}
		}
		return nil
	})
	w.onceEach(t)
}

// unprotect does the part of a controller that the sandbox does not run: it takes
// the finalizer off a volume or a claim that nobody uses.
func (w *world) unprotect(t *testing.T, resource, namespace, name string) {
	t.Helper()
	_, err := w.Dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(namespace).
		Patch(context.WithoutCancel(t.Context()), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

func (w *world) live(t *testing.T, n needed) *unstructured.Unstructured {
	t.Helper()
	namespace, name := w.where(n)
	o, err := w.Dynamic.Resource(n.resource).Namespace(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("%s: %v", n.object, err)
	}
	return o
}

func (w *world) where(n needed) (namespace, name string) {
	parts := strings.Split(n.object, "/")
	if len(parts) == 3 && !strings.HasPrefix(n.object, "DeviceClass") { // on which kustomize puts a namespace
		return parts[1], parts[2]
	}
	return "", parts[len(parts)-1]
}

// watchDeletion watches an object from now on. What it returns waits until its
// deletion was asked for, and answers with the resource version of that.
func (w *world) watchDeletion(t *testing.T, n needed) func(*testing.T) string {
	t.Helper()
	namespace, name := w.where(n)
	changes, err := w.Dynamic.Resource(n.resource).Namespace(namespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(changes.Stop)
	return func(t *testing.T) string {
		t.Helper()
		timeout := time.NewTimer(patience)
		defer timeout.Stop()
		for {
			select {
			case e, ok := <-changes.ResultChan():
				if !ok {
					t.Fatalf("the watch of %s broke off", n.object)
				}
				if o, is := e.Object.(*unstructured.Unstructured); is && (e.Type == watch.Deleted || o.GetDeletionTimestamp() != nil) {
					return o.GetResourceVersion()
				}
			case <-timeout.C:
				t.Fatalf("%s was not deleted", n.object)
			}
		}
	}
}

// Before any pod runs, the template in force alone needs what it names, and what that
// needs in turn.
func TestWhatTheTemplateInForceNeedsStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	own := w.namespace
	devices, storage := schema.GroupVersion{Group: "resource.k8s.io", Version: "v1"}, schema.GroupVersion{Group: "storage.k8s.io", Version: "v1"}
	all := []needed{
		{"ResourceClaimTemplate.resource.k8s.io/" + own + "/gpu", devices.WithResource("resourceclaimtemplates"), fmt.Sprintf("apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: gpu}\nspec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: %s}}]}}}\n", own)},
		{"DeviceClass.resource.k8s.io/" + own + "/" + own, devices.WithResource("deviceclasses"), fmt.Sprintf("apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: %s}\nspec: {}\n", own)},
		{"StorageClass/" + own, storage.WithResource("storageclasses"), fmt.Sprintf("apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: %s}\nprovisioner: example.com/none\n", own)},
	}
	needy := strings.Replace(daemonSet("1", "v1"), "      containers:", fmt.Sprintf(`      nodeSelector: {nowhere: "true"}
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
      volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: %s, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}}}]
      containers:`, own), 1)
	plain := strings.Replace(daemonSet("2", "v1"), "      containers:", "      nodeSelector: {nowhere: \"true\"}\n      containers:", 1)
	files := func(agent string, night span, more ...needed) map[string]string {
		out := map[string]string{"agent.yaml": agent, "rules.yaml": rules{windows: "night", more: night.window("night")}.yaml(w)}
		for i := range len(all) {
			out[fmt.Sprintf("other-%d.yaml", i)] = configMap(fmt.Sprintf("other-%d", i), "1")
		}
		for i, n := range more {
			out[fmt.Sprintf("needed-%d.yaml", i)] = n.manifest
		}
		return w.fleet(out)
	}
	w.inForce(t, w.commit(t, "version 1, and what it needs", files(needy, far(), all...)))
	var deletions []func(*testing.T) string
	for _, n := range all {
		deletions = append(deletions, w.watchDeletion(t, n))
	}
	w.inForce(t, w.commit(t, "version 2 needs nothing", files(plain, far())))
	w.keepInUse(t, all)
	w.inForce(t, w.commit(t, "open tonight", files(plain, span{second(0), second(time.Hour)})))
	for _, deleted := range deletions {
		deleted(t)
	}
	if got := w.daemonSetNow(t, "agent").Spec.Template.Annotations[versionKey]; got != "2" {
		t.Errorf("they are gone before version 2 is in force: %s", got)
	}
}

// keepInUse checks that what Git has no more is said to be in use, and stays.
func (w *world) keepInUse(t *testing.T, all []needed) {
	t.Helper()
	for _, n := range all {
		w.noteOn(t, n.object, inventory.InUse)
	}
	w.polled(t, 2)
	for _, n := range all {
		if o := w.live(t, n); o.GetDeletionTimestamp() != nil {
			t.Errorf("%s is deleted while it is in use", n.object)
		}
	}
}
