// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile/agent"
)

// The last renewal of a Lease may arrive while it is given back.
func TestLeaseIsGivenBackThoughItIsRenewedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	leases := w.Client.CoordinationV1().Leases(w.namespace)
	late := &overtaken{renew: func(ctx context.Context) error {
		lease, err := leases.Get(ctx, "lamplighter", metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	}}
	config := rest.CopyConfig(w.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { late.next = next; return late })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lease := agent.Lease{Client: client, Instance: inventory.Instance{Namespace: w.namespace, Name: "lamplighter"}, Identity: "first"}
	if err := lease.Hold(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
	holder, err := lease.Holder(t.Context(), time.Now())
	if err != nil || holder != "" || !late.renewed {
		t.Errorf("renewed meanwhile: %t; the holder is %q, want none (%v)", late.renewed, holder, err)
	}
}

// overtaken renews a Lease once, just before it is given back.
type overtaken struct {
	next    http.RoundTripper
	renew   func(context.Context) error
	renewed bool
}

func (o *overtaken) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && !o.renewed && strings.Contains(r.URL.Path, "/leases/") {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		if !bytes.Contains(body, []byte("first")) {
			o.renewed = true
			if err := o.renew(r.Context()); err != nil {
				return nil, err
			}
		}
	}
	return o.next.RoundTrip(r)
}
