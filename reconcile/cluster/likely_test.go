// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What nobody could ask the API server about is Git over what there is: defaults and
// what others have set stay, and what only we had set goes.
func TestLikely(t *testing.T) {
	const managed = `
  managedFields:
  - manager: lamplighter
    operation: Apply
    fieldsV1: {f:spec: {f:replicas: {}, f:dropped: {}, f:shared: {}, f:args: {}, f:template: {f:containers: {'k:{"name":"main"}': {.: {}, f:name: {}, f:image: {}}, 'k:{"name":"gone"}': {.: {}, f:name: {}}}}}}
  - manager: other
    operation: Update
    fieldsV1: {f:spec: {f:theirs: {}, f:shared: {}, f:template: {f:containers: {'k:{"name":"sidecar"}': {.: {}, f:name: {}}}}}}`
	for _, tc := range []struct{ name, live, git, want string }{
		{"Git over what is there", `
metadata: {name: a}
spec: {replicas: 1, paused: false, ports: [{port: 80, protocol: TCP}]}`, `
metadata: {name: a, labels: {team: net}}
spec: {replicas: 2, ports: [{port: 81}]}`, `
metadata: {name: a, labels: {team: net}}
spec: {replicas: 2, paused: false, ports: [{port: 81, protocol: TCP}]}`},
		{"ours goes, theirs stays", `
metadata:
  name: a` + managed + `
spec:
  replicas: 1
  dropped: x
  shared: x
  theirs: x
  args: [a, b]
  template: {containers: [{name: main, image: v1, tty: false}, {name: gone}, {name: sidecar}]}`, `
metadata: {name: a}
spec: {replicas: 2, args: [b, a], template: {containers: [{name: new}, {name: main, image: v2}]}}`, `
metadata:
  name: a` + managed + `
spec:
  replicas: 2
  shared: x
  theirs: x
  args: [b, a]
  template: {containers: [{name: main, image: v2, tty: false}, {name: sidecar}, {name: new}]}`},
		{"another type", `
spec: {a: {b: 1}, c: [1], d: text, e: []}`, `
spec: {a: text, c: {x: 1}, d: [1, 2], e: [{name: x}]}`, `
spec: {a: text, c: {x: 1}, d: [1, 2], e: [{name: x}]}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := likely(parsed(t, tc.live), parsed(t, tc.git))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parsed(t, tc.want).Object, got.Object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(strings.TrimPrefix(text, "\n")), &obj.Object); err != nil {
		t.Fatal(err)
	}
	return obj
}
