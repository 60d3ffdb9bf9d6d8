// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// startTimeout bounds the way to ready; a loaded machine takes several times
// the usual ten seconds.
const startTimeout = 3 * time.Minute

// supervise runs the control plane until ctx ends or a child dies. It prints
// one line on out when the cluster is ready for use.
//
// Each signal in restarts kills the API server and starts it again.
func supervise(ctx context.Context, cfg config, restarts <-chan os.Signal, out io.Writer) error {
	d := folder(cfg.Dir)
	lock, err := d.claim()
	if err != nil {
		return err
	}
	defer lock.Close()

	kids := newChildren(d)
	defer kids.stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case err := <-kids.deaths:
			cancel(err)
		case <-ctx.Done():
		}
	}()

	err = run(ctx, cfg, kids, restarts, out)
	if err != nil {
		// A request can fail just before we hear that the server has died.
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	if ctx.Err() != nil {
		return nil // asked to stop
	}
	return err
}

// run starts the children in the order they need each other, then keeps the
// nodes' part of the cluster going until ctx ends.
func run(ctx context.Context, cfg config, kids *children, restarts <-chan os.Signal, out io.Writer) error {
	client, err := startAPI(ctx, cfg, kids)
	if err != nil {
		return err
	}
	for role, args := range map[string][]string{
		roleControllers: controllerArgs(kids.dir),
		roleScheduler:   schedulerArgs(),
		roleKwok:        kwokArgs(kids.dir),
	} {
		if err := kids.start(role, args); err != nil {
			return err
		}
	}
	if err := createNodes(ctx, client, cfg); err != nil {
		return err
	}
	nodes := newKubelets(client)
	if err := nodes.start(ctx); err != nil {
		return err
	}
	if err := waitReady(ctx, client, nodes, cfg); err != nil {
		return err
	}
	fmt.Fprintf(out, "ready kubeconfig=%s\n", kids.dir.kubeconfig())
	ended := make(chan error, 1)
	go func() { ended <- nodes.run(ctx) }()
	for {
		select {
		case <-restarts:
			if err := kids.restart(roleAPIServer); err != nil {
				return err
			}
		case err := <-ended:
			return err
		}
	}
}

// startAPI brings up etcd and the API server, side by side: the latter waits
// for the former.
func startAPI(ctx context.Context, cfg config, kids *children) (kubernetes.Interface, error) {
	port, err := holdPort(cfg.Port)
	if err != nil {
		return nil, err
	}
	creds, err := newCredentials()
	if err != nil {
		return nil, err
	}
	if err := writeState(kids.dir, cfg, creds, port); err != nil {
		return nil, err
	}
	if err := kids.start(roleEtcd, etcdArgs()); err != nil {
		return nil, err
	}
	if err := kids.start(roleAPIServer, apiServerArgs(port)); err != nil {
		return nil, err
	}
	client, err := newClient(kids.dir)
	if err != nil {
		return nil, err
	}
	return client, until(ctx, "API server ready", func(ctx context.Context) (bool, error) {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, nil
	})
}

func newClient(d folder) (kubernetes.Interface, error) {
	rest, err := clientcmd.BuildConfigFromFlags("", d.kubeconfig())
	if err != nil {
		return nil, err
	}
	rest.QPS = -1 // the API server's own limits are enough
	return kubernetes.NewForConfig(rest)
}

// waitReady returns when a pod can be made on every node.
func waitReady(ctx context.Context, client kubernetes.Interface, nodes *kubelets, cfg config) error {
	err := until(ctx, "nodes ready", func(context.Context) (bool, error) {
		ready, err := nodes.ready()
		return ready == cfg.Nodes, err
	})
	if err != nil {
		return err
	}
	return until(ctx, "service accounts", func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
}

func until(ctx context.Context, what string, cond wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, cond)
	if err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	return nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
