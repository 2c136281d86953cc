# `make run` and `make test` set everything up by themselves, in .venv/.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BENCH := .venv/.bench
COMPARE := .venv/.compare
DOCS := .venv/.docs

.PHONY: help run test tests test-all test-ray fuzz torture lint bench bench-quick compare compare-tune docs docs-serve clean

help: ## list the commands
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed; make PYTHON=python3.x ...")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

run: $(READY) ## the paper's simulation: six policies, ten replicas, a table and a picture
	$(BIN)/fairbandit -m policy=uniform,oful,greedy,fair_greedy,fair_greedy_oracle_cdf,fair_greedy_oracle_rewards environment=simulation replicas=10 figures=[overview]

lint: $(READY) ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: $(READY) ## style, types and tests, the types beside the tests (five to ten minutes)
	@$(MAKE) --no-print-directory --jobs=2 lint tests

tests: $(READY)
	$(BIN)/pytest -n auto --dist loadfile

test-all: $(DOCS) lint ## all tests: also launches, kills, a browser, full disks, ../shared, fuzz
	$(BIN)/pytest -n auto --dist loadfile -m ""
	@$(MAKE) --no-print-directory fuzz torture

test-ray: ## a sweep over two Ray nodes, one of them killed midway (installs Ray, 1.3 GB)
	$(PYTHON) -m venv .venv/ray
	.venv/ray/bin/python -m pip install --quiet --constraint constraints-ray.txt torch
	.venv/ray/bin/python -m pip install --quiet --constraint constraints-ray.txt --editable '.[ray]'
	tests/torture/ray_cluster.sh .venv/ray/bin/python

fuzz: $(READY) ## 10,000 random and hostile inputs against every door (INPUTS=100000 for more)
	$(BIN)/python -m tests.fuzz $(INPUTS)

torture: $(READY) ## a sweep and an agent killed again and again, a full disk, a read-only folder (the disks need root)
	$(BIN)/python -m tests.torture

$(BENCH): $(READY)
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	@touch $@

bench: $(BENCH) ## speed and memory beside the paper-literal loop and other libraries (ten to thirty minutes)
	$(BIN)/python -m tests.benchmarks $(ARGS)

bench-quick: $(BENCH) ## the same at smaller sizes, in two to six minutes
	$(BIN)/python -m tests.benchmarks --quick $(ARGS)

$(COMPARE): $(READY)
	-$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[compare]'
	@touch $@

compare: $(COMPARE) ## regret beside Vowpal Wabbit, coba and bayesianbandits (twenty to forty minutes)
	$(BIN)/python -m tests.studies.comparison $(ARGS)

compare-tune: $(COMPARE) ## chooses the settings that `make compare` plays (one to two hours)
	$(BIN)/python -m tests.studies.comparison.tune $(ARGS)

$(DOCS): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs,service]'
	@touch $@

docs: $(DOCS) ## the documentation, in build/site; every warning is an error, every link is checked
	$(BIN)/python -W error docs/pictures/draw.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/pytest -q -m '' tests/docs/test_site.py

docs-serve: $(DOCS) ## the documentation at http://127.0.0.1:8000, built anew when it changes
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000

clean: ## forget the environment and caches; results in outputs/ stay
	rm -rf build .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
