# The verbs of a day with the testbed. `make` alone lists them.

PYTHON ?= python3
SPEC ?= experiments/lumion.yaml
LAB ?=
TWIN ?= 1
ARGS ?=

DAILY := not soak and not hardware

VENV ?= .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Else every process that a test starts would compile our modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup messages experiment everything test parsers matrix test-lab soak nightly gloo check audit bench clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22
	@echo
	@echo "  make experiment SPEC=experiments/lumion.yaml LAB=configs/rack.yaml TWIN=1 ARGS='--repeat 3'"
	@echo "  TWIN=0 drives the hardware that the lab file names."

setup: $(VENV)/.installed ## make .venv with everything pinned in constraints.txt
	@$(BIN)/python -m compileall -q testbed drivers  # as pip does for what is not editable

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
	  || { echo "the testbed needs Python 3.11 to 3.13; say which with: make setup PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $(VENV)/.begun  # a change of pyproject.toml from now on is for the next time
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,postgres,propius,strangers,workers]'
	@mv $(VENV)/.begun $@

messages: setup ## make the messages of gRPC from their .proto files
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. testbed/propius/*.proto

experiment: setup ## run SPEC on the twin of LAB (or on LAB itself with TWIN=0)
	$(BIN)/testbed run $(SPEC) $(if $(LAB),--lab $(LAB)) $(if $(filter 1 yes true,$(TWIN)),--twin) $(ARGS)

TENANT := $(BIN)/testbed run experiments/everything-tenant.yaml --twin everything --queue
ELSEWHERE := -S 'jobs.main.hosts=[s0, s1]'

everything: setup ## run experiments/everything.yaml as soon as IRS admits it, behind another run on its rack
	$(BIN)/testbed twin up everything --name everything
	@trap '$(BIN)/testbed twin down everything' EXIT; set -e; \
	  echo 'a tenant, once, so that the queue knows how long it takes'; $(TENANT) >/dev/null 2>&1; \
	  echo 'the same again, everything behind it, and beside them one on hosts that are free'; \
	  $(TENANT) >/dev/null 2>&1 & \
	  until $(BIN)/testbed queue --twin everything | grep '^runs'; do sleep 0.2; done; \
	  $(TENANT) $(ELSEWHERE) >/dev/null 2>&1 & \
	  { sleep 5; $(BIN)/testbed queue --twin everything; } & \
	  $(BIN)/testbed run experiments/everything.yaml --twin everything --queue $(ARGS)

test: setup ## run the tests, without the full counts
	$(BIN)/pytest -m '$(DAILY)' --numprocesses 4 --dist worksteal --ignore tests/e2e --ignore tests/docs $(ARGS)
	$(BIN)/pytest -m '$(DAILY) and not alone' --numprocesses 3 --dist loadfile --no-loadscope-reorder \
	  tests/docs tests/e2e $(ARGS)
	$(BIN)/pytest -m '$(DAILY) and alone' tests/e2e $(ARGS)

parsers: setup ## test what reads instruments' answers, which early patch releases of Python got wrong
	$(BIN)/pytest -m '$(DAILY)' --numprocesses 4 tests/unit/drivers tests/unit/common \
	  tests/contract/test_scpi.py tests/contract/test_tl1.py tests/contract/test_session.py \
	  $(wildcard tests/contract/test_*_conversation.py) $(ARGS)

matrix: ## run the tests on every Python 3.11 to 3.13 that this machine has
	@.ci/matrix test

test-lab: setup ## test the drivers of LAB's switches on spare, dark ports of the real boxes
	@test -n '$(LAB)' || { echo "which lab? make test-lab LAB=configs/my-lab.yaml"; exit 2; }
	$(BIN)/pytest tests/contract/test_on_hardware.py -m hardware --lab '$(LAB)' $(ARGS)

soak: setup ## run the full counts that the tests only sample
	$(BIN)/pytest -m soak --timeout 3600 $(ARGS)
	$(BIN)/pytest -m '$(DAILY) and hypothesis' --hypothesis-profile full --timeout 3600 $(ARGS) \
	  || test $$? -eq 5  # what ARGS names may have none of these

nightly: setup ## run every experiment on every twin that it fits, in 30 minutes
	$(BIN)/testbed nightly $(ARGS)

gloo: setup ## hold our collectives beside gloo's, and scripts on rails: installs PyTorch first
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[torch]'
	$(BIN)/pytest tests/unit/onhost/test_distributed.py tests/unit/onhost/test_ranks_in_processes.py \
	  tests/unit/onhost/test_torch_backend.py
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pytest -m '$(DAILY)' tests/e2e/test_unchanged_script.py \
	  tests/e2e/test_gloo_over_circuits.py
	$(BIN)/testbed run experiments/gloo.yaml --twin $(ARGS)

check: setup ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: setup ## look dependencies up among known vulnerabilities, where that can be asked
	.ci/audit

bench: setup ## measure ratios side by side and print them
	$(BIN)/python -m pytest tests/bench --override-ini python_files='bench_*.py' -s --timeout 1800 $(ARGS)

clean: ## remove the environment and caches; results stay
	rm -rf .venv .venv-* .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
