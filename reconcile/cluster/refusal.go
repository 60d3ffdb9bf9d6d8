// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lamplighter.dev/inventory"
)

// refusal turns an API server's answer to an apply into an error that the
// planner understands: an [*inventory.RejectedError] if trying again would not
// help, else an error of one line. What an answer about a Secret says is kept
// back unless it cannot quote the Secret's values.
func refusal(kind schema.GroupKind, err error) error {
	status, ok := statusOf(err)
	if !ok {
		return err
	}
	message := oneLine(status.Message)
	if kind == secretKind && mayQuote(status) {
		message = "the API server refuses the Secret: " + string(status.Reason) + " (its message may hold a value and is kept back)"
	}
	switch {
	case notTyped(status):
		return &inventory.RejectedError{Message: message}
	case beingDeleted(status):
		return errors.New("the CustomResourceDefinition of its kind is being deleted: it waits for the next one")
	}
	switch status.Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return &inventory.RejectedError{Message: message}
	}
	return errors.New(message)
}

// notTyped recognises the answer to an object that does not fit the schema of its
// kind, such as one with a field that it does not have. The API server takes that
// for a failure of its own.
func notTyped(status metav1.Status) bool {
	return status.Code == http.StatusInternalServerError && strings.HasPrefix(status.Message, "failed to create typed patch object")
}

// beingDeleted recognises the answer about an object of a kind whose definition is on
// its way out.
func beingDeleted(status metav1.Status) bool {
	return strings.HasSuffix(status.Message, "custom resource definition is terminating")
}

// oldVersion recognises the answer about a live object that does not fit the schema
// of a version at which somebody has once applied it: a newer version has come to
// default a field that the older one does not have.
func oldVersion(status metav1.Status) bool {
	return status.Code == http.StatusInternalServerError && !notTyped(status) && strings.HasSuffix(status.Message, "field not declared in schema")
}

// mayQuote reports whether a message could hold what was sent. Those about
// access, existence and field managers name paths and objects only.
func mayQuote(status metav1.Status) bool {
	switch status.Reason {
	case metav1.StatusReasonNotFound, metav1.StatusReasonConflict, metav1.StatusReasonTooManyRequests,
		metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonUnauthorized:
		return false
	}
	return true
}

// statusOf returns what the API server answered, if err is an answer of its.
func statusOf(err error) (metav1.Status, bool) {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return metav1.Status{}, false
	}
	return answer.Status(), true
}

// oneLine is what is said, for one line of the record, which has room for one
// of each node. A webhook may say very much.
func oneLine(s string) string {
	const longest = 1000
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return s
}

// managerInMessage finds the manager in a cause such as
// conflict with "kubectl-edit" using v1.
var managerInMessage = regexp.MustCompile(`^conflict with ("(?:[^"\\]|\\.)*")`)

// conflicts lists the fields that other managers hold, by manager. It is empty
// if the error is not about field managers.
func conflicts(err error) map[string][]string {
	status, ok := statusOf(err)
	if !ok || status.Details == nil {
		return nil
	}
	fields := map[string][]string{}
	for _, cause := range status.Details.Causes {
		if cause.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		manager := "unknown"
		if m := managerInMessage.FindStringSubmatch(cause.Message); m != nil {
			manager = unquote(m[1])
		}
		fields[manager] = append(fields[manager], cause.Field)
	}
	return fields
}

func unquote(s string) string {
	var out string
	if _, err := fmt.Sscanf(s, "%q", &out); err != nil {
		return strings.Trim(s, `"`)
	}
	return out
}

// foreignConflict picks the conflict to report: nil if all managers yield.
func foreignConflict(fields map[string][]string, yields func(manager string) bool) *inventory.ConflictError {
	var holders []inventory.Holder
	for _, manager := range slices.Sorted(maps.Keys(fields)) {
		if !yields(manager) {
			holders = append(holders, inventory.Holder{Manager: manager, Fields: slices.Sorted(slices.Values(fields[manager]))})
		}
	}
	if len(holders) == 0 {
		return nil
	}
	return &inventory.ConflictError{Holders: holders}
}
