// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"lamplighter.dev/reconcile/policy"
	"lamplighter.dev/reconcile/rollout"
)

// Prometheus asks for the present value of a query. It is a yes if there is one
// value at least and each compares. A query without a result is a no: a series
// that is gone says nothing good.
func (w *Web) Prometheus(ctx context.Context, q rollout.Question) rollout.Answer {
	client, err := api.NewClient(api.Config{Address: q.Prometheus.URL, Client: w.client})
	if err != nil {
		return unreadable(ctx, err)
	}
	// Without an instant the server takes its own clock's.
	result, warnings, _, err := promv1.NewAPI(client).Query(ctx, q.Prometheus.Query, time.Time{})
	if e, ok := errors.AsType[*promv1.Error](err); ok {
		return rollout.Answer{Reply: rollout.Unknown, Message: oneLine(host(q.Prometheus.URL) + " answered " + string(e.Type) + ": " + e.Msg)}
	}
	if err != nil {
		return unreadable(ctx, err)
	}
	if len(warnings) > 0 { // part of the data may be missing
		return rollout.Answer{Reply: rollout.Unknown, Message: oneLine("the answer comes with a warning: " + warnings[0])}
	}
	return compare(result, q.Prometheus.Comparison)
}

// compare looks at every value of a result.
func compare(result model.Value, wanted policy.Comparison) rollout.Answer {
	values, err := valuesOf(result)
	if err != nil {
		return rollout.Answer{Reply: rollout.Unknown, Message: err.Error()}
	}
	if len(values) == 0 {
		return rollout.Answer{Reply: rollout.No, Message: "the query has no result"}
	}
	for _, v := range values {
		if !wanted.Holds(v) {
			return rollout.Answer{Reply: rollout.No, Message: fmt.Sprintf("the value is %s, wanted %s", strconv.FormatFloat(v, 'g', 4, 64), wanted)}
		}
	}
	return rollout.Answer{Reply: rollout.Yes}
}

func valuesOf(result model.Value) ([]float64, error) {
	switch r := result.(type) {
	case *model.Scalar:
		return []float64{float64(r.Value)}, nil
	case model.Vector:
		var values []float64
		for _, sample := range r {
			if sample.Histogram != nil {
				return nil, errors.New("the result is a histogram: write a query that gives numbers")
			}
			values = append(values, float64(sample.Value))
		}
		return values, nil
	case nil:
		return nil, errors.New("the answer holds no result")
	}
	return nil, fmt.Errorf("the result is a %s: write a query that gives one value for each series", result.Type())
}

func oneLine(s string) string {
	const longest = 300
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > longest {
		s = strings.ToValidUTF8(s[:longest], "") + "..."
	}
	return s
}
