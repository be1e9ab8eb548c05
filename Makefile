# Needs git, make and Python 3.11 or newer; everything else goes into .venv, at the versions and
# hashes in constraints.txt. To use another interpreter: make demo PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOCKENV := .lockenv

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help env demo test thorough engines accuracy bench bench-check lint lock docs messages clean check-python

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

env: $(STAMP) ## Make the environment in .venv (the other targets do so when they need it)

demo: $(STAMP) ## Analyze the sample incident and write demo_report.html
	@$(BIN)/kvpm demo -o demo_report.html --force

test: lint ## Run the linters, the type checker and the tests
	@sh tools/ensure_browser.sh
	@sh tools/ensure_prometheus.sh
	@sh tools/ensure_axe.sh
	$(BIN)/pytest

accuracy: $(STAMP) ## Print the confusion matrix over the labelled incidents and write docs/accuracy.md
	@$(BIN)/python tests/incidents/accuracy.py --write docs/accuracy.md

# SIZE in MB and ONLY are for a closer look, and leave the page alone unless KEEP=1.
# Compiled first: what a command takes holds no compiling of its own.
BENCH = $(BIN)/python -m compileall -q analyzer benchmarks && $(BIN)/python -m benchmarks $(if $(SIZE),--size $(SIZE)) $(if $(ONLY),--only '$(ONLY)') $(if $(TURNS),--turns $(TURNS))

bench: $(STAMP) ## Measure beside ripgrep, polars and others; write docs/performance.md (SIZE=MB, ONLY=NAME: print only)
	@sh tools/ensure_peers.sh
	@$(BENCH) $(if $(KEEP)$(if $(SIZE)$(ONLY),,1),--keep docs/performance.md)

bench-check: $(STAMP) ## Measure again and fail if a ratio is worse than in docs/performance.md by more than 1.5 (FACTOR=)
	@sh tools/ensure_peers.sh
	@$(BENCH) --check docs/performance.md $(if $(FACTOR),--factor $(FACTOR))

thorough: $(STAMP) ## Run the tests that `make test` leaves out because they are more of the same
	$(BIN)/pytest -m thorough

engines: $(STAMP) ## Compare the replay with the engines' own schedulers on new workloads (installs both, about 5 GB)
	@sh tools/ensure_sglang.sh
	@sh tools/ensure_vllm.sh
	$(BIN)/pytest -m engines

lint: $(STAMP) ## Run the linters and the type checker only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(STAMP) ## Write the generated reference pages anew
	@$(BIN)/python -m analyzer.docs

messages: $(STAMP) ## Bring the catalogues of translations in line with the texts
	@$(BIN)/python tools/messages.py

# Run it with the oldest Python that pyproject.toml allows: pip-tools resolves for the one it runs on.
lock: check-python ## Bring constraints.txt in line with pyproject.toml (UPGRADE=1: newest releases)
	@$(PYTHON) -m venv --clear $(LOCKENV)
	@$(LOCKENV)/bin/python -m pip install --quiet pip-tools
	CUSTOM_COMPILE_COMMAND="make lock" $(LOCKENV)/bin/pip-compile --quiet --no-config \
		--extra dev --extra fleet --build-deps-for editable --generate-hashes --allow-unsafe --strip-extras \
		--no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options \
		--newline lf $(if $(UPGRADE),--upgrade) --output-file constraints.txt pyproject.toml
	@rm -rf $(LOCKENV)

clean: ## Remove reports, builds and caches (.venv stays)
	@rm -rf build dist *.egg-info demo_report.html $(LOCKENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

$(STAMP): constraints.txt pyproject.toml
	@$(MAKE) --no-print-directory check-python
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV), about a minute ..."
	@$(BIN)/python -m pip install -qq --require-hashes -r constraints.txt
	@$(BIN)/python -m pip install -qq --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q analyzer
	@touch $@

check-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed, and '$(PYTHON)' is not; try: make PYTHON=python3.12 TARGET" >&2; \
		exit 1; }
