# Everything that is done with this tree has a name here. `make` alone lists them.
# The scripts in tools/ do the work; a step that has nothing to do costs milliseconds.

SHELL := /bin/bash
RUN_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?=
FUZZ_SECONDS ?= 60
FIGURES_RUNS ?=
KVM_KERNEL ?= backports
TRUTH ?= rings

# What the environment is built from. uv is not even started while none of it changed.
environment_sources := pyproject.toml setup.py tools/cargo.sh uv.lock Cargo.toml Cargo.lock \
	$(shell find crates -name '*.rs' -o -name Cargo.toml)

.DEFAULT_GOAL := help
.PHONY: help setup run test truth unit kvm kvm-shell lint format bench bench-protect protect-demo fleet-demo figures \
	fuzz packages wheel clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.built .venv/.kernels ## install and build what is missing: Debian packages, uv, .venv, guest kernel
	@tools/packages.sh run

.venv/.built: $(environment_sources) tools/environment.sh tools/uv.sh
	@tools/environment.sh

# Once per environment: `stealtime run` fetches by itself what is no longer in the cache.
.venv/.kernels: | .venv/.built
	@tools/packages.sh run
	@tools/kernels.sh

run: setup ## set up, then measure this machine against its virtual machines (RUN_ARGS="..." is passed on)
	@.venv/bin/stealtime run $(RUN_ARGS)

test: setup ## set up, then run the tests: Rust, Python, browser, machines
	@tools/test.sh

truth: setup ## run the slow tests that judge the instruments (TRUTH=due: only if what they judge has changed)
	@tools/packages.sh test
	@tools/truth.sh $(TRUTH)

unit: setup ## set up, then run the unit tests of Python: no root, no machine, a minute or two
	@tools/unit.sh

lint: setup ## check format, types and style of Rust, Python, Markdown and shell
	@tools/packages.sh test
	@tools/lint.sh

format: setup ## format Rust, Python and Markdown
	@cargo fmt --all
	@.venv/bin/ruff check --quiet --fix --exit-zero
	@.venv/bin/ruff format --quiet
	@.venv/bin/mdformat README.md CHANGELOG.md CONTRIBUTING.md docs

kvm: setup ## run the tests of KVM, in an emulated machine that has it
	@tools/packages.sh test
	@.venv/bin/pytest tests/kvm

kvm-shell: setup ## give a prompt in that machine (KVM_KERNEL=standard: another kernel in it)
	@tools/packages.sh test
	@.venv/bin/python tests/kvm/first_level.py --kernel $(KVM_KERNEL)

protect-demo: setup ## protect a guest, kill its host, and see its client go on
	@.venv/bin/stealtime protect demo $(DEMO_ARGS)

fleet-demo: setup ## measure three hosts on this machine, one of them slowed, on Dask and as a Slurm array
	@tools/packages.sh test
	@PYTHONPATH=tests/rigs .venv/bin/python tests/manual/fleet_demo.py

bench: setup ## measure speed and cost, against oslat, fio and a bare boot
	@tools/packages.sh bench
	@tools/bench.sh

bench-protect: setup ## measure protection: pause, slowdown, failover, bytes, neighbours (BENCH_ARGS=--full: longer)
	@tools/bench.sh protect $(BENCH_ARGS)

figures: FIGURES_PAGE ?= docs/figures.md
figures: setup ## write the tables of a page from runs (FIGURES_RUNS="RUN ...", FIGURES_PAGE=docs/overheads.md)
	@PYTHONPATH=benchmarks .venv/bin/python -m figures.tables --write $(FIGURES_PAGE) $(FIGURES_RUNS)
	@.venv/bin/mdformat $(FIGURES_PAGE)

fuzz: ## fuzz each decoder (frames, trace pages) for FUZZ_SECONDS (60)
	@tools/fuzz.sh $(FUZZ_SECONDS)

packages: setup ## build and check dist/packages: wheel for any Linux, Debian packages, man pages, OCI image
	@tools/packages.sh packages
	@tools/packages-build.sh

wheel: setup ## build dist/stealtime-*.whl, which works alone
	@tools/wheel.sh

clean: ## remove everything that was built here; guest kernels and runs stay
	@rm -rf .venv .tools target dist build fuzz/target .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find src -name '*.so' -delete -o -name '*.egg-info' -prune -exec rm -r {} +
	@find src tests benchmarks -name __pycache__ -prune -exec rm -r {} +
