// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/jsonpath"

	"lamplighter.dev/internal/testkit"
)

// kubeTimeout bounds what a script asks of the API server itself.
const kubeTimeout = time.Minute

// kube is how scripts look at the cluster and change it behind lamplighter's
// back:
//
//	kube apply MANAGER FILE              apply a file's objects as that field manager
//	kube get RESOURCE NAMESPACE/NAME P   print the JSONPath P of an object
//	kube gone RESOURCE NAMESPACE/NAME    the object does not exist
//	kube as USER FILE [GROUP]            write a kubeconfig that acts as USER, of GROUP
//	kube contexts FILE NAME ...          write a kubeconfig with contexts; "elsewhere" leads nowhere
//	kube remember NAMESPACE              note what is in a namespace
//	kube unchanged NAMESPACE             it is as it was
type kube struct {
	cluster *testkit.Cluster
	mapper  meta.ResettableRESTMapper

	mu         sync.Mutex
	remembered map[string]map[string]string
}

func newKube(t *testing.T, cluster *testkit.Cluster) *kube {
	t.Helper()
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(cluster.Client.Discovery()))
	return &kube{cluster: cluster, mapper: mapper, remembered: map[string]map[string]string{}}
}

func (k *kube) command(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: kube apply|get|gone|as|contexts|remember|unchanged ...")
	}
	ctx, cancel := context.WithTimeout(context.Background(), kubeTimeout)
	defer cancel()
	switch args[0] {
	case "apply":
		ts.Check(k.apply(ctx, args[1], ts.ReadFile(args[2])))
	case "get":
		value, err := k.get(ctx, args[1], args[2], args[3])
		ts.Check(err)
		_, err = fmt.Fprintln(ts.Stdout(), value)
		ts.Check(err)
	case "gone":
		if _, err := k.get(ctx, args[1], args[2], "{}"); !apierrors.IsNotFound(err) {
			ts.Fatalf("%s %s exists (%v)", args[1], args[2], err)
		}
	case "as":
		ts.Check(k.as(args[1], ts.MkAbs(args[2]), args[3:]...))
	case "contexts":
		ts.Check(k.contexts(ts.MkAbs(args[1]), args[2:]))
	case "remember", "unchanged":
		now, err := k.contents(ctx, args[1])
		ts.Check(err)
		k.mu.Lock()
		defer k.mu.Unlock()
		if args[0] == "remember" {
			k.remembered[args[1]] = now
		} else if before := k.remembered[args[1]]; !maps.Equal(before, now) {
			ts.Fatalf("namespace %s has changed\nbefore %v\nnow    %v", args[1], before, now)
		}
	default:
		ts.Fatalf("kube has no %s", args[0])
	}
}

func (k *kube) apply(ctx context.Context, manager, manifests string) error {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		client, err := k.client(obj.GroupVersionKind().GroupKind(), obj.GetNamespace())
		if err != nil {
			return err
		}
		if _, err := client.Apply(ctx, obj.GetName(), obj, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
			return err
		}
	}
}

func (k *kube) client(kind schema.GroupKind, namespace string) (dynamic.ResourceInterface, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	mapping, err := k.mapper.RESTMapping(kind)
	if meta.IsNoMatchError(err) {
		k.mapper.Reset()
		mapping, err = k.mapper.RESTMapping(kind)
	}
	if err != nil {
		return nil, err
	}
	return k.cluster.Dynamic.Resource(mapping.Resource).Namespace(namespace), nil
}

func (k *kube) get(ctx context.Context, resource, name, path string) (string, error) {
	gvr, err := k.resource(resource)
	if err != nil {
		return "", err
	}
	namespace, name, namespaced := strings.Cut(name, "/")
	if !namespaced {
		namespace, name = "", namespace
	}
	obj, err := k.cluster.Dynamic.Resource(gvr).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	parsed := jsonpath.New("value").AllowMissingKeys(true)
	if err := parsed.Parse(path); err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = parsed.Execute(&b, obj.Object)
	return b.String(), err
}

func (k *kube) resource(name string) (schema.GroupVersionResource, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	resource := schema.ParseGroupResource(name).WithVersion("")
	gvr, err := k.mapper.ResourceFor(resource)
	if meta.IsNoMatchError(err) {
		k.mapper.Reset()
		gvr, err = k.mapper.ResourceFor(resource)
	}
	return gvr, err
}

// as writes a kubeconfig for somebody who may do only what anybody may, or what
// the groups may.
func (k *kube) as(user, file string, groups ...string) error {
	config, err := clientcmd.LoadFromFile(k.cluster.Kubeconfig)
	if err != nil {
		return err
	}
	for _, auth := range config.AuthInfos {
		auth.Impersonate, auth.ImpersonateGroups = user, groups
	}
	return clientcmd.WriteToFile(*config, file)
}

// contexts writes a kubeconfig with several ways to the cluster, and one to where
// there is none.
func (k *kube) contexts(file string, names []string) error {
	config, err := clientcmd.LoadFromFile(k.cluster.Kubeconfig)
	if err != nil {
		return err
	}
	here := config.Contexts[config.CurrentContext]
	config.Contexts, config.CurrentContext = map[string]*clientcmdapi.Context{}, ""
	config.Clusters["elsewhere"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1"}
	for _, name := range names {
		config.Contexts[name] = here.DeepCopy()
		if name == "elsewhere" {
			config.Contexts[name].Cluster = name
		}
	}
	return clientcmd.WriteToFile(*config, file)
}

// contents says which version of what is in a namespace. Pods come and go and
// DaemonSets have a status: they count by what only a writer can change.
func (k *kube) contents(ctx context.Context, namespace string) (map[string]string, error) {
	found := map[string]string{}
	for _, name := range []string{"configmaps", "secrets", "services", "serviceaccounts", "daemonsets.apps", "pods", "roles.rbac.authorization.k8s.io"} {
		gvr, err := k.resource(name)
		if err != nil {
			return nil, err
		}
		list, err := k.cluster.Dynamic.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, o := range list.Items {
			if o.GetName() == "kube-root-ca.crt" || o.GetName() == "default" {
				continue // every namespace has them, a moment after it is made
			}
			version := o.GetResourceVersion()
			switch name {
			case "daemonsets.apps":
				version = fmt.Sprint(o.GetGeneration())
			case "pods":
				version = ""
			}
			found[name+"/"+o.GetName()] = string(o.GetUID()) + "@" + version
		}
	}
	return found, nil
}

// clear removes what an earlier run of a script has left.
func (k *kube) clear(namespace string) error {
	ctx, cancel := context.WithTimeout(context.Background(), kubeTimeout)
	defer cancel()
	namespaces := k.cluster.Client.CoreV1().Namespaces()
	if err := namespaces.Delete(ctx, namespace, metav1.DeleteOptions{}); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := namespaces.Get(ctx, namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("namespace %s does not go away", namespace)
		case <-tick.C:
		}
	}
}
