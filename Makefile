# Everything from a fresh clone: `make demo` and `make test` need only Python 3.11+, make and the package index.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tested versions, for us and for everything we install; our users are free to choose others.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Suites of their own, and the environments that they and make dist use: make test-all runs the suites, make lock pins the rest.
SUITES := test-browser test-serve test-batch test-trl test-vllm test-comet
ENVIRONMENTS := batch comet dist serve trl vllm

.PHONY: demo batch-demo serve study check reference docs notebook test test-hard test-all $(SUITES) lint format dist lock $(ENVIRONMENTS:%=lock-%) clean

demo: $(VENV)/.core  ## a few sentences by greedy decoding, all candidates, QUIT and the default, side by side
	$(BIN)/quitmt demo

PORT ?= 8080
serve: $(VENV)/.serve  ## serve the embedded models over HTTP, with a page: make serve PORT=8000
	$(BIN)/quitmt serve --port '$(PORT)'

# Run it again, and it finds everything done. What it writes is in $(BATCH)/.
BATCH ?= batch-demo
batch-demo: $(VENV)-batch/.done  ## a small real job on two local workers of Ray: files in, Parquet out
	$(VENV)-batch/bin/python examples/batch/make.py '$(BATCH)'
	$(VENV)-batch/bin/quitmt batch '$(BATCH)/in/*' --output '$(BATCH)/out' --workers 2 --rows-per-file 6 --distinct --max-cost 16 --text '$(BATCH)/all.pt'
	paste -d '\n' '$(BATCH)/all.en' '$(BATCH)/all.pt' | head -8

# What is done is kept in $(STUDY)/: run it again after an interruption, or after a change to its study.toml.
STUDY ?= study
study:  ## a small study of your own: make study TSV=news.tsv (source <tab> reference, a segment a line)
	@test -f '$(STUDY)/study.toml' || test -n '$(TSV)' || { echo 'make study: name a test set: make study TSV=FILE, with source <tab> reference on each line (English to Portuguese)' >&2; exit 2; }
	@test -z '$(TSV)' || test -r '$(TSV)' || { echo 'make study: cannot read $(TSV)' >&2; exit 2; }
	@test -z '$(TSV)' || test ! -f '$(STUDY)/study.toml' || grep -qF '"$(TSV)"' '$(STUDY)/study.toml' || { echo 'make study: $(STUDY)/study.toml is of another test set: leave TSV out, or name another folder: STUDY=FOLDER' >&2; exit 2; }
	$(MAKE) --no-print-directory $(VENV)/.lab
	mkdir -p '$(STUDY)'
	test -f '$(STUDY)/study.toml' || $(BIN)/quitmt lab init '$(STUDY)/study.toml' --tsv '$(TSV)' --limit 50 --output '$(STUDY)'
	$(BIN)/quitmt lab live '$(STUDY)/study.toml'

# Two CPU minutes; four in a fresh clone, until the caches of mypy and numba are filled.
check: lint  ## before each commit: the linters, and the tests that are quick and need no torch (tests/light.py)
	$(BIN)/python -m pytest -p tests.light

reference: $(VENV)/.dev  ## write docs/reference.md from the entries of all names and settings
	$(BIN)/python -m quitmt.cli.reference > docs/reference.md

docs: $(VENV)/.docs  ## docs/ as a site, in site/index.html; a broken link is an error, and so is anything from a network
	$(BIN)/zensical build --strict --clean
	@! grep -rlE '<(script|link|img|iframe)[^>]*(src|href)="(https?:)?//' site --include='*.html' || { echo 'make docs: these pages need a network' >&2; exit 1; }

notebook: $(VENV)/.dev  ## run the example notebook and write what its cells print into it
	$(BIN)/python -m tests.notebook examples/quitmt.ipynb

# In processes side by side, as many as there are cores up to four; the tests of a file share what they set up.
test: $(VENV)/.dev  ## run the whole test suite
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

# Hours. Some of it only: make test-hard HARD='--only busy signals --runs 1 -- tests/serve'
test-hard: $(VENV)/.dev  ## the whole suite in random order, where tests fail that count on luck (tests/hard.py)
	$(BIN)/python -m tests.hard $(HARD)

test-all:  ## make test, then every suite with an environment of its own; a failure doesn't stop the others
	@passed= failed=; for suite in test $(SUITES); do \
	  echo "== make $$suite"; \
	  if $(MAKE) --no-print-directory $$suite; then passed="$$passed $$suite"; else failed="$$failed $$suite"; fi; \
	done; \
	echo "passed:$${passed:- none}"; echo "failed:$${failed:- none}"; test -z "$$failed"

