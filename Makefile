# Two front doors: `make train` and `make test`. Everything lives in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: train test test-quick test-environments docs bench bench-peers torture lint debian clean

train: .venv/train.done ## Train GEM on a small MuJoCo task and draw its learning curve
	$(BIN)/gemrl train InvertedPendulum-v5 --steps 6000 --eval-every 500 --set learning_starts=1000 \
	  --run runs/first/$$(date +%Y%m%d-%H%M%S)

test: .venv/test.done debian ## Lint, types and all tests
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-quick: .venv/test.done ## Lint, types and the tests that compile nothing: for daily work
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest -n 2 --dist worksteal --quick

test-environments: .venv/test.done ## Train in environments of other packages, each group in .venvs, and write docs/environments.md
	$(BIN)/python -m tests.packages

lint: .venv/test.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/docs.done ## Build the documentation into site/, with the notebook executed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "open site/index.html, or for the search box: $(BIN)/python -m http.server --bind 127.0.0.1 --directory site"

bench: .venv/test.done ## Time planning, refresh, gradient steps and the round on one thread
	taskset -c 0 $(BIN)/python -m benchmarks.round

bench-peers: .venv/bench.done ## Measure speed beside Stable-Baselines3 and SBX, and write docs/performance.md
	$(BIN)/python -m benchmarks.peers

torture: .venv/test.done ## Attack files 5,000 times, damage 10,000 and recorded data 2,000 times, kill runs 200 times, fill a disk; one to two hours
	$(BIN)/python -m tests.torture

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("gemrl needs Python 3.11: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }

.venv/train.done: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing gemrl into .venv (once; a minute or two)"
	$(INSTALL) -e '.[mujoco,video,report]'
	@touch $@

.venv/test.done: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing gemrl with every extra into .venv (once; a few minutes)"
	$(INSTALL) torch==2.13.0
	$(INSTALL) -e '.[dev]'
	@touch $@ .venv/train.done .venv/docs.done

.venv/docs.done: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing gemrl and MkDocs into .venv (once; a minute or two)"
	$(INSTALL) -e '.[docs]'
	@touch $@

.venv/bench.done: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing gemrl and its peers into .venv (once; a few minutes)"
	$(INSTALL) torch==2.13.0
	$(INSTALL) -e '.[bench]'
	@touch $@

# What tests need of Debian: EGL, to draw films off screen, and a browser, to open reports in. Without root those tests skip by name.
debian:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  missing=""; ldconfig -p | grep -q libEGL.so.1 || missing="libegl1"; command -v chromium >/dev/null || missing="$$missing chromium"; \
	  if [ -n "$$missing" ]; then \
	    echo "installing $$missing"; apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing >/dev/null || \
	    echo "not installed: $$missing; tests that need it are skipped"; fi; fi

clean:
	rm -rf .venv .venvs build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis
