# Every target does its own set-up: a virtual environment in .venv, pinned installs, then the job. A second run skips what is
# already there (stamp files inside .venv), so `make test` on a fresh machine needs only Python, pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
EDITABLE := $(PIP) --no-deps --no-build-isolation --editable .
# A worker for each processor; one that has run out of tests takes some of another's.
PYTEST := $(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 8 --dist worksteal
PYTEST_ARGS ?=
BENCH_ARGS ?=
OPS_ARGS ?=
DYNAMO_TESTS ?=
INDUCTOR_TESTS ?=
THUNDER ?=
CRAWL ?=

.PHONY: help demo test quick-test lint typecheck bench test-ops test-peers fuzz clean distclean
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || { $(PYTHON) -m pip install --quiet virtualenv && $(PYTHON) -m virtualenv --quiet $(VENV); }

$(VENV)/.stamp-demo: requirements/base.txt requirements/demo.txt pyproject.toml | $(BIN)/python
	$(PIP) -r requirements/demo.txt
	$(EDITABLE)
	@touch $@

$(VENV)/.stamp-test: requirements/base.txt requirements/demo.txt requirements/test.txt pyproject.toml | $(BIN)/python
	$(PIP) -r requirements/test.txt
	$(EDITABLE)
	@touch $@

$(VENV)/.stamp-bench: $(VENV)/.stamp-test requirements/bench.txt
	$(PIP) -r requirements/bench.txt
	@touch $@

demo: $(VENV)/.stamp-demo  ## compile BERT, GPT-2 and ResNet-50 and compare them with eager
	$(BIN)/python -m bench.demo

test: lint typecheck  ## everything that continuous integration checks
	$(PYTEST) $(PYTEST_ARGS)

quick-test: $(VENV)/.stamp-test  ## the tests without the slow ones
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

lint: $(VENV)/.stamp-test  ## ruff, and the order of the layers
	$(BIN)/ruff check .
	$(BIN)/lint-imports

typecheck: $(VENV)/.stamp-test  ## mypy --strict
	$(BIN)/mypy

bench: $(VENV)/.stamp-bench  ## workloads against eager and the peers (BENCH_ARGS="--workload bert --peer eager,lamina")
	$(BIN)/python -m bench $(BENCH_ARGS)

test-ops: $(VENV)/.stamp-test  ## all of torch's operator database against eager (resumable; OPS_ARGS="--only add")
	$(BIN)/python -m tests.parity $(OPS_ARGS)

test-peers: $(VENV)/.stamp-bench  ## other people's programs and tests (those that are fetched: DYNAMO_TESTS=, INDUCTOR_TESTS=, THUNDER=, CRAWL=)
	$(PYTEST) tests/peers $(PYTEST_ARGS)
	$(BIN)/python -m tests.peers.dynamo_tests $(DYNAMO_TESTS)
	$(BIN)/python -m tests.peers.inductor_tests $(INDUCTOR_TESTS)
	$(BIN)/python -m tests.peers.thunder_tests $(THUNDER)
	$(if $(CRAWL),$(BIN)/python -m tests.peers.crawl $(CRAWL) --count 1150)
	$(BIN)/python -m tests.peers.cpython_tests --mode plain
	for judge in transformers modules functions optimizers timm torchvision; do $(BIN)/python -m tests.peers $$judge || exit 1; done

fuzz: $(VENV)/.stamp-test  ## random Python programs, call sequences, numbers among arguments and strides, all seeds
	$(BIN)/python tests/fuzz/run_python_programs.py --count 20000
	$(BIN)/python tests/fuzz/call_sequences.py --count 10000
	$(BIN)/python tests/fuzz/number_arguments.py --count 5000
	$(BIN)/python tests/fuzz/strides.py --count 2000

clean:  ## remove caches and results
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist *.egg-info
	rm -rf bench/results tests/parity/results
	find lamina tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean  ## remove the virtual environment too
	rm -rf $(VENV)
