# The two commands a newcomer needs are `make demo` and `make test`. Each installs what it lacks.

SHELL := /bin/bash
CARGO ?= cargo
FUZZ_SECONDS ?= 10

SCENARIOS ?=
COMPARE ?=
POLICIES ?=

.PHONY: help setup demo test test-vm compare build release lint docs bench bench-mapping fuzz install

help:
	@echo 'make demo     build, then show numad at work on this machine in half a minute'
	@echo 'make build    the four programs, in target/release'
	@echo 'make test     everything that can be tested on this machine'
	@echo 'make test-vm  the programs on a real kernel with many nodes (QEMU); SCENARIOS=... or --quick'
	@echo 'make compare  what places threads and memory, side by side, on that kernel; COMPARE=--help'
	@echo 'make lint     formatting, clippy, docs, the map, generated files, the model of the ring'
	@echo 'make bench    the benches that hold the budgets of docs/measurements.md'
	@echo 'make bench-mapping  the mapping kernels beside Scotch and METIS (installs them)'
	@echo 'make fuzz     every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS) each (nightly toolchain)'
	@echo 'make install  numad, numadctl, units and settings below DESTDIR=/'

setup:
	@scripts/setup

demo: setup
	@$(MAKE) --no-print-directory release
	@scripts/demo

test: setup
	$(CARGO) build --quiet --all-features --workspace --bins
	$(CARGO) test --workspace --all-features
	@scripts/test-privileged

# A kernel with many nodes in QEMU, with a ground truth that sees every access to memory.
test-vm: setup
	@$(MAKE) --no-print-directory release
	@scripts/vm-setup $(filter --quick,$(SCENARIOS))
	@$(CARGO) run --quiet -p numad-vm -- run $(SCENARIOS)

# Against the kernel's own balancing, the distribution's numad and others; hours, and goes on where it stopped.
# POLICIES=all puts every policy of ours into it.
compare: setup
	@$(MAKE) --no-print-directory release
	@scripts/vm-setup
	@$(CARGO) run --quiet -p numad-vm -- compare --output target/compare $(if $(POLICIES),--policies $(POLICIES)) $(COMPARE)

build: setup release

# The daemon by itself: built together with numadctl it would be linked against libhwloc as well.
release:
	@$(CARGO) build --release --quiet -p numad
	@$(CARGO) build --release --quiet -p numadctl -p workloads -p sim

lint: setup
	$(CARGO) fmt --all --check
	rustfmt --check crates/policies/src/*.rs # whose modules a macro declares, out of cargo's sight
	$(CARGO) clippy --workspace --all-targets --all-features --quiet -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --all-features --no-deps --document-private-items --quiet
	$(CARGO) xtask tidy
	$(CARGO) xtask gen --check
	@scripts/ring-model

bench: setup
	$(CARGO) bench -p numad-core -p policies -p sampler -p topology --bench core --bench propose --bench kernel --bench sampler --bench topology

bench-mapping: setup
	@scripts/bench-mapping $(SIZES)

fuzz:
	@scripts/fuzz $(FUZZ_SECONDS)

install: build
	@scripts/install '$(DESTDIR)'
