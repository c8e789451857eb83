# The two commands a newcomer needs are `make demo` and `make test`. Each installs what it lacks.

SHELL := /bin/bash
CARGO ?= cargo
FUZZ_SECONDS ?= 10
# Of each round of `make soak`; SECONDS is taken by bash.
SECONDS_EACH ?= $(if $(filter command line environment,$(origin SECONDS)),$(SECONDS),60)
SEED ?=
SOAK ?=
# With the features of the whole workspace, so that it shares every crate with the tests.
XTASK := $(CARGO) run --quiet --bin xtask --all-features --

SCENARIOS ?=
COMPARE ?=
POLICIES ?=

.PHONY: help setup demo test test-vm compare programs build release fast lint docs bench bench-mapping instructions fuzz session soak install uninstall

help:
	@echo 'make demo     build, then show numad at work on this machine in half a minute; VERBOSE=1 shows more'
	@echo 'make build    the four programs, in target/release'
	@echo 'make test     everything that can be tested on this machine'
	@echo 'make test-vm  the programs on a real kernel with many nodes (QEMU); SCENARIOS=... or --quick'
	@echo 'make compare  what places threads and memory, side by side, on that kernel; COMPARE=--help'
	@echo 'make programs programs with barriers for NUMAD_VM_PROGRAMS, in target/vm/programs'
	@echo 'make lint     formatting, clippy, docs, the map, generated files, the model of the ring'
	@echo 'make bench    the benches that hold the budgets of docs/measurements.md'
	@echo 'make instructions  the hot paths counted by valgrind, beside docs/measurements.md'
	@echo 'make bench-mapping  the mapping kernels beside Scotch and METIS (installs them)'
	@echo 'make fuzz     every fuzz target for FUZZ_SECONDS=$(FUZZ_SECONDS) each (nightly toolchain)'
	@echo 'make install  what make build built, below DESTDIR and PREFIX=/usr; compiles nothing'
	@echo 'make uninstall  removes what make install put there'
	@echo 'make session  the picture of the demo in README.md, made again'
	@echo 'make soak     the daemon under users who do their worst, undo under chaos; SECONDS=$(SECONDS_EACH) SEED=...'

setup:
	@scripts/setup

# Needs nothing but a compiler: no package is installed.
demo: fast
	@scripts/demo $(if $(VERBOSE),--verbose)

test: setup
	$(CARGO) build --quiet --all-features --workspace --bins
	$(CARGO) build --quiet --all-features -p mpi-shim
	$(CARGO) test --workspace --all-features
	@scripts/test-privileged

# A kernel with many nodes in QEMU, with a ground truth that sees every access to memory.
test-vm: setup
	@$(MAKE) --no-print-directory release
	@scripts/vm-setup $(filter --quick,$(SCENARIOS))
	@$(CARGO) run --quiet --bin numad-vm --all-features -- run $(SCENARIOS)

# Against the kernel's own balancing, the distribution's numad and others; hours, and goes on where it stopped.
# POLICIES=all puts every policy of ours into it.
compare: setup
	@$(MAKE) --no-print-directory release
	@scripts/vm-setup
	@$(CARGO) run --quiet -p numad-vm -- compare --output target/compare $(if $(POLICIES),--policies $(POLICIES)) $(COMPARE)

programs:
	@$(MAKE) --no-print-directory -C tests/vm/programs

# The picture in README.md: what the demo shows here, drawn.
session: demo
	@LANG=C.UTF-8 scripts/demo >docs/session.txt
	@$(CARGO) xtask gen

build: setup release

# The four programs without link-time optimisation, as the demo has them: built in a third of the time.
fast:
	@scripts/build-fast

release:
	@$(CARGO) build --release --quiet -p numad -p numadctl -p workloads -p sim -p mpi-shim

lint: setup
	$(CARGO) fmt --all --check
	rustfmt --check crates/policies/src/*.rs # whose modules a macro declares, out of cargo's sight
	$(CARGO) clippy --workspace --all-targets --all-features --quiet -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --all-features --no-deps --document-private-items --quiet
	$(XTASK) tidy
	$(XTASK) gen --check
	@scripts/ring-model

bench: setup
	$(CARGO) bench -p numad-core -p policies -p sampler -p topology --bench core --bench propose --bench kernel --bench sampler --bench topology

instructions: setup
	@scripts/instructions

bench-mapping: setup
	@scripts/bench-mapping $(SIZES)

fuzz:
	@scripts/fuzz $(FUZZ_SECONDS)

# The real daemon under users who do their worst, and undo under chaos. What a failure prints has the SEED to give again.
# Rounds are modules of xtask/src/soak; SOAK=door runs that one alone.
soak: setup
	$(CARGO) build --quiet -p numad
	$(CARGO) xtask soak --seconds $(SECONDS_EACH) $(if $(SEED),--seed $(SEED)) $(SOAK)

# Compiles nothing, so that root needs no toolchain: `make build` comes before it.
install:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install

uninstall:
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' scripts/install --uninstall
