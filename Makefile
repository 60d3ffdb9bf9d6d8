# Lamplighter. Go, git, make and bash are all it takes; "make help" lists the targets.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

# Packages tested at once. Some start a control plane of their own, so more
# than this wants more than two cores and 8 GB.
P ?= 2
# How long one package's tests may take before they are taken to hang.
TIMEOUT ?= 20m
# Keep the demo's cluster when the demo ends: make demo KEEP=1
KEEP ?=
VERSION := $(or $(VERSION),$(shell git describe --tags --always --dirty))
# The race detector needs a C compiler; nothing else here does. All the rest is
# built without, so that it is static and compiled once.
RACE := $(if $(shell command -v "$$(CGO_ENABLED=1 go env CC)"),-race)
export CGO_ENABLED := 0

# What build.sh builds with: without it, testing the sandbox compiles Kubernetes again.
SANDBOX_GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)

SOURCES := $(shell find cmd/lamplighter examples/install reconcile render inventory -type f ! -name '*_test.go' ! -path '*/testdata/*')
SANDBOX_SOURCES := $(shell find cmd/sandbox -type f ! -name '*_test.go')
FORGE_SOURCES := $(shell find internal/forge -type f)
GO_FILES = $(wildcard $(shell git ls-files -co --exclude-standard -- '*.go'))

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

.PHONY: build
build: bin/lamplighter ## Build bin/lamplighter, the agent and the command line

bin/lamplighter: $(SOURCES) go.mod go.sum bin/.version
	go build -ldflags '-s -w -X lamplighter.dev/cmd/lamplighter/cli.stamp=$(VERSION)' -o $@ ./cmd/lamplighter

# Written only when the version changes, so that a new commit links again and
# nothing else does.
bin/.version: FORCE
	@mkdir -p bin; [ "$$(cat $@ 2>/dev/null)" = '$(VERSION)' ] || echo '$(VERSION)' > $@
.PHONY: FORCE
FORCE:

.PHONY: sandbox
sandbox: bin/sandbox ## Build bin/sandbox, a Kubernetes control plane with simulated nodes (first build: minutes)

bin/sandbox: $(SANDBOX_SOURCES)
	@mkdir -p bin
	sh cmd/sandbox/build.sh $@

.PHONY: forge
forge: bin/forge ## Build bin/forge, a Git host for tests (first build: minutes)

bin/forge: $(FORGE_SOURCES)
	@mkdir -p bin
	sh internal/forge/build.sh $@

bin/kubectl: cmd/sandbox/go.mod
	@mkdir -p bin
	cd cmd/sandbox && go build -trimpath -o ../../$@ k8s.io/kubernetes/cmd/kubectl

.PHONY: demo
demo: build sandbox ## Show an upgrade of twelve nodes; KEEP=1 leaves the cluster running
	KEEP='$(KEEP)' go run ./examples/demo

# Programs that tests run, and the Debian packages they are in.
TOOLS := curl gpg openssl ssh-keygen sshd
PACKAGES := curl gnupg openssl openssh-client openssh-server

.PHONY: tools
tools: ## Install the programs that tests run, if they are missing
	@missing=(); PATH=$$PATH:/usr/sbin; for tool in $(TOOLS); do command -v $$tool >/dev/null || missing+=($$tool); done; \
	if [ $${#missing[@]} -eq 0 ]; then exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then echo "tests need these programs, install them first: $${missing[*]}" >&2; exit 1; fi; \
	apt-get update -q && apt-get install -qy --no-install-recommends $(PACKAGES)

# Tests that do most of their work without the race detector.
UNRACED := ^(TestModel|TestMutations)$$

.PHONY: test
test: sandbox bin/kubectl forge tools ## Run all tests of both modules and print the totals (vet is in lint)
	@{ CGO_ENABLED=$(if $(RACE),1,0) go test -json -vet=off $(RACE) -p $(P) -timeout $(TIMEOUT) ./... || echo '{"Action":"exit","Package":"lamplighter.dev"}'; \
	  [ -z '$(RACE)' ] || go test -json -vet=off -run '$(UNRACED)' -timeout $(TIMEOUT) ./reconcile/rollout || echo '{"Action":"exit","Package":"lamplighter.dev/reconcile/rollout"}'; \
	  cd cmd/sandbox; \
	  GOFLAGS='$(SANDBOX_GOFLAGS)' go test -json -vet=off -p $(P) -timeout $(TIMEOUT) ./... || echo '{"Action":"exit","Package":"cmd/sandbox"}'; \
	} | go run ./internal/testsum

.PHONY: lint
lint: ## Check format, go vet and staticcheck
	@unformatted=$$(gofmt -l $(GO_FILES)); [ -z "$$unformatted" ] || { echo "not gofmt'ed, run make fmt:" $$unformatted >&2; exit 1; }
	go vet ./...
	cd cmd/sandbox && GOFLAGS='$(SANDBOX_GOFLAGS)' go vet ./...
	go tool staticcheck ./...

.PHONY: check
check: lint test ## Everything a change must pass: lint, then test

.PHONY: fmt
fmt: ## Format all Go files
	gofmt -w $(GO_FILES)

.PHONY: bench
bench: ## Run the benchmarks
	go test -run '^$$' -bench . -benchmem ./...

.PHONY: bench-rollout
bench-rollout: sandbox ## Time a rollout over 500 nodes against Kubernetes' own RollingUpdate (minutes)
	go test ./internal/e2e -run '^$$' -bench '^BenchmarkRollout$$' -benchtime 1x -timeout 60m -v

.PHONY: bench-apply
bench-apply: sandbox bin/kubectl ## Time applying 500 and 2,000 objects against a bare loop and kubectl (minutes)
	go test ./internal/e2e -run '^$$' -bench '^BenchmarkApply$$' -benchtime 1x -timeout 30m

.PHONY: clean
clean: ## Delete what was built
	rm -rf bin .sandbox .demo
