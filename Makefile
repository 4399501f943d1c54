# Two commands matter: `make run` serves the dashboard, `make test` checks everything.
# Each does its own set-up in .venv and repeats it only when the pinned requirements change.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
PY     := $(VENV)/bin/python
HOST   ?= localhost
PORT   ?= 8501
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(PY) -m pytest -n 3 --dist loadgroup --durations 12
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check

.PHONY: run test lint types unit faults fuzz chromium screenshots bench latency load scale publish clean

# For this machine alone; HOST=0.0.0.0 make run opens it to every network: read docs/serving.md first.
run: $(VENV)/runtime.stamp publish
	$(PY) -m app serve --address $(HOST) --port $(PORT)

test: lint types unit

lint: $(VENV)/dev.stamp
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(VENV)/dev.stamp
	$(VENV)/bin/mypy

# Three workers for two cores: browsers and servers are often waited for. Threads of BLAS would only take turns with them.
unit: $(VENV)/dev.stamp chromium
	$(PYTEST) -m "not faults"

# What is long and seldom breaks: kills, full disks, a clock that jumps, Ray, the container's commands, random examples.
faults: $(VENV)/dev.stamp chromium
	$(PYTEST) -m faults

# Random examples for MINUTES, of all targets or of those called ONLY; failing ones are kept under .hypothesis.
MINUTES ?= 10
fuzz: $(VENV)/dev.stamp
	$(PY) tests/fuzz/run.py --minutes $(MINUTES) --only '$(ONLY)'

# The browser tests need a Chromium; where we may (root on Debian) it is installed, elsewhere they are skipped.
chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || echo "no Chromium: browser tests are skipped"

# Pictures of every page, for the documentation and for whoever changed one to look at.
screenshots: $(VENV)/dev.stamp chromium publish
	$(PY) tests/browser/screenshots.py data/routing.duckdb docs/screenshots

bench: $(VENV)/dev.stamp
	$(PY) -m tests.bench
	$(PY) -m tests.bench.models
	$(PY) -m tests.bench.coverage
	$(PY) -m tests.bench.size_and_power

# Measurements for a quiet machine: key press to painted figure, twenty viewers while the cache is published anew,
# and five beside a thousand damaged uploads and a crowd.
latency: $(VENV)/dev.stamp chromium publish
	$(PY) tests/browser/latency.py data/routing.duckdb

load: $(VENV)/dev.stamp
	$(PY) tests/load/viewers.py
	$(PY) tests/load/strangers.py

# How the parts grow up to 300 runs of 50,000 samples, and every page on so many; about half an hour and 3 GB of disk.
scale: $(VENV)/dev.stamp chromium
	$(PY) -m tests.bench --scale --out docs/scaling
	$(PY) tests/browser/scale.py

# Always the bundled shards into the bundled cache: ROUTECAL_CACHE says what is served, and is never written over here.
publish: $(VENV)/runtime.stamp
	$(PY) -m cache_builder publish data/shards --cache data/routing.duckdb

# A stamp, not the folder, is the target: an interrupted install leaves no stamp and is taken up again.
$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info[:2] == (3, 11) else "RouteCal needs Python 3.11; set PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/runtime.stamp: requirements.txt requirements-dashboard.txt | $(VENV)/bin/python
	$(PIP_INSTALL) -r requirements.txt
	touch $@

$(VENV)/dev.stamp: requirements.txt requirements-dashboard.txt requirements-dev.txt | $(VENV)/bin/python
	$(PIP_INSTALL) -r requirements-dev.txt
	touch $(VENV)/runtime.stamp $@

clean:
	rm -rf $(VENV) data/routing.duckdb .mypy_cache .ruff_cache .pytest_cache
