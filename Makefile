.DEFAULT_GOAL := help
.PHONY: help install demo demo-reset test check fix controlplane oracle bench mutate lock sbom audit-dependencies clean
SHELL := bash

PYTHON3 ?= python3
BIN := .venv/bin
export PORT ?= 8000
export DEMO_HOME ?= .demo
export CLUSTER ?= sim
# Keep compiled modules: otherwise each process of the demo and each start of the tests compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

install: ## Install uv, Python packages and web assets (the other targets do it automatically)
	@$(PYTHON3) scripts/bootstrap.py
	@$(BIN)/python clients/python/make_sync.py
	@$(BIN)/python -m core.assets

demo: install ## Run the whole portal on this machine: PORT=8000, DEMO_HOME=.demo, CLUSTER=sim|real, EMPTY=1
	@exec $(BIN)/python -m demo

demo-reset: ## Delete the data of the demo
	@$(PYTHON3) scripts/demo_reset.py

test: install ## Install what the tests need and run every test in two processes, or some: ARGS="tests/claims -k race"
	@$(if $(ARGS),,$(BIN)/python -m tests.machine)
	@$(BIN)/python -m pytest $(or $(ARGS),-n 2 --dist loadgroup)

check: install ## Run the static checks
	@$(BIN)/python scripts/check.py

fix: install ## Format the code and apply automatic fixes
	@$(BIN)/ruff check --fix --quiet . ; $(BIN)/ruff format --quiet .
	@git ls-files 'templates/*.html' | xargs -r $(BIN)/djade --target-version 6.1

controlplane: install ## Build the real Kubernetes control plane that tests and `make demo CLUSTER=real` use (needs Go)
	@$(BIN)/python -m demo.controlplane.build

lock: install ## Update uv.lock from pyproject.toml
	@PATH="$(CURDIR)/.tools/uv/bin:$$PATH" uv lock

sbom: install ## Write the bill of materials of a release as CycloneDX: FILE=dragoman.cdx.json
	@$(BIN)/python -m scripts.sbom $(or $(FILE),dragoman.cdx.json)

audit-dependencies: install ## Ask PyPI for known vulnerabilities of the Python packages; ARGS=--strict fails without an answer
	@$(BIN)/python -m scripts.audit_dependencies $(ARGS)

oracle: install ## Compare the allocator with that of Kubernetes on random cases: SEED=1 CASES=20000 (needs Go)
	@$(BIN)/python -m tests.oracle $(if $(SEED),--seed $(SEED)) --cases $(or $(CASES),20000)

mutate: install ## Mutation testing: make small mistakes and see whether a test notices: ARGS=claims/quotas or ARGS="--changed main"
	@$(BIN)/python -m scripts.mutate $(ARGS)

bench: install ## Measure every path that has a budget: ARGS="--only pages" or ARGS=--explain; compares with the committed results
	@$(BIN)/python -m bench $(ARGS)
