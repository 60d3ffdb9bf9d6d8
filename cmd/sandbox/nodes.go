// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// createNodes makes all nodes; kwok makes them Ready.
func createNodes(ctx context.Context, client kubernetes.Interface, cfg config) error {
	var g errgroup.Group
	g.SetLimit(32)
	for i := range cfg.Nodes {
		g.Go(func() error {
			n := node(i, cfg.Zones)
			if _, err := client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create node %s: %w", n.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// node is the i-th node: zones take turns, every fourth is a gpu node, and
// the first is the canary.
func node(i, zones int) *corev1.Node {
	name, pool := fmt.Sprintf("node-%03d", i), "general"
	if i%4 == 3 {
		pool = "gpu"
	}
	labels := map[string]string{
		corev1.LabelHostname:     name,
		corev1.LabelOSStable:     "linux",
		corev1.LabelArchStable:   "amd64",
		corev1.LabelTopologyZone: "zone-" + string(rune('a'+i%zones)),
		"pool":                   pool,
	}
	if i == 0 {
		labels["canary"] = "true"
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("16"),
		corev1.ResourceMemory:           resource.MustParse("64Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: "sandbox://" + name},
		Status: corev1.NodeStatus{
			Capacity:    room,
			Allocatable: room,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("172.16.%d.%d", i/250, i%250+1)},
				{Type: corev1.NodeHostName, Address: name},
			},
		},
	}
}
