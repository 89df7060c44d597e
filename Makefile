# The same checks for everyone: on a desk, before a commit and in CI. PYTHON is that of an environment
# with the package installed as `pip install -e ".[dev]"`; PYTHONS are those with which the packages are tried.

PYTHON ?= python
PYTHONS ?= python3.11 python3.12 python3.13
BENCHMARKS = build/benchmarks

.PHONY: help check check-all check-release check-packages lint format test test-all test-oldest seconds \
	benchmarks docs docs-full

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

check: lint test  ## format, lint, types, levels and the quick tests: some minutes

check-all: lint test-all  ## the same with all tests, also those that repeat others

check-release: check-all check-packages test-oldest docs-full benchmarks  ## the same, packages, oldest TensorFlow and more

check-packages:  ## build the sdist and the wheel in dist/, and try both with each of PYTHONS: some minutes each
	PYTHON=$(PYTHON) .ci/packages $(PYTHONS)

lint:  ## format, lint, types and levels; changes nothing
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy
	$(PYTHON) -c "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-logo'])"

format:  ## format and repair what ruff can
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

test:  ## the quick tests, few that see most
	$(PYTHON) -m pytest @tests/quick.txt

test-all:  ## all tests
	$(PYTHON) -m pytest --release

test-oldest:  ## the quick tests with the oldest TensorFlow that is supported, in an environment of its own
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/python -m pip install --quiet -e ".[test]" "tensorflow==2.19.*"
	build/oldest/bin/python -m pytest @tests/quick.txt

seconds:  ## all tests, and how long those of each file took, by which the longest go first
	$(PYTHON) -m pytest --release --renew-seconds

benchmarks:  ## whether the benchmarks run: short, those that need neither other packages nor data
	mkdir -p $(BENCHMARKS)
	$(PYTHON) benchmarks/speed.py --quick --cases own,size --largest 10000 --output $(BENCHMARKS)/speed.md
	$(PYTHON) benchmarks/chains.py --quick --cases shared,progress,storage,estimates --output $(BENCHMARKS)/chains.md
	$(PYTHON) benchmarks/dynamics.py --repetitions 1
	$(PYTHON) benchmarks/estimators.py --repetitions 1
	$(PYTHON) benchmarks/papers/preferential_figure1.py --quick --output $(BENCHMARKS)
	$(PYTHON) benchmarks/papers/simplex_figures.py --quick --output $(BENCHMARKS)
	$(PYTHON) benchmarks/papers/ccadl_table1.py --quick --output $(BENCHMARKS)

docs:  ## the site, in docs/_build/html; a warning is an error
	$(PYTHON) -m sphinx -W --keep-going -q docs docs/_build/html

docs-full:  ## the same with the vignettes executed, which takes some minutes
	rm -rf docs/gallery docs/_build
	SGMCMC_DOCS=full $(PYTHON) -m sphinx -W --keep-going -q docs docs/_build/html
