// SPDX-License-Identifier: Apache-2.0

//go:build !race

package policy

// raceDetector makes the tests an order of magnitude slower.
const raceDetector = false
