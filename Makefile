# Everything that people, pre-commit and CI run; `make` alone lists the targets.
# Needs only make, a POSIX shell and Python >= 3.11. The environment lives in .venv in this folder.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Some containers set it. Every process would compile Prefect and MLflow again.
unexport PYTHONDONTWRITEBYTECODE

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.stamp
UV    := uv>=0.9,<1

# Set PYTHON to choose the interpreter that .venv is made from: make test PYTHON=python3.12
PYTHON ?=
PYTHONS := $(PYTHON) python3 python3.13 python3.12 python3.11 python

# The one definition of which tests run when. PYTEST_ARGS adds to any of them: make fast PYTEST_ARGS="-k gate"
FAST := not slow and not e2e
E2E  := e2e and not slow
SLOW := slow
PYTEST_ARGS ?=
# Two processes, as the suite is meant for two cores; make test TEST_PROCESSES=0 runs it in one.
TEST_PROCESSES ?= 2
PYTEST := $(BIN)/python -m pytest -n $(TEST_PROCESSES)

# Values of Helm charts are no manifests, and have no schema that can be had without a network.
MANIFESTS := $(filter-out %.values.yaml,$(wildcard infra/kubernetes/*.yaml))

# The stamp holds the folder that .venv was made in: scripts and the editable install name it, so a copied or moved
# tree needs a new .venv. So does one whose interpreter is gone.
USABLE := $(shell test "$$(cat $(STAMP) 2>/dev/null)" = "$(CURDIR)" && $(BIN)/python -c '' 2>/dev/null && echo yes)
ifneq ($(USABLE),yes)
.PHONY: $(STAMP)
endif

.PHONY: help setup demo test check lint types imports fast e2e format slow bench lock clean

help:  ## List the targets
	@awk -F ':.*##' '/^[a-z]+:.*##/ { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP)  ## Make .venv and install everything, hashes checked (other targets do it when needed)

demo: $(STAMP)  ## Run the whole story on built-in data
	$(BIN)/assay demo

test: fast e2e  ## Run every test that is not slow

check: lint types imports fast  ## Lint, types, import contracts and the fast tests: before every commit

lint: $(STAMP)  ## Lint, formatting and the schemas of infra/, changing nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/yamllint --strict -c infra/.yamllint infra
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec infra/compose.yaml
	$(BIN)/kubernetes-validate --strict --quiet $(MANIFESTS)

types: $(STAMP)  ## Type check
	$(BIN)/mypy --strict core tasks flows

imports: $(STAMP)  ## Import contracts
	$(BIN)/lint-imports

fast: $(STAMP)  ## Run the tests that are neither slow nor end to end
	$(PYTEST) -m "$(FAST)" $(PYTEST_ARGS)

# A file stays in one process, as its tests share the servers that it starts. In the order of collection the long files
# come first; by default those with the fewest tests, which are the longest, would come last.
e2e: $(STAMP)  ## Run the end-to-end tests
	$(PYTEST) --dist loadfile --no-loadscope-reorder -m "$(E2E)" $(PYTEST_ARGS)

format: $(STAMP)  ## Format, and mend what the linter can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# A file stays in one process, so that the grid which its tests share is simulated once.
slow: $(STAMP)  ## Run the simulations that test the guarantee itself
	$(PYTEST) --dist loadfile -m "$(SLOW)" $(PYTEST_ARGS)

bench: $(STAMP)  ## Measure speed and memory
	$(BIN)/python tests/benchmarks/bench.py

lock: $(STAMP)  ## Resolve again and write requirements.lock
	$(BIN)/uv lock
	$(BIN)/uv export --quiet --frozen --no-emit-project --no-header --all-extras -o requirements.lock

clean:  ## Remove .venv, caches and built files
	rm -rf $(VENV) dist build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find core tasks flows tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp goes first and comes back last, so an interrupted set-up starts over. uv checks the hashes in
# requirements.lock; --python keeps another active environment out of it.
$(STAMP): requirements.lock pyproject.toml
	@set -eu; \
	if [ "$(USABLE)" != yes ]; then \
	  rm -rf $(VENV); \
	  python=; without_venv=; \
	  for candidate in $(PYTHONS); do \
	    "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 || continue; \
	    if "$$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	    without_venv=$${without_venv:-$$candidate}; \
	  done; \
	  if [ -z "$$python" ] && [ -n "$$without_venv" ]; then \
	    version=$$("$$without_venv" -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
	    echo "assay: $$without_venv (Python $$version) cannot make a virtual environment: its venv or ensurepip module is missing." >&2; \
	    echo "       On Debian or Ubuntu: apt-get install python$$version-venv" >&2; \
	    exit 1; \
	  fi; \
	  if [ -z "$$python" ]; then \
	    echo "assay: no Python 3.11 or newer found (tried: $(PYTHONS))." >&2; \
	    echo "       Install one, or name it: make setup PYTHON=<its path>" >&2; \
	    exit 1; \
	  fi; \
	  echo "Making $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv $(VENV); \
	fi; \
	rm -f $(STAMP); \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '$(UV)'; \
	$(BIN)/uv pip install --quiet --python $(BIN)/python -r requirements.lock -e .; \
	printf '%s\n' "$(CURDIR)" > $(STAMP)
