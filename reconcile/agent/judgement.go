// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"fmt"
	"time"
)

const (
	// mostSkew is how far the clock may be from the API server's. Once it was
	// further it has to come within backSkew, so that nothing flaps.
	mostSkew, backSkew = 30 * time.Second, 25 * time.Second
	// dateStep is what a Date header is cut to.
	dateStep = time.Second
	// slowest is the longest way there and back that tells anything: half of it
	// is how far a comparison may be off.
	slowest = 5 * time.Second
	// youngFor is how long a comparison stands for the present.
	youngFor = 2 * time.Minute
	// steady is how far the wall clock may move against the monotonic one between
	// two looks before somebody has set it. Being slewed is slower.
	steady = time.Second
	// sameSkew is how much a skew may change and be told in the words of before.
	sameSkew = 10 * time.Second
)

// instant is one look at both clocks of a machine.
type instant struct {
	wall time.Time     // what it takes the time to be
	ran  time.Duration // since the process began, by a clock that nobody sets
}

// reading is one comparison with another machine's clock.
type reading struct {
	sent, received instant
	server         time.Time // when it answered, cut to seconds
}

// skew is how far this machine is ahead. The answer is taken to have been given
// half-way, in the middle of its second.
func (r reading) skew() time.Duration {
	halfWay := r.sent.wall.Add((r.received.ran - r.sent.ran) / 2)
	return halfWay.Sub(r.server.Add(dateStep / 2))
}

// moved is how far the wall clock was set forward between two looks; negative
// when it was set back.
func moved(from, to instant) time.Duration { return to.wall.Sub(from.wall) - (to.ran - from.ran) }

// judgement is what is known of a clock. The zero judgement knows nothing.
type judgement struct {
	looked   bool
	last     instant // the last look
	compared bool    // and the clock was not set since
	at       instant // when that was
	told     time.Duration
	problem  string // why it is not to be trusted
}

// look notices that the clock was set. What was compared before then is worth
// nothing; set back, a window that is over may seem to be open, so it is not
// trusted until it was compared.
func (j *judgement) look(at instant) {
	if j.looked {
		switch by := moved(j.last, at); {
		case by < -steady:
			j.compared, j.told = false, 0
			j.problem = fmt.Sprintf("this machine's clock was set back by %s", (-by).Round(time.Second))
		case by > steady:
			j.compared = false
		}
	}
	j.looked, j.last = true, at
}

// compare takes in a reading, unless it tells too little.
func (j *judgement) compare(r reading) bool {
	j.look(r.received)
	if r.received.ran-r.sent.ran > slowest || moved(r.sent, r.received).Abs() > steady {
		return false
	}
	trusted := j.problem == ""
	j.compared, j.at = true, r.received
	switch skew := r.skew(); {
	case skew.Abs() <= backSkew, trusted && skew.Abs() <= mostSkew:
		j.problem, j.told = "", 0
	case j.told == 0 || (skew-j.told).Abs() > sameSkew:
		j.problem, j.told = words(skew), skew
	}
	return true
}

// young says that the last comparison stands for the present.
func (j *judgement) young() bool { return j.compared && j.last.ran-j.at.ran <= youngFor }

func words(skew time.Duration) string {
	where := "ahead of"
	if skew < 0 {
		where = "behind"
	}
	return fmt.Sprintf("this machine's clock is %s %s the API server's", skew.Abs().Round(time.Second), where)
}
