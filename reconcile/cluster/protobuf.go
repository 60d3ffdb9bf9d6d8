// SPDX-License-Identifier: Apache-2.0

package cluster

import "k8s.io/client-go/rest"

// Protobuf is a config for clients of the kinds that Kubernetes itself defines: they
// speak protobuf, which costs both ends much less than JSON.
func Protobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}
