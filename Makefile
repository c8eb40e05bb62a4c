# Everything from a fresh clone: `make demo` and `make test` need only Python 3.11+, make and the package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tested versions, for us and for everything we install; our users are free to choose others.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test lint format bench clean

demo: $(VENV)/.core  ## translate a few sentences with the embedded model
	$(BIN)/quitmt translate --show examples/demo.en

test: $(VENV)/.dev  ## run the whole test suite
	$(BIN)/python -m pytest

lint: $(VENV)/.dev  ## linter, formatter, types and the direction of imports
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix src tests benchmarks
	$(BIN)/ruff format src tests benchmarks

$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
