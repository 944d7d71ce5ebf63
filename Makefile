# Set-up, demo, tests and gates. Needs Python 3.11 or newer and make; nothing else, as root or as anybody.
#
#   make test ARGS="tests/gates -x"     ARGS goes to the command that a target runs
#   make setup PYTHON=/opt/py/bin/python3
.POSIX:
.PHONY: help setup demo up test soak zoo lint fix bench reference lock clean

BIN = .venv/bin
# The first of these that is new enough makes .venv.
PYTHON ?= python3.13 python3.12 python3.11 python3
# Tests mostly wait; but each worker may start a PostgreSQL of its own, so there are never more than five.
WORKERS = -n 5 --dist loadfile
MINUTES = 10
PIP = PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore $(BIN)/python -m pip --quiet

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s  %s\n", $$1, $$2}' Makefile

setup: .venv/.ready ## make .venv from the hashed lock (every target below does it when it is needed)

demo: .venv/.ready ## show the whole platform at work, on a private PostgreSQL
	@$(BIN)/tidings demo $(ARGS)

up: .venv/.ready ## run the platform here, allowed to deliver to this machine
	@$(BIN)/tidings up --allow-local $(ARGS)

test: .venv/.ready ## run every test
	@$(BIN)/pytest $(WORKERS) $(ARGS)

soak: .venv/.ready ## break everything for MINUTES (10), and report what was lost: nothing
	@$(BIN)/python -m tests.faults.soak --minutes $(MINUTES) $(ARGS)

zoo: .venv/.ready ## make 10,000 deliveries to hostile receivers, and report what is left behind
	@$(BIN)/python -m tests.zoo.soak $(ARGS)

lint: .venv/.ready ## check style, types and floors
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

fix: .venv/.ready ## mend what style can be mended by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.ready ## measure isolation, claims, recording and draining (ARGS=--short: a smoke run)
	@$(BIN)/python -m benchmarks $(ARGS)

reference: .venv/.ready ## write docs/cli.md again from --help
	@$(BIN)/python -m tests.gates.reference

lock: ## make requirements.lock again from pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo 'make lock needs uv on the PATH' >&2; exit 1; }
	uv pip compile pyproject.toml --extra embedded --extra mocking --extra otel --extra schemas --group dev --universal --python-version 3.11 \
	  --generate-hashes --custom-compile-command 'make lock' --quiet -o requirements.lock $(ARGS)

clean: ## remove .venv, caches and builds
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last: whatever stops half way is made good by the next make.
.venv/.ready: requirements.lock pyproject.toml
	@fail() { echo "tidings: $$*" >&2; exit 1; }; \
	new_enough() { "$$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }; \
	if new_enough $(BIN)/python && $(BIN)/python -m pip --version >/dev/null 2>&1; then exit 0; fi; \
	able() { "$$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }; \
	python=; for each in $(PYTHON); do new_enough "$$each" && python=$$each && able "$$each" && break; done; \
	test -n "$$python" || fail 'no Python 3.11 or newer among $(PYTHON): install one, or say PYTHON=/path/to/python3'; \
	able "$$python" || fail "$$python cannot make virtual environments; on Debian and Ubuntu:" \
	  "apt install $$("$$python" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')"; \
	echo "tidings: making .venv with $$("$$python" --version)"; \
	"$$python" -m venv --clear .venv
	@echo 'tidings: installing from requirements.lock (about a minute)'
	@$(PIP) install --require-hashes -r requirements.lock
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