test-vllm: $(VENV)-vllm/.done  ## the vLLM backend, in an environment of its own (minutes to install, CPU only)
	$(VENV)-vllm/bin/python tests/vllm/smollm2.py .cache/smollm2
	$(VENV)-vllm/bin/python tests/vllm/smollm2.py .cache/smollm2-3 3
	$(VENV)-vllm/bin/python -m pytest tests/vllm -W 'ignore:Unclosed context:ResourceWarning'  # vLLM leaves one to the end

test-comet: $(VENV)-comet/.done  ## what our COMET is measured by: the original, in an environment of its own
	$(VENV)-comet/bin/python -m pytest --confcutdir=tests/comet -o filterwarnings= tests/comet

# Not in make test: schemathesis has many packages of its own.
CASES ?= 2000
test-serve: $(VENV)-serve/.done  ## schemathesis over the server's OpenAPI description, in an environment of its own
	CASES='$(CASES)' $(VENV)-serve/bin/python -m pytest -o filterwarnings= tests/openapi

test-browser: $(VENV)-serve/.done  ## the page in a real browser: needs Debian's chromium, or CHROMIUM=PATH
	@command -v '$(or $(CHROMIUM),chromium)' > /dev/null || { echo 'make test-browser: apt-get install chromium, or name one: CHROMIUM=PATH' >&2; exit 2; }
	$(VENV)-serve/bin/python -m pytest tests/browser

test-trl: $(VENV)-trl/.done  ## TRL trains on exported files and by our rewards, in an environment of its own (CPU only)
	$(VENV)-trl/bin/python -m pytest -o filterwarnings= tests/trl

# Not in make test: Ray has half a gigabyte of its own, and starts slowly.
test-batch: $(VENV)-batch/.done  ## quitmt batch on real Ray: a cluster of three nodes, kills, the driver killed
	$(VENV)-batch/bin/python -m pytest -o filterwarnings= tests/batch
	$(VENV)-batch/bin/python -m benchmarks.batch faults

lint: $(VENV)/.dev  ## linter, formatter, types and the direction of imports
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

dist: $(VENV)-dist/.done  ## build the wheel and the sdist, check them, and translate with the wheel in an empty environment
	rm -rf dist $(VENV)-wheel
	$(VENV)-dist/bin/python -m build --quiet .
	$(VENV)-dist/bin/twine check --strict dist/*
	$(PYTHON) -m venv $(VENV)-wheel
	$(VENV)-wheel/bin/pip install --quiet dist/*.whl
	cd dist && printf 'Good morning.\nThe door is open.\n' | '$(abspath $(VENV)-wheel)/bin/quitmt' translate --show -n 64
	rm -rf $(VENV)-wheel

format: $(VENV)/.dev
	$(BIN)/ruff check --fix src tests benchmarks examples
	$(BIN)/ruff format src tests benchmarks examples

# quitmt itself: .venv/.core without extras, .venv/.dev, .venv/.serve, … with the extra of that name.
$(VENV)/.%: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.$(if $(filter-out core,$*),[$*])'
	touch $@ $(VENV)/.core

# Every other environment: environments/NAME.in lists what it is for, environments/NAME.txt pins every package in it.
$(VENV)-%/.done: environments/%.in environments/%.txt pyproject.toml constraints.txt
	test -x $(VENV)-$*/bin/python || $(PYTHON) -m venv $(VENV)-$*
	PIP_CONSTRAINT=environments/$*.txt $(VENV)-$*/bin/pip install --quiet --requirement environments/$*.in
	$(if $(REMOVED),$(VENV)-$*/bin/pip uninstall --quiet --yes $(REMOVED))
	touch $@

# vLLM's CPU build requires these, but never needs them for text, and cannot be imported with builds for CUDA.
$(VENV)-vllm/.done: REMOVED := torchvision torchaudio torchcodec

lock: $(ENVIRONMENTS:%=lock-%)  ## install the newest versions that environments/*.in allow, and write them to environments/*.txt

# A venv of Python 3.11 starts with a setuptools that nothing may need. A local version such as +cpu is left out, so that
# the pins hold wherever torch comes from.
$(ENVIRONMENTS:%=lock-%): lock-%:  ## the same for one of them: make lock-comet
	rm -rf $(VENV)-$*
	$(PYTHON) -m venv $(VENV)-$*
	$(VENV)-$*/bin/pip uninstall --quiet --yes setuptools
	PIP_CONSTRAINT= $(VENV)-$*/bin/pip install --quiet --requirement environments/$*.in
	{ echo '# Written by make lock-$* from $*.in.'; $(VENV)-$*/bin/pip freeze --all --exclude pip --exclude-editable | sed 's/+[^+]*$$//'; } > environments/$*.txt

clean:
	rm -rf $(VENV) $(ENVIRONMENTS:%=$(VENV)-%) $(VENV)-wheel $(VENV)-mbrs $(STUDY) $(BATCH) site build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
