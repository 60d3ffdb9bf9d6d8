// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"
)

func TestGateHeedsProceedAndClock(t *testing.T) {
	const (
		noon, night = "2026-03-02T12:00:00Z", "2026-03-02T23:00:00Z"
		audit, stop = "2026-03-10T12:00:00Z", "2026-03-20T12:00:00Z"
	)
	set := policySet(t, gateDocuments, "cni", "log", "gpu", "free")
	tests := map[string]struct {
		change  ChangeKind
		set     string
		at      string
		proceed string // a policy
		clock   string
		want    Reason
	}{
		"proceed lets a template go":            {TemplateChange, "cni", noon, "held", "", ""},
		"and where pods may run":                {PlacementChange, "log", noon, "eager", "", ""},
		"and a deletion go ahead":               {Delete, "cni", noon, "held", "", ""},
		"in a freeze":                           {TemplateChange, "cni", audit, "held", "", ""},
		"in a freeze of everything":             {TemplateChange, "cni", stop, "held", "", ""},
		"not those of another policy":           {TemplateChange, "gpu", noon, "held", "", WindowShut},
		"not those in a freeze of everything":   {Update, "gpu", stop, "held", "", Frozen},
		"nor one in no policy":                  {Update, "free", stop, "held", "", Frozen},
		"nor while the clock is doubted":        {TemplateChange, "cni", noon, "held", "it is ahead", ClockUntrusted},
		"nor a freeze of everything then":       {TemplateChange, "cni", stop, "held", "it is ahead", Frozen},
		"a doubted clock holds a template back": {TemplateChange, "cni", night, "", "it is ahead", ClockUntrusted},
		"and a deletion":                        {Delete, "cni", night, "", "it is ahead", ClockUntrusted},
		"but not what disturbs no pod":          {Update, "cni", night, "", "it is ahead", ""},
		"nor what Immediately lets go":          {TemplateChange, "log", noon, "", "it is ahead", ""},
		"nor a creation":                        {Create, "cni", night, "", "it is ahead", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			now := instant(t, tt.at)
			r := Rules{Policies: set, Ledger: Ledger{}.Govern(set, nameOf("free")), ClockProblem: tt.clock}
			if tt.proceed != "" {
				r.Ledger = must(r.Ledger.Proceed(Proceed{Policy: tt.proceed, Since: now.Add(-time.Minute), Until: now.Add(time.Hour)}))
			}
			if got := Gate(Change{DaemonSet: nameOf(tt.set), Kind: tt.change}, r, now); got.Reason != tt.want || got.Allowed != (tt.want == "") {
				t.Errorf("got %+v, want reason %q", got, tt.want)
			}
		})
	}
}

// A new template may need a ConfigMap that a freeze of everything holds back.
func TestProceedUnfreezesWhatTemplatesMayNeed(t *testing.T) {
	set, now := policySet(t, gateDocuments, "cni", "log", "gpu"), instant(t, "2026-03-20T12:00:00Z")
	proceeding := must(Ledger{}.Proceed(Proceed{Policy: "held", Since: now, Until: now.Add(time.Hour)}))
	for _, test := range []struct {
		kind   ChangeKind
		ledger Ledger
		clock  string
		want   bool
	}{
		{Create, proceeding, "", true},
		{Update, proceeding, "", true},
		{Delete, proceeding, "", false},
		{Recreate, proceeding, "", false},
		{Update, proceeding, "it is ahead", false},
		{Update, Ledger{}, "", false},
	} {
		if got := Unfreezes(Change{Kind: test.kind}, Rules{Policies: set, Ledger: test.ledger, ClockProblem: test.clock}, now); got != test.want {
			t.Errorf("%+v: got %t", test, got)
		}
	}
}

func TestProceedIsBounded(t *testing.T) {
	now := instant(t, "2026-03-02T12:00:00Z")
	for length, ok := range map[time.Duration]bool{-time.Hour: false, 0: false, time.Second: true, MaxProceed: true, MaxProceed + 1: false} {
		l, err := Ledger{}.Proceed(Proceed{Policy: "cni", Since: now, Until: now.Add(length)})
		if (err == nil) != ok || (len(l.Proceeds) == 1) != ok {
			t.Errorf("%s: got %v and %v", length, l.Proceeds, err)
		}
	}
	edited := Ledger{Proceeds: []Proceed{{Policy: "cni", Since: now, Until: now.Add(MaxProceed + 1)}}}
	if p := edited.Proceeding("cni", now); p != nil {
		t.Errorf("one that was written by hand for too long is in force: %+v", p)
	}
}

func TestProceedReplacesAndEnds(t *testing.T) {
	now := instant(t, "2026-03-02T12:00:00Z")
	l := must(Ledger{}.Proceed(Proceed{Policy: "log", Since: now, Until: now.Add(time.Hour)}))
	l = must(l.Proceed(Proceed{Policy: "cni", Since: now, Until: now.Add(time.Hour)}))
	before := l
	l = must(l.Proceed(Proceed{Policy: "cni", Since: now, Until: now.Add(2 * time.Hour)}))
	if p := l.Proceeding("cni", now); len(l.Proceeds) != 2 || p == nil || !p.Until.Equal(now.Add(2*time.Hour)) {
		t.Errorf("replaced: got %+v", l.Proceeds)
	}
	if p := before.Proceeding("cni", now); !p.Until.Equal(now.Add(time.Hour)) {
		t.Error("the ledger before was changed")
	}
	if l.Proceeding("cni", now.Add(2*time.Hour)) != nil || l.Proceeding("cni", now.Add(-1)) != nil {
		t.Error("in force before it begins, or when it has ended")
	}
	l, had := l.EndProceed("cni")
	if _, again := l.EndProceed("cni"); !had || again || len(l.Proceeds) != 1 {
		t.Errorf("ended: got %t, then %t, %+v", had, again, l.Proceeds)
	}
}

func TestProceedOfAPolicyThatIsGoneIsDropped(t *testing.T) {
	now := instant(t, "2026-03-02T12:00:00Z")
	l := must(Ledger{}.Proceed(Proceed{Policy: "cni", Since: now, Until: now.Add(time.Hour)}))
	if got := New(Observed{Ledger: l}, nil, now).Ledger.Proceeds; len(got) != 0 {
		t.Errorf("got %+v", got)
	}
	if l.Proceeding("cni", now) == nil {
		t.Error("the ledger that was given was changed")
	}
}
