// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"lamplighter.dev/inventory"
	"lamplighter.dev/reconcile"
	"lamplighter.dev/reconcile/agent/webhook"
)

// Metrics is everything the agent counts. Label values come from closed sets,
// never from object names. docs/reference/metrics.md describes each one.
type Metrics struct {
	leading        prometheus.Gauge
	passDuration   prometheus.Histogram
	passes         *prometheus.CounterVec
	decisions      *prometheus.GaugeVec
	objects        *prometheus.CounterVec
	evictions      *prometheus.CounterVec
	fetchDuration  prometheus.Histogram
	fetches        *prometheus.CounterVec
	commitTime     prometheus.Gauge
	commitAccepted prometheus.Gauge
	clockSkew      prometheus.Gauge
	leaks          *prometheus.GaugeVec
	reverted       prometheus.Gauge
	drifted        *prometheus.GaugeVec
	corrections    prometheus.Counter
	webhooks       *prometheus.CounterVec
}

// NewMetrics registers the metrics with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		leading: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lamplighter_leading", Help: "1 while this process holds the instance's Lease."}),
		passDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lamplighter_pass_duration_seconds", Help: "How long one pass took, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lamplighter_passes_total", Help: "Passes by result."}, []string{"result"}),
		decisions: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lamplighter_decisions", Help: "Nodes by what the last pass decided of them, summed over policies."}, []string{"action", "reason"}),
		objects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lamplighter_objects_total", Help: "Objects acted on, by outcome."}, []string{"result"}),
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lamplighter_evictions_total", Help: "Evictions sent, by outcome."}, []string{"result"}),
		fetchDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lamplighter_git_fetch_duration_seconds", Help: "How long asking the Git remote took, in seconds.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 8)}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lamplighter_git_fetches_total", Help: "Questions to the Git remote, by result."}, []string{"result"}),
		commitTime: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lamplighter_commit_timestamp_seconds", Help: "Commit time of the commit in force, as a Unix time."}),
		commitAccepted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lamplighter_commit_accepted", Help: "1 if the newest commit is the one in force, 0 if it was refused or could not be fetched."}),
		clockSkew: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lamplighter_clock_skew_seconds", Help: "How far this machine's clock is ahead of the API server's, in seconds, to within half a second and half the time of an answer."}),
		leaks: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lamplighter_leaked_pods", Help: "Pods of revisions in force that no visit made, by cause."}, []string{"cause"}),
		reverted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lamplighter_reverted_daemonsets", Help: "DaemonSets that are back at an earlier template, because the one in Git is marked bad."}),
		drifted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lamplighter_drifted_objects", Help: "Objects that somebody else has changed and that stay so, by the reason why."}, []string{"reason"}),
		corrections: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lamplighter_drift_corrections_total", Help: "Changes of somebody else that were undone."}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lamplighter_webhook_requests_total", Help: "Requests to the webhook receiver, by result."}, []string{"result"}),
	}
	r.MustRegister(m.leading, m.passDuration, m.passes, m.decisions, m.objects, m.evictions,
		m.fetchDuration, m.fetches, m.commitTime, m.commitAccepted, m.clockSkew, m.leaks, m.reverted, m.webhooks,
		m.drifted, m.corrections)
	return m
}

func (m *Metrics) pass(report reconcile.Report, took time.Duration, err error) {
	m.passDuration.Observe(took.Seconds())
	m.passes.WithLabelValues(resultOf(err)).Inc()
	m.decisions.Reset()
	for _, d := range report.Plan.Rollout.Decisions {
		m.decisions.WithLabelValues(string(d.Action), string(d.Reason)).Inc()
	}
	if report.Observation.Refused() != nil {
		m.commitAccepted.Set(0)
	} else if report.Observation.Fleet != nil && report.After.Record.Problem == "" {
		m.commitAccepted.Set(1)
	}
	m.leaks.Reset()
	for _, l := range report.Plan.Rollout.Ledger.Leaks {
		if l.Pod != "" {
			m.leaks.WithLabelValues(string(l.Cause)).Inc()
		}
	}
	m.reverted.Set(float64(len(report.After.Ledger.Reversals)))
	m.drifted.Reset()
	for d := range report.Plan.Objects.All() {
		if d.Drifted && d.Action != inventory.Apply {
			m.drifted.WithLabelValues(string(d.Reason)).Inc()
		}
	}
	for _, done := range corrections(report) {
		if done {
			m.corrections.Inc()
		}
	}
	for _, o := range report.Outcomes {
		m.objects.WithLabelValues(string(o.Result)).Inc()
	}
	for _, a := range report.Attempts {
		m.evictions.WithLabelValues(string(a.Result)).Inc()
	}
}

func (m *Metrics) clock(skew time.Duration) { m.clockSkew.Set(skew.Seconds()) }

func (m *Metrics) fetch(took time.Duration, err error) {
	m.fetchDuration.Observe(took.Seconds())
	m.fetches.WithLabelValues(resultOf(err)).Inc()
}

func (m *Metrics) webhook(r webhook.Result) { m.webhooks.WithLabelValues(string(r)).Inc() }

func (m *Metrics) source(u update) {
	m.commitAccepted.Set(1)
	if u.err != nil {
		m.commitAccepted.Set(0)
	}
	if u.fleet != nil {
		m.commitTime.Set(float64(u.fleet.Commit.When.Unix()))
	}
}

func resultOf(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
