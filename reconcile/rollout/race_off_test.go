// SPDX-License-Identifier: Apache-2.0

//go:build !race

package rollout

// raceDetector makes the tests an order of magnitude slower.
const raceDetector = false
