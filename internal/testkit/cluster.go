// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// requestTimeout bounds what testkit itself asks of the API server.
const requestTimeout = 30 * time.Second

// A Fault is what goes wrong on a node while the fault is on.
type Fault string

// The faults a node can have.
const (
	NotReady         Fault = "not-ready"         // the node's Ready condition is False
	StuckTerminating Fault = "stuck-terminating" // deleted pods never end
)

const faultLabel = "sandbox.lamplighter.dev/fault"

// Cluster is a running sandbox, and its clients with cluster-admin's rights.
type Cluster struct {
	Kubeconfig string // path
	Config     *rest.Config
	Client     kubernetes.Interface
	Dynamic    dynamic.Interface

	own *process // nil for the one that tests share
}

func newCluster(kubeconfig string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 500, 1000
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &Cluster{Kubeconfig: kubeconfig, Config: config, Client: client, Dynamic: dyn}, nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Namespace makes a namespace for one test, in which pods can be made at once,
// and returns its name. It is deleted, without waiting, when the test ends.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	prefix := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	ns, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix[:min(len(prefix), 40)] + "-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	cleanup(t, "delete namespace "+ns.Name, func(ctx context.Context) error {
		return c.Client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{})
	})
	Eventually(t, requestTimeout, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

// Break puts a fault on a node until mend is called or the test ends.
func (c *Cluster) Break(t testing.TB, node string, f Fault) (mend func()) {
	t.Helper()
	if err := c.setFault(t.Context(), node, string(f)); err != nil {
		t.Fatalf("break %s: %v", node, err)
	}
	cleanup(t, "mend "+node, func(ctx context.Context) error { return c.setFault(ctx, node, "") })
	return func() {
		t.Helper()
		if err := c.setFault(t.Context(), node, ""); err != nil {
			t.Fatalf("mend %s: %v", node, err)
		}
	}
}

// setFault labels a node; an empty fault removes the label.
func (c *Cluster) setFault(ctx context.Context, node, fault string) error {
	value := "null"
	if fault != "" {
		value = fmt.Sprintf("%q", fault)
	}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, faultLabel, value)
	_, err := c.Client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// cleanup runs undo after the test, when the test's own context is over.
func cleanup(t testing.TB, what string, undo func(context.Context) error) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), requestTimeout)
		defer cancel()
		if err := undo(ctx); err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", what, err)
		}
	})
}
