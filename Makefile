# Every target sets itself up in .venv; all it takes is Python 3.11 or newer, make and a C++ compiler.
#   make demo    the main job            make test    the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST := $(BIN)/python -m pytest -p no:logging
BENCHMARKS := batches schemes loop depth diagnosis
RESULTS := build/bench
RUN_BENCH = mkdir -p $(RESULTS) && PYTHONPATH=tests:$(VENV)/bench $(BIN)/python
export LAMINA_REAL_DATA ?= $(abspath ../shared/data)

.PHONY: demo test check test-slow test-nightly golden site bench bench-quick clean

demo: $(VENV)/.lamina
	$(BIN)/lamina demo

test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(PYTEST) -n 2 -m "not slow and not distributed and not faults and not peers and not browser and not documented and not nightly"

check: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks examples website
	$(BIN)/ruff format --check src tests benchmarks examples website
	$(BIN)/mypy
	$(BIN)/lint-imports

test-slow: $(VENV)/.peers
	$(PYTEST) -m "(slow or distributed or faults or peers or browser or documented) and not nightly"

# Not part of continuous integration: run before an issue is called resolved; the result goes into docs/nightly.md.
test-nightly: $(VENV)/.peers
	$(PYTEST) -m nightly

golden: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m golden.write

# The documentation with the gallery of schemes, to be read from disk: build/site/index.html.
site: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/python website/build.py

# Beside other libraries: training and decoding; then what has no counterpart in them.
bench: $(VENV)/.bench
	$(RUN_BENCH) benchmarks/training.py --output $(RESULTS)/training.json --picture $(RESULTS)/training.svg
	$(RUN_BENCH) benchmarks/decoding.py --output $(RESULTS)/decoding.json
	$(RUN_BENCH) benchmarks/decoding.py --int8 --schemes post-ln --output $(RESULTS)/decoding-int8.json
	$(RUN_BENCH) benchmarks/decoding.py --beam 1 --batch-size 1 --sentences 25 --schemes post-ln --output $(RESULTS)/latency.json
	for name in $(BENCHMARKS); do PYTHONPATH=tests:$(VENV)/bench $(BIN)/python benchmarks/$$name.py || exit 1; done

# The same comparison on a quarter of the tokens, in less than ten minutes; not to be quoted.
bench-quick: $(VENV)/.bench
	$(RUN_BENCH) benchmarks/training.py --quick --seconds 45 --output $(RESULTS)/quick.json --picture $(RESULTS)/quick.svg
	$(RUN_BENCH) benchmarks/decoding.py --sentences 25 --rounds 5 --seconds 90 --schemes post-ln

clean:
	rm -rf $(VENV) build dist lamina-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.lamina: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch==$$(sed -n 's/^torch==//p' constraints.txt)
	$(INSTALL) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.lamina
	$(INSTALL) -e ".[dev]"
	touch $@

$(VENV)/.docs: $(VENV)/.lamina
	$(INSTALL) -e ".[docs]"
	touch $@

$(VENV)/.peers: $(VENV)/.dev $(VENV)/.docs tests/peers/requirements.txt
	$(INSTALL) --no-deps -r tests/peers/requirements.txt
	touch $@

# In a folder of their own: torchscale would take fairseq for usable. What does not install is left out of the comparison.
$(VENV)/.bench: $(VENV)/.peers benchmarks/requirements.txt
	-grep -v '^#' benchmarks/requirements.txt | xargs -n 1 $(INSTALL) --no-deps --target $(VENV)/bench
	touch $@
