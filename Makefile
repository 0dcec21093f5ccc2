# Everything a person types here. `make` alone explains itself.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# make run
TARGET ?=
LISTEN ?= 127.0.0.1:8917
# make test
ARGS ?=
WORKERS ?= 2
# A file's tests share what they set up; files in the order of tests/conftest.py: long ones first, the browser's last.
SPREAD := --dist loadfile --no-loadscope-reorder
# make fuzz, make soak
MINUTES ?= 30

.PHONY: help run test check cover format docs live soak fuzz bench wheel lock peers install clean

help: ## this list
	@echo "opmon: make TARGET, where TARGET is one of"; echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  make run TARGET=http://host:8000            watches that server instead of the demo"
	@echo "  make run LISTEN=127.0.0.1:9000              serves the page there"
	@echo "  make test ARGS='tests/core -k knee'         a part of the tests"

run: $(VENV)/.installed ## installs what is needed and serves the demo, or watches TARGET
	@if [ -n "$(TARGET)" ]; then exec $(BIN)/opmon serve --target "$(TARGET)" --listen "$(LISTEN)"; \
	else exec $(BIN)/opmon demo --listen "$(LISTEN)"; fi

test: $(VENV)/.installed-dev peers ## runs the tests, and ends by saying what was left out
	$(PY) -m pytest -n $(WORKERS) $(SPREAD) $(ARGS)

check: $(VENV)/.installed-dev ## lint, types, layers
	@faults=; for one in "ruff check --quiet ." "ruff format --quiet --check ." mypy "lint-imports --no-logo"; do \
		echo "# $$one"; $(BIN)/$$one || faults="$$faults; $$one"; done; \
	[ -z "$$faults" ] || { echo "faults in$${faults#;}" >&2; exit 1; }

cover: $(VENV)/.installed-dev ## the tests again, with the lines and branches that none of them reached
	$(PY) -m pytest -n $(WORKERS) $(SPREAD) --cov --cov-report term $(ARGS)

format: $(VENV)/.installed-dev ## lets ruff format and repair
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-dev ## writes the tables of docs/ anew from what the program declares, and tests the documents
	$(PY) docs/tables.py --write
	$(PY) -m pytest -n 0 tests/test_house_docs.py $(ARGS)

live: $(VENV)/.installed-dev ## tests against a real vLLM: make live TARGET=http://host:8000
	@[ -n "$(TARGET)" ] || { echo "make live TARGET=http://host:8000" >&2; exit 2; }
	OPMON_LIVE_TARGET="$(TARGET)" OPMON_REQUIRE=vllm $(PY) -m pytest -n 0 --timeout 1200 tests/live $(ARGS)

soak: $(VENV)/.installed-dev ## watches the simulator for MINUTES: memory, files, missed strata
	OPMON_SOAK_MINUTES=$(MINUTES) $(PY) -m pytest -n 0 -s --timeout 0 tests/performance/test_soak.py $(ARGS)

fuzz: $(VENV)/.installed-dev ## coverage-guided, then property tests with other examples, MINUTES in all or to a fault
	@$(PY) -c 'import atheris' 2>/dev/null || $(INSTALL) 'atheris>=3.0' || \
		echo "atheris could not be installed here: the property tests alone" >&2
	@$(PY) -c 'import atheris' 2>/dev/null || exit 0; \
		$(PY) -m tests.fuzz.fuzz_pages --seconds $$(($(MINUTES) * 30))
	@end=$$(($$(date +%s) + $(MINUTES) * 30)); while [ $$(date +%s) -lt $$end ]; do \
		$(PY) -m pytest -q -x -n $(WORKERS) --timeout 0 --hypothesis-profile fuzz -m hypothesis $(ARGS) || exit 1; done

bench: $(VENV)/.installed-dev ## what things cost on this machine
	@for script in tests/performance/bench_*.py; do echo "# $$script"; $(PY) $$script || exit 1; done

wheel: $(VENV)/.installed-dev ## builds the wheel and the sdist into dist/
	$(PY) -m build

lock: ## writes the lock files anew (needs uv)
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
		--extra postgres -o requirements.lock pyproject.toml
	uv pip compile -q --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 \
		--extra postgres --group dev -c requirements.lock -o requirements-dev.lock pyproject.toml

# What some tests need and pip cannot bring. Without root or apt those tests are left out, and the run says so.
PEERS := chromium fonts-dejavu-core libfaketime prometheus prometheus-alertmanager postgresql
peers: ## installs, as root on Debian, what the tests need: browser, Prometheus, PostgreSQL, a clock to set
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		lacking=; for p in $(PEERS); do \
			dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || lacking="$$lacking $$p"; done; \
		if [ -n "$$lacking" ]; then echo "installing$$lacking"; apt-get update -q -y >/dev/null; \
			DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$lacking >/dev/null \
			|| echo "apt could not install$$lacking; the tests that need them are left out" >&2; fi; \
	fi

install: $(VENV)/.installed ## installs opmon into .venv, and nothing else

clean: ## removes what was built and installed here
	rm -rf $(VENV) build dist .coverage .coverage.* htmlcov .pytest_cache .mypy_cache .ruff_cache .import_linter_cache \
		.hypothesis opmon/ui/static/vendor
	find opmon tests migrations -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: an install happens once, and again when a lock or the packaging changes.
$(PY):
	@[ -n "$(PYTHON)" ] || { echo "opmon needs Python 3.11 or newer: PYTHON=/path/to/python3 make ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "Python's venv module is missing; on Debian: apt-get install python3-venv" >&2; exit 1; }

INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
PACKAGING := pyproject.toml hatch_build.py opmon/__init__.py

$(VENV)/.installed: requirements.lock $(PACKAGING) | $(PY)
	@echo "installing opmon into $(VENV) (once, about half a minute)"
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps -e .
	@touch $@

$(VENV)/.installed-dev: requirements-dev.lock $(VENV)/.installed
	@echo "installing what tests and checks need"
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@
