# Everything a newcomer needs: `make quickstart` and `make test`. Both set up their own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: quickstart test lint types bench check-results clean

quickstart: $(READY)
	$(BIN)/equilibria quickstart

test: lint types
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

bench: $(READY)
	$(BIN)/python benchmarks/solvers.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/sweeps.py

check-results: $(READY)  # measures every shipped net and every study again, without training
	$(BIN)/equilibria evaluate results/*/*/seed-* --check
	$(BIN)/equilibria reproduce --all --check

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "equilibria needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
