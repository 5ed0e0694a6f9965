# Two commands do everything: `make demo` and `make test`. Both create the environment when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BASE := .venv-base
PIP := pip install --quiet --disable-pip-version-check -c constraints.txt
WORKERS ?= auto

.PHONY: demo test bench lint types layers pytest browser clean

demo: $(VENV)/.installed
	$(BIN)/osler demo

test: lint types layers pytest

# Speed against peers, on a machine that does nothing else: about fifteen minutes on two cores. The figures become a page of the docs.
bench: $(VENV)/.installed
	$(BIN)/python benchmarks/bench.py --out benchmarks/results/bench.json
	$(BIN)/python benchmarks/bench.py --page benchmarks/results/bench.json

$(VENV)/.installed: pyproject.toml constraints.txt models/osler-compact/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP) -e ".[dev]"
	$(BIN)/$(PIP) --no-deps -e models/osler-compact
	@touch $@

# The integrator's install, without torch: the tests run the base commands in it.
$(BASE)/.installed: pyproject.toml constraints.txt models/osler-compact/pyproject.toml
	$(PYTHON) -m venv $(BASE)
	$(BASE)/bin/$(PIP) -e .
	$(BASE)/bin/$(PIP) --no-deps -e models/osler-compact
	@touch $@

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed
	$(BIN)/mypy

layers: $(VENV)/.installed
	$(BIN)/lint-imports

pytest: $(VENV)/.installed $(BASE)/.installed browser
	$(BIN)/pytest -n $(WORKERS) --dist loadfile

# The browser tests drive a real Chromium: Debian's, installed here when it is missing and we may.
browser:
	@if command -v chromium >/dev/null 2>&1; then :; \
	elif command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
	  echo "Installing Debian's Chromium for the browser tests"; \
	  apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	else \
	  echo "Chromium is missing and this user may not install it: the browser tests will be skipped."; \
	  echo "To run them: sudo apt-get install chromium"; \
	fi

clean:
	rm -rf $(VENV) $(BASE) runs demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
