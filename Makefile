# SPDX-License-Identifier: Apache-2.0
# The only entrances. Each target sets up what it needs, also in a fresh clone; a second run finds it done.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

bin := .venv/bin
collection := collections/ansible_collections/llmgw/fleet

# Debian packages, each with what shows that it is there.
engine_packages := "libgomp1:/usr/lib/*/libgomp.so.1"
systemd_packages := systemd:systemctl dbus:dbus-daemon
fleet_packages := systemd-container:systemd-nspawn debootstrap:debootstrap openssh-client:ssh iproute2:ip

# An environment made elsewhere (a moved or copied checkout) or whose interpreter is gone is made anew.
ifneq ($(file <.venv/location)$(if $(wildcard $(bin)/python),,gone),$(CURDIR)/.venv)
.venv/demo.stamp .venv/test.stamp .venv/lint.stamp: again
endif

.PHONY: again help demo test test-fast test-engines test-long fault-matrix random-catalogs abort-trials soak million fuzz lint dist bench-apply bench-rollout bench-gateway bench-routing bench-discovery bench-plan bench-quality clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/demo.stamp ## this machine serves a small model until Ctrl-C; ONCE=1: until it has answered once
	@scripts/debian-packages "for the demo" $(engine_packages) $(systemd_packages) || true
	@$(bin)/llmgw demo $(if $(ONCE),--once)

# --- tests ------------------------------------------------------------------------------------------------------------

test: .venv/test.stamp ## all tests that this machine can run, real hosts included where it can; ARGS="-k words" narrows
	@scripts/debian-packages "for the tests" $(engine_packages) $(systemd_packages) $(fleet_packages) || true
	@status=0; $(if $(ARGS),$(bin)/python -m pytest $(ARGS),{ scripts/ansible-test units || status=1; }; \
	  scripts/run-tests $(bin)/python) || status=1; exit $$status

test-fast: .venv/test.stamp ## the tests that start no host, no engine and no systemd
	@$(bin)/python -m pytest -m "not fleet and not engine and not engines and not systemd and not slow" $(ARGS)

test-engines: .venv/test.stamp ## real vLLM on processors and the engines' own parsers: 5 GB of downloads, 20 minutes
	@scripts/debian-packages "for real hosts" "libnuma1:/usr/lib/*/libnuma.so.1" $(systemd_packages) $(fleet_packages) || true
	@$(bin)/python -m pytest -s -m engines tests/engines $(ARGS)

test-long: .venv/test.stamp ## the tests on real hosts that take minutes and that `make test` leaves out
	@scripts/debian-packages "for real hosts" $(engine_packages) $(systemd_packages) $(fleet_packages) || true
	@$(bin)/python -m pytest -m "fleet and long" $(ARGS)

fault-matrix: .venv/test.stamp ## every fault in every step of a rollout, on real hosts under load; ARGS="--only units/crash" narrows
	@scripts/debian-packages "for real hosts" $(systemd_packages) $(fleet_packages) || true
	@$(bin)/python -m tests.fleet.faults.matrix $(ARGS)

random-catalogs: .venv/test.stamp ## random catalogs one after another on real hosts; ARGS="--number 50 --seed 1 --hosts 6"
	@scripts/debian-packages "for real hosts" $(systemd_packages) $(fleet_packages) || true
	@$(bin)/python -m tests.fleet.changes.random_catalogs $(ARGS)

abort-trials: .venv/test.stamp ## clients that leave, a thousand times: how long until the engine sees it; ARGS="--trials 1000"
	@$(bin)/python -m tests.bench.aborts $(ARGS)

soak: .venv/test.stamp ## mixed load while engines die, hang and restart and routes change each second; ARGS="--minutes 30"
	@$(bin)/python -m tests.bench.soak $(ARGS)

million: .venv/test.stamp ## a million requests with a prompt of its own each: memory must stay flat; ARGS="--requests 100000"
	@$(bin)/python -m tests.bench.million $(ARGS)

fuzz: .venv/test.stamp ## damages texts of every kind for SECONDS (600) and sees that nothing but `Unreadable` comes of it
	@LLMGW_FUZZ_SECONDS=$(or $(SECONDS),600) $(bin)/python -m pytest tests/properties/test_readings.py -k "no_damage" $(ARGS)

# --- lint -------------------------------------------------------------------------------------------------------------

lint_parts := sanity ruff format types layers dependencies nodes yaml shell ansible files

