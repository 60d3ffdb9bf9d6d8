// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Whatever a ledger knows comes down to now, but for what is over and what says
// itself when it holds: also instants that are added to it one day.
func TestInstantsOfTheFutureBecomeNow(t *testing.T) {
	const ahead = 24 * time.Hour
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	var l Ledger
	fill(reflect.ValueOf(&l).Elem(), now.Add(ahead))
	got := l.NotAfter(now)

	kept := map[string]bool{"Proceeds": true, "Finished": true, "Leaks": true}
	value := reflect.ValueOf(got)
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		if n := count(value.Field(i), now.Add(ahead)); (n > 0) != kept[name] {
			t.Errorf("%s: %d instants are of the future, kept: %t", name, n, kept[name])
		}
	}
	if n := count(reflect.ValueOf(l), now); n > 0 {
		t.Errorf("%d instants of the ledger that was given were changed", n)
	}
	if diff := cmp.Diff(l, l.NotAfter(now.Add(ahead-doubt)), cmp.AllowUnexported(Ledger{})); diff != "" {
		t.Errorf("what clocks may differ by is not left as it is:\n%s", diff)
	}
}

// fill sets every instant, in one element of each list and map.
func fill(v reflect.Value, at time.Time) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(at))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), at)
			}
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), at)
	case v.Kind() == reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		fill(element, at)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), element)
	}
}

// count says how many instants are that one.
func count(v reflect.Value, at time.Time) int {
	n := 0
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		return one(v.Interface().(time.Time).Equal(at))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				n += count(v.Field(i), at)
			}
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			n += count(v.Index(i), at)
		}
	case v.Kind() == reflect.Map:
		for _, key := range v.MapKeys() {
			n += count(v.MapIndex(key), at)
		}
	}
	return n
}
