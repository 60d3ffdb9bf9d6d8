// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/component-base/version"
)

//go:embed stages.yaml
var stages string

// schedulerConfig is a file because the request rate has no flag.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: %q, qps: 500, burst: 1000}
`

// controllerNames are the controllers that a fleet of DaemonSets meets.
var controllerNames = []string{
	"clusterrole-aggregation-controller", "daemonset-controller", "deployment-controller", "disruption-controller",
	"garbage-collector-controller", "job-controller", "namespace-controller", "node-lifecycle-controller", "pod-garbage-collector-controller",
	"replicaset-controller", "resourcequota-controller", "root-ca-certificate-publisher-controller",
	"serviceaccount-controller", "serviceaccount-token-controller", "statefulset-controller",
}

// writeState writes every file that the children read.
func writeState(d folder, cfg config, c credentials, port int) error {
	kubeconfig, err := c.kubeconfig(port)
	if err != nil {
		return err
	}
	ready := strconv.FormatInt(cfg.PodReadyAfter.Milliseconds(), 10)
	for path, content := range map[string]string{
		d.kubeconfig():            kubeconfig,
		d.state("tokens.csv"):     c.Token + ",admin,admin,system:masters\n",
		d.state("serving.crt"):    c.ServingCert,
		d.state("serving.key"):    c.ServingKey,
		d.state("accounts.key"):   c.ServiceAccountKey,
		d.state("scheduler.yaml"): fmt.Sprintf(schedulerConfig, d.kubeconfig()),
		d.state("stages.yaml"):    strings.NewReplacer("$POD_READY_AFTER_MS", ready, "$KUBERNETES_VERSION", version.Get().GitVersion).Replace(stages),
	} {
		if err := d.write(path, content); err != nil {
			return err
		}
	}
	return nil
}

// etcdArgs use sockets in the working folder, state: no port, and no limit on
// how long the folder's name may be. Nothing outlives the sandbox, so nothing
// waits for the disk.
func etcdArgs() []string {
	const clients, peers = "unix://clients.sock", "unix://peers.sock"
	return []string{
		"--name=sandbox", "--data-dir=etcd", "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + clients, "--advertise-client-urls=" + clients,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers,
		"--initial-cluster=sandbox=" + peers,
	}
}

func apiServerArgs(port int) []string {
	return []string{
		"--etcd-servers=unix://clients.sock",
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--permit-port-sharing",
		"--allow-privileged", // node agents are
		"--tls-cert-file=serving.crt", "--tls-private-key-file=serving.key",
		"--authorization-mode=RBAC", "--token-auth-file=tokens.csv",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=accounts.key", "--service-account-signing-key-file=accounts.key",
		"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000",
	}
}

// controllerArgs let a node be silent for ever: its Ready condition alone says
// how it is, so that nobody has to renew thousands of leases.
func controllerArgs(d folder) []string {
	return []string{
		"--kubeconfig=" + d.kubeconfig(), "--secure-port=0", "--leader-elect=false",
		"--kube-api-qps=500", "--kube-api-burst=1000",
		"--controllers=" + strings.Join(controllerNames, ","),
		"--node-monitor-period=1s", "--node-monitor-grace-period=87600h",
		"--root-ca-file=serving.crt", "--service-account-private-key-file=accounts.key",
	}
}

func schedulerArgs() []string {
	return []string{"--config=scheduler.yaml", "--secure-port=0"}
}

func kwokArgs(d folder) []string {
	return []string{
		"--kubeconfig=" + d.kubeconfig(), "--config=stages.yaml",
		"--manage-nodes-with-label-selector=" + faultLabel + "!=" + notReady,
		"--node-lease-duration-seconds=0", "--cidr=10.64.0.0/10",
	}
}
