# Everything a newcomer needs: `make quickstart` and `make test`. Both set up .venv; quickstart installs far less.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LIGHT := $(VENV)/.light
READY := $(VENV)/.ready

.PHONY: quickstart test lint types browser bench torture screenshots animation figures notebooks docs numbers check-results clean

quickstart: $(LIGHT)  # installs torch and the package, and nothing that only developers need
	$(BIN)/equilibria quickstart

test: lint types browser
	$(BIN)/python -m pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

bench: $(READY)
	$(BIN)/python benchmarks/solvers.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/alignment.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/sweeps.py
	$(BIN)/python benchmarks/explorer.py

torture: $(READY)  # kills, flipped bits, nonsense and load: a quarter of an hour
	$(BIN)/python benchmarks/torture.py --json benchmarks/torture.json

browser:  # Debian's Chromium, which the tests of the explorer drive, and the font of its screenshots
	@command -v chromium > /dev/null || { \
		run=$$([ "$$(id -u)" = 0 ] || echo sudo); \
		$$run apt-get update --quiet && $$run apt-get install --yes --quiet --no-install-recommends chromium fonts-inter; }

screenshots: $(READY) browser  # of the explorer, for the docs
	$(BIN)/python docs/screenshots.py

animation: $(READY)  # of the README
	$(BIN)/python docs/animation.py

figures: $(READY)  # of the docs
	$(BIN)/python docs/figures.py

notebooks: $(READY)  # runs them and stores their outputs
	$(BIN)/jupyter execute --inplace notebooks/*.ipynb

docs: $(READY)  # the site, in build/site; fails on warnings and broken links
	$(BIN)/python docs/tools/site.py

numbers: $(READY)  # in the README, the docs and `equilibria list`, from the results
	$(BIN)/python results/summarise.py

check-results: $(READY)  # re-measures every shipped net and every figure, without training
	ls -d results/*/*/seed-* | xargs -n 1 -P $$(getconf _NPROCESSORS_ONLN) $(BIN)/equilibria evaluate --check --threads 1
	$(BIN)/equilibria reproduce --all --check

$(LIGHT): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "equilibria needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(READY): $(LIGHT)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis
