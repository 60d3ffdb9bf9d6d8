// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/version" // so that /metrics names the version
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

// The roles a process can have. Each needs a process of its own: feature gates
// and metric registries are global to a process.
const (
	roleEtcd        = "etcd"
	roleAPIServer   = "kube-apiserver"
	roleControllers = "kube-controller-manager"
	roleScheduler   = "kube-scheduler"
	roleKwok        = "kwok"
)

// runRole becomes the named part of the control plane until it ends, and
// gives its exit code. It is not ok when there is no such role.
func runRole(name string, args []string) (code int, ok bool) {
	run := map[string]func() int{
		roleEtcd:        func() int { etcdmain.Main(os.Args); return 0 },
		roleAPIServer:   func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
		roleControllers: func() int { return cli.Run(controllers.NewControllerManagerCommand()) },
		roleScheduler:   func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
		roleKwok:        runKwok,
	}[name]
	if run == nil {
		return 0, false
	}
	os.Args = append([]string{name}, args...) // every one of them reads it
	return run(), true
}

// runKwok does what kwok's own main does.
func runKwok() int {
	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	ctx, logger := kwoklog.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		logger.Error("read config", "err", err)
		return 1
	}
	// Beside its watch kwok lists the pods of each node that it meets. What it has
	// listed may be older than what it has watched, and takes the place of the start
	// that the pod waits for: it never comes. Pods that kwok was too early for are
	// shown to it again, see kubelets.go. Its configuration file knows no zero.
	kwokconfig.GetKwokConfiguration(ctx).Options.PodsOnNodeSyncParallelism = 0
	command := kwok.NewCommand(ctx)
	command.Version = "" // its flag would clash with Kubernetes' own --version
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		logger.Error("run", "err", err)
		return 1
	}
	return 0
}
