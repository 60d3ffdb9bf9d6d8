// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// machine is one whose clocks a test sets, and the server that it asks.
type machine struct {
	judgement
	server, ahead time.Duration // since the epoch of the test; the machine's error
	ran           time.Duration
}

var epoch = time.Date(2026, 3, 2, 22, 0, 0, 0, time.UTC)

func (m *machine) now() instant { return instant{wall: epoch.Add(m.server + m.ahead), ran: m.ran} }

func (m *machine) pass(d time.Duration) { m.server, m.ran = m.server+d, m.ran+d }

// ask takes there and back; the answer is given in between.
func (m *machine) ask(there, back time.Duration) bool {
	sent := m.now()
	m.pass(there)
	date := epoch.Add(m.server).Truncate(time.Second)
	m.pass(back)
	return m.compare(reading{sent: sent, received: m.now(), server: date})
}

func TestJudgement(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		do    func(m *machine)
		want  string
		young bool
	}{
		"nothing is known":             {func(*machine) {}, "", false},
		"the same":                     {func(m *machine) { m.ask(ms, ms) }, "", true},
		"29 seconds ahead":             {func(m *machine) { m.ahead = 29 * time.Second; m.ask(ms, ms) }, "", true},
		"a minute ahead":               {func(m *machine) { m.ahead = time.Minute; m.ask(ms, ms) }, "this machine's clock is 1m0s ahead of the API server's", true},
		"a minute behind":              {func(m *machine) { m.ahead = -time.Minute; m.ask(ms, ms) }, "this machine's clock is 1m0s behind the API server's", true},
		"a minute ahead, slowly asked": {func(m *machine) { m.ahead = time.Minute; m.ask(2*time.Second, 2*time.Second) }, "this machine's clock is 1m0s ahead of the API server's", true},
		"asked too slowly":             {func(m *machine) { m.ahead = time.Minute; m.ask(3*time.Second, 3*time.Second) }, "", false},
		"compared long ago": {func(m *machine) {
			m.ask(ms, ms)
			m.pass(youngFor + time.Second)
			m.look(m.now())
		}, "", false},
		"corrected": {func(m *machine) {
			m.ahead = time.Minute
			m.ask(ms, ms)
			m.ahead = time.Second
			m.ask(ms, ms)
		}, "", true},
		"not corrected far enough": {func(m *machine) {
			m.ahead = 33 * time.Second
			m.ask(ms, ms)
			m.ahead = 28 * time.Second
			m.ask(ms, ms)
		}, "this machine's clock is 28s ahead of the API server's", true},
		"a little further, in the same words": {func(m *machine) {
			m.ahead = time.Minute
			m.ask(ms, ms)
			for range 5 {
				m.ahead += 900 * ms // slower than being set
				m.ask(ms, ms)
			}
		}, "this machine's clock is 1m0s ahead of the API server's", true},
		"set back": {func(m *machine) {
			m.ask(ms, ms)
			m.pass(time.Second)
			m.ahead = -time.Hour
			m.look(m.now())
		}, "this machine's clock was set back by 1h0m0s", false},
		"set back to what it should be": {func(m *machine) {
			m.ahead = 20 * time.Second
			m.ask(ms, ms)
			m.ahead = 0
			m.look(m.now())
			m.ask(ms, ms)
		}, "", true},
		"set back, and asked too slowly since": {func(m *machine) {
			m.ask(ms, ms)
			m.ahead = -2 * time.Second
			m.ask(ms, time.Minute)
		}, "this machine's clock was set back by 2s", false},
		"set back to 28 seconds behind": {func(m *machine) {
			m.ask(ms, ms)
			m.ahead = -28 * time.Second
			m.ask(ms, ms)
		}, "this machine's clock is 28s behind the API server's", true},
		"set forward: compare again": {func(m *machine) {
			m.ask(ms, ms)
			m.ahead = 10 * time.Second
			m.look(m.now())
		}, "", false},
		"slewed": {func(m *machine) {
			m.ask(ms, ms)
			for range 60 {
				m.pass(time.Second)
				m.ahead -= 10 * ms
				m.look(m.now())
			}
		}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{}
			m.look(m.now())
			test.do(m)
			if m.problem != test.want || m.young() != test.young {
				t.Errorf("got %q and young %t, want %q and %t", m.problem, m.young(), test.want, test.young)
			}
		})
	}
}

// A clock that was set while an answer was awaited says nothing of the skew.
func TestAnswerAcrossASetClockIsNotUsed(t *testing.T) {
	m := &machine{}
	sent := m.now()
	m.ahead = time.Hour
	m.pass(time.Millisecond)
	if m.compare(reading{sent: sent, received: m.now(), server: epoch}) || m.young() {
		t.Error("it was used")
	}
}

// However long an answer takes and wherever in its second it is given, the skew
// that is found is off by half the way and half a second at most.
func TestSkewIsFoundWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := func(most time.Duration, name string) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		m := &machine{server: duration(10*time.Second, "from"), ahead: duration(4*time.Hour, "ahead") - 2*time.Hour}
		there, back := duration(slowest/2, "there"), duration(slowest/2, "back")
		sent := m.now()
		m.pass(there)
		date := epoch.Add(m.server).Truncate(time.Second)
		m.pass(back)
		r := reading{sent: sent, received: m.now(), server: date}
		if off := (r.skew() - m.ahead).Abs(); off > (there+back)/2+dateStep/2 {
			t.Errorf("off by %s", off)
		}
	})
}
