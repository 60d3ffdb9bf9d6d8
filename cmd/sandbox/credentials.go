// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// credentials are made anew at every start and are known before any child
// runs, so nobody waits for a file to appear.
type credentials struct {
	Token             string // of cluster-admin
	ServingCert       string // with the CA that signed it
	ServingKey        string
	ServiceAccountKey string
}

func newCredentials() (credentials, error) {
	servingCert, servingKey, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, []string{"localhost", "kubernetes.default.svc"})
	if err != nil {
		return credentials{}, fmt.Errorf("make serving certificate: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return credentials{}, fmt.Errorf("make service account key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return credentials{}, fmt.Errorf("make service account key: %w", err)
	}
	return credentials{
		Token:             rand.Text(),
		ServingCert:       string(servingCert),
		ServingKey:        string(servingKey),
		ServiceAccountKey: string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})),
	}, nil
}

// kubeconfig is cluster-admin's, for people and for the other roles alike.
func (c credentials) kubeconfig(port int) (string, error) {
	const name = "sandbox"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   fmt.Sprintf("https://127.0.0.1:%d", port),
		CertificateAuthorityData: []byte(c.ServingCert),
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: c.Token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	out, err := clientcmd.Write(*config)
	if err != nil {
		return "", fmt.Errorf("write kubeconfig: %w", err)
	}
	return string(out), nil
}