lint: .venv/lint.stamp ## every static check; goes through all of them and shows each one's complaints
	@$(MAKE) --keep-going --jobs=2 --output-sync=target $(lint_parts:%=lint-%) && echo "lint: all clean"

lint-ruff: .venv/lint.stamp
	@echo "== ruff: style and likely mistakes" && $(bin)/ruff check

lint-format: .venv/lint.stamp
	@echo "== ruff format: layout" && $(bin)/ruff format --check

lint-types: .venv/lint.stamp
	@echo "== mypy: types" && $(bin)/mypy

lint-layers: .venv/lint.stamp
	@echo "== import-linter: layers and the pure core" && $(bin)/lint-imports --no-logo

lint-dependencies: .venv/lint.stamp
	@echo "== deptry: declared against imported packages" && $(bin)/deptry --no-ansi .

lint-nodes: .venv/lint.stamp
	@echo "== vermin: what nodes run needs no newer Python than 3.8" && $(bin)/vermin --quiet --violations --no-tips \
	  --target=3.8- $(collection)/plugins/modules $(collection)/plugins/module_utils $(collection)/roles

lint-yaml: .venv/lint.stamp
	@echo "== yamllint" && $(bin)/yamllint --strict .

lint-ansible: .venv/lint.stamp
	@echo "== ansible-lint, profile production" && NO_COLOR=1 PATH=$(CURDIR)/$(bin):$$PATH ansible-lint

lint-sanity: .venv/lint.stamp
	@echo "== ansible-test sanity" && scripts/ansible-test sanity

lint-shell: .venv/lint.stamp
	@echo "== shellcheck" && scripts/debian-packages "to check shell scripts" shellcheck:shellcheck \
	  && git grep --untracked -lI "^#!.*sh$$" | xargs --no-run-if-empty shellcheck

lint-files: .venv/lint.stamp
	@echo "== length, licence line and grammar of every file" && $(bin)/python -m pytest -q tests/shape -m "not slow"

# --- products ---------------------------------------------------------------------------------------------------------

dist: .venv/test.stamp ## the wheel, and the collection for Ansible Galaxy, in dist/
	@$(bin)/python -m hatchling build -t wheel
	@$(bin)/ansible-galaxy collection build --force --output-path dist $(collection)

# --- measurements -----------------------------------------------------------------------------------------------------

bench-gateway: .venv/test.stamp ## CPU, rate, latency and memory of the gateway beside sglang-router, vllm-router and nginx; ARGS="--quick"
	@scripts/debian-packages "to measure the gateway" wrk:wrk nginx:nginx util-linux:taskset || true
	@scripts/gateway-peers || true
	@$(bin)/python -m tests.bench.gateway $(ARGS)

bench-routing: .venv/test.stamp ## TTFT, goodput and cache hits of each routing policy beside sglang-router, before simulated engines
	@scripts/gateway-peers || true
	@$(bin)/python -m tests.bench.routing $(ARGS)

bench-discovery: .venv/test.stamp ## CPU of discovery on a node, and a sweep over real hosts beside Ansible's own and plain ssh
	@scripts/debian-packages "for real hosts" $(systemd_packages) $(fleet_packages) || true
	@$(bin)/python -m tests.bench.discovery $(ARGS)

bench-apply: .venv/test.stamp ## an apply without anything to do beside a bare sweep, and a rolling update, over real hosts
	@scripts/debian-packages "for real hosts" $(systemd_packages) $(fleet_packages) || true
	@$(bin)/python -m tests.bench.apply $(ARGS)

bench-rollout: .venv/test.stamp ## a changed argument rolls under load; ARGS="--hosts 16 --units 8 --max-unavailable 8"
	@scripts/debian-packages "for real hosts" $(systemd_packages) $(fleet_packages) || true
	@$(bin)/python -m tests.fleet.changes.rollout $(ARGS)

bench-plan: .venv/test.stamp ## time and memory of a plan for up to 10,000 nodes; ARGS="--only small,lost" narrows
	@$(bin)/python -m tests.bench.plan $(ARGS)

bench-quality: .venv/test.stamp ## placed replicas and moves beside the optimum of a solver, over random small fleets
	@$(bin)/python -m tests.bench.quality $(ARGS)

clean: ## removes what the targets made in this folder
	@rm -rf .venv .cache dist .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
	  $(collection)/tests/output

.venv/%.stamp: pyproject.toml $(collection)/galaxy.yml scripts/environment
	@scripts/environment $* && touch $@
