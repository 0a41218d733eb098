# Rowtrail's developer loop. Every target works on a clean clone of Debian or Ubuntu with Go; what a target needs
# beyond Go (a linter, a Postgres, a Docker daemon) it finds, builds or, as root, installs.
SHELL := /bin/bash
GOLANGCI_VERSION := v2.15.0
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)

.PHONY: build test test-mysql unit itest race lint fuzz twin conformance debezium debezium-page bench demo soak checker simulation chaos fuzz-cdc failover scale clean

build: ## bin/rowtrail
	go build -ldflags '$(LDFLAGS)' -o bin/rowtrail ./cmd/rowtrail

test: build ## unit and integration tests on real servers, with a summary that counts skips
	go run ./itest/runtests -timeout 30m -count=1 -p 2 ./...

MYSQL_SERVERS ?= mysql:9.7,mariadb:11.8,mariadb:10.11
test-mysql: build ## what tests MySQL and MariaDB, on real servers; MYSQL_SERVERS=mariadb:11.8
	ROWTRAIL_ITEST_MYSQL=$(MYSQL_SERVERS) go run ./itest/runtests -timeout 40m -count=1 -p 1 ./connectors/... ./sink/... ./itest/servers ./itest/binlogs ./itest/audit ./itest/shop ./itest/demo ./itest/soak ./itest/fuzzcdc

race: ## unit tests under the race detector
	go test -race -short -timeout 20m ./...

lint: .tools/golangci-lint-$(GOLANGCI_VERSION)
	.tools/golangci-lint-$(GOLANGCI_VERSION) run ./...
	cd itest/bench/peers && go vet ./...
	cd itest/clients/go && go vet ./...
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo 'not gofmt-clean:'; gofmt -l $$(git ls-files '*.go'); exit 1; }

.tools/golangci-lint-$(GOLANGCI_VERSION):
	@mkdir -p .tools
	GOBIN=$(CURDIR)/.tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	mv .tools/golangci-lint $@

FUZZTIME ?= 30s
fuzz: ## every fuzz target for FUZZTIME each
	go run ./itest/runfuzz -fuzztime $(FUZZTIME) ./...

twin: ## random requests to the broker and to kfake, of new seeds; TWIN=40 sequences
	go test ./log/broker -count=1 -timeout 60m -run TestRandomRequestsAgainstKfake -args -twin.random -twin.runs $(or $(TWIN),40) $(if $(SEED),-twin.seed $(SEED))

simulation: ## the cluster on simulated disks, networks and clocks; RUNS=5000 FIRST=1, or SEED=n to see one run
	go test ./cluster -count=1 -timeout 120m -run 'TestSimulation$$' -v -args $(if $(SEED),-sim.seed $(SEED),-sim.runs $(or $(RUNS),5000) $(if $(FIRST),-sim.first $(FIRST)))

conformance: build ## clients that others wrote judge the broker; RUN=regexp selects suites, UPDATE=1 writes docs/clients.md
	ROWTRAIL_BINARY=bin/rowtrail go run ./itest/conformance $(if $(RUN),-run '$(RUN)') $(if $(SEED),-seed $(SEED)) $(if $(UPDATE),-update)

conformance-librdkafka: build ## librdkafka's own tests, LIBRDKAFKA=its source tree
	@test -n '$(LIBRDKAFKA)' || { echo 'name the source tree of librdkafka: LIBRDKAFKA=dir make conformance-librdkafka'; exit 1; }
	ROWTRAIL_BINARY=bin/rowtrail go run ./itest/conformance -librdkafka '$(LIBRDKAFKA)'

debezium: build ## events beside those of Debezium's embedded engine, field by field; SOURCE=postgres,mysql RUN=regexp of modes JSON=1 SEED=n
	ROWTRAIL_BINARY=bin/rowtrail go run ./itest/debezium $(if $(SOURCE),-source '$(SOURCE)') $(if $(RUN),-run '$(RUN)') $(if $(SEED),-seed $(SEED)) $(if $(JSON),-output json) $(if $(KEEP),-keep)

debezium-page: ## docs/debezium.md from the list of explained differences
	go run ./itest/debezium -update

bench: build ## one JSON line per case, beside its limit, in one run
	go run ./itest/bench $(BENCH)

demo: build ## capture, kill, query and apply, end to end; SOURCE=postgres|mysql|mariadb (KEEP=1 stays up)
	go run ./itest/demo $(if $(SOURCE),-source $(SOURCE)) $(if $(KEEP),-keep)

soak: build ## the kill test: SOAK=1m by default, SOURCE=postgres|mysql|mariadb
	ROWTRAIL_BINARY=bin/rowtrail go run ./itest/soak $(if $(SOURCE),-source $(SOURCE)) $(if $(SOAK),-for $(SOAK)) $(if $(SEED),-seed $(SEED))

checker: build ## the transaction checker: CHECKER=10m by default
	ROWTRAIL_BINARY=bin/rowtrail go run ./itest/checker -for $(or $(CHECKER),10m) $(if $(SEED),-seed $(SEED))

chaos: build ## a cluster whose machines and network fail all the time: CHAOS=10m by default, as root
	ROWTRAIL_BINARY=bin/rowtrail go run ./itest/chaos -for $(or $(CHAOS),10m) $(if $(SEED),-seed $(SEED))

fuzz-cdc: build ## random schemas, workloads and faults against a source: FOR=2m by default, SEED=n repeats a run, SOURCE=postgres|mysql|mariadb
	ROWTRAIL_BINARY=bin/rowtrail go run ./itest/fuzzcdc -source $(or $(SOURCE),postgres) -for $(or $(FOR),2m) $(if $(SEED),-seed $(SEED))

failover: build ## how long a partition takes no writes when its leader dies, stops or hands over, as root
	ROWTRAIL_BINARY=bin/rowtrail go run ./itest/failover

scale: build ## 1,000 partitions on three processes: idle CPU, memory, and until all take writes when one is killed
	ROWTRAIL_BINARY=$(CURDIR)/bin/rowtrail go test ./itest/cluster -count=1 -run TestManyPartitions -v

clean:
	rm -rf bin .cache
