// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// forgeStartTimeout bounds a forge's start, ten times the usual.
const forgeStartTimeout = time.Minute

// Forge is a Gitea on the loopback interface: a Git host with users, tokens,
// deploy keys, protected branches and webhooks, over https and ssh. Tests ask it
// for things as people and pipelines do, through its API and with git.
type Forge struct {
	home     string // the program and its files
	dir      string
	web, ssh int // ports
	ca       []byte
	hostKey  ssh.PublicKey
	client   *http.Client
	admin    ForgeUser
}

// StartForge starts a forge that ends with the test.
func StartForge(t testing.TB) *Forge {
	t.Helper()
	home, err := forgeHome()
	if err != nil {
		t.Fatalf("start forge: %v", err)
	}
	f := &Forge{home: home, dir: t.TempDir(), web: freePort(t), ssh: freePort(t), admin: ForgeUser{Name: "keeper", Password: "keeper of the forge"}}
	f.certify(t)
	f.configure(t)
	f.gitea(t, "migrate")
	f.gitea(t, "admin", "user", "create", "--admin", "--username="+f.admin.Name, "--password="+f.admin.Password, "--email=keeper@example.com", "--must-change-password=false")
	f.run(t)
	return f
}

// URL is the forge's base, without a final slash.
func (f *Forge) URL() string { return "https://" + address(f.web) }

// CA is the certificate that clients of https trust, as PEM.
func (f *Forge) CA() string { return string(f.ca) }

// KnownHosts is a known_hosts file with the forge's key.
func (f *Forge) KnownHosts() string {
	return knownhosts.Line([]string{address(f.ssh)}, f.hostKey) + "\n"
}

// freePort is a port of the loopback interface. It is none of those that the system
// gives to whoever asks for any, so nobody takes it before the forge does.
func freePort(t testing.TB) int {
	t.Helper()
	for {
		port := 10_000 + mathrand.N(20_000)
		listener, err := net.Listen("tcp", address(port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatalf("start forge: %v", err)
		}
		if err := listener.Close(); err != nil {
			t.Fatalf("start forge: %v", err)
		}
		return port
	}
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// certify makes the keys that the forge proves itself with.
func (f *Forge) certify(t testing.TB) {
	t.Helper()
	certificate, key := selfSigned(t)
	f.ca = certificate
	f.write(t, "cert.pem", certificate)
	f.write(t, "key.pem", key)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	f.client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	t.Cleanup(f.client.CloseIdleConnections)

	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if f.hostKey, err = ssh.NewPublicKey(private.Public()); err != nil {
		t.Fatal(err)
	}
	f.write(t, "host_ed25519", pem.EncodeToMemory(block))
}

func (f *Forge) write(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// configuration leaves out whatever asks other machines, and what nobody here
// looks at.
const configuration = `
RUN_USER = %[1]s
WORK_PATH = %[2]s
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
PROTOCOL = https
CERT_FILE = %[2]s/cert.pem
KEY_FILE = %[2]s/key.pem
DOMAIN = 127.0.0.1
HTTP_ADDR = 127.0.0.1
HTTP_PORT = %[3]d
ROOT_URL = https://127.0.0.1:%[3]d/
LOCAL_ROOT_URL = https://127.0.0.1:%[3]d/
START_SSH_SERVER = true
BUILTIN_SSH_SERVER_USER = git
SSH_DOMAIN = 127.0.0.1
SSH_LISTEN_HOST = 127.0.0.1
SSH_LISTEN_PORT = %[4]d
SSH_PORT = %[4]d
SSH_SERVER_HOST_KEYS = %[2]s/host_ed25519
STATIC_ROOT_PATH = %[5]s
OFFLINE_MODE = true
ALLOW_GRACEFUL_RESTARTS = false
GRACEFUL_HAMMER_TIME = 1s
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
PASSWORD_HASH_ALGO = pbkdf2_v1
[repository]
DEFAULT_BRANCH = main
[webhook]
ALLOWED_HOST_LIST = loopback
[service]
DISABLE_REGISTRATION = true
ENABLE_REVERSE_PROXY_AUTHENTICATION = true
[log]
LEVEL = Warn
[queue]
TYPE = channel
[session]
PROVIDER = memory
[indexer]
ISSUE_INDEXER_TYPE = db
[cron]
ENABLED = false
[cron.update_checker]
ENABLED = false
[actions]
ENABLED = false
[packages]
ENABLED = false
`

func (f *Forge) configure(t testing.TB) {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, "app.ini", fmt.Appendf(nil, configuration, me.Username, f.dir, f.web, f.ssh, f.home))
}

// command is one of the forge's own. It keeps git's configuration in its folder.
func (f *Forge) command(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(f.home, "gitea"), append([]string{"--config=" + filepath.Join(f.dir, "app.ini"), "--work-path=" + f.dir}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir, "USER=" + os.Getenv("USER")}
	cmd.Dir = f.dir
	cmd.SysProcAttr = dieWithParent()
	return cmd
}

func (f *Forge) gitea(t testing.TB, args ...string) {
	t.Helper()
	if out, err := f.command(args...).CombinedOutput(); err != nil {
		t.Fatalf("gitea %s: %v\n%s", args[0], err, out)
	}
}

// run starts the server and returns when it answers.
func (f *Forge) run(t testing.TB) {
	t.Helper()
	cmd := f.command("web")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	p := &process{cmd: cmd, dir: filepath.Join(f.dir, "run"), end: make(chan struct{}), ended: make(chan struct{})}
	started := make(chan error)
	go p.own(started)
	if err := <-started; err != nil {
		t.Fatalf("start forge: %v", err)
	}
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the forge says:\n%s", output.String())
		}
	})
	Eventually(t, forgeStartTimeout, f.healthy)
}

func (f *Forge) healthy(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL()+"/api/healthz", nil)
	if err != nil {
		return err
	}
	response, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the forge is not healthy: %s", response.Status)
	}
	return nil
}

// selfSigned is a certificate of 127.0.0.1 and its key, as PEM.
func selfSigned(t testing.TB) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "forge"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}
