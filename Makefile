# tcplab: a learner starts with `make lab`; a change has to pass `make test`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# The Python that .venv is made with; empty means the first suitable one that is found.
PYTHON ?=
# More for pytest: make test ARGS='-k wire -x'
ARGS ?=
# The demo that `make demo` opens.
NAME ?= small-writes
# Seconds of `make fuzz` per target.
SECONDS_EACH ?= 60
# More for uv when it makes the locks: make lock UV_LOCK='--upgrade' (or '--upgrade-package numpy')
UV_LOCK ?=

# The Python that the locks are resolved for.
LOCK_PYTHON ?= 3.11

# An active environment (conda's, for one) is used if this directory's tcplab is installed in it, and .venv otherwise.
ACTIVE := $(or $(VIRTUAL_ENV),$(CONDA_PREFIX))
export TCPLAB_ENVIRONMENT := $(or $(if $(ACTIVE),$(shell cd / && "$(ACTIVE)/bin/python" -c \
	'import sys, tcplab; tcplab.__file__.startswith("$(CURDIR)/src/") and print(sys.prefix)' 2>/dev/null)),$(CURDIR)/.venv)
# Some tools call others by name (nbgrader calls alembic), so the environment comes first on the path.
export PYTHON
export PATH := $(TCPLAB_ENVIRONMENT)/bin:$(PATH)

C_FILES := $(shell find src bench lessons/c -name '*.[ch]' 2>/dev/null)
# A student's bundle has neither tests nor .ci.
SCRIPTS := $(shell grep -sl '^#!.*bash' .ci/run deploy/jupyterhub/* start tools/* tests/fuzz/run) $(wildcard web/init)

.PHONY: help setup setup-dev lab demo test lint lint-style lint-types lint-c lint-shell lint-analysis format lock clean \
	address bench exercises test-all fuzz recordings claims book web pictures print release test-class test-course test-hub test-verdicts

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' Makefile

# By bash: some programs that unpack a zip drop the permission to execute.
setup: ## make .venv: packages by their hashes, the C programs compiled
	@bash tools/setup

setup-dev: ## the same, with what tests and checks need
	@bash tools/setup --dev

demo: setup ## open a demonstration for a lecture in the browser; NAME=cork opens another (`tcplab demo` lists them)
	@tcplab demo "$(NAME)"

lab: setup ## say what this machine can do, then open the course in JupyterLab
	@bash tools/open-lab

test-class: setup-dev ## grade a class of 195, with damaged and hostile submissions (minutes)
	pytest -m classroom tests/slow/grading/test_classroom.py tests/slow/deploy $(ARGS)

test-course: setup-dev ## 30 learners through the-lab to real-programs by the guide, hand-out to marks (20 minutes); ARGS="-k small-writes" for one set
	pytest -m classroom tests/slow/grading/test_course.py $(ARGS)

test-hub: setup ## work a JupyterHub with a class of 20, as root: see deploy/jupyterhub/README.md
	python -m tests.load $(ARGS)

test-verdicts: setup-dev ## each assignment's solution and mutants 20 times, idle and busy: always the same score (hours)
	pytest -m classroom tests/slow/grading/test_mutants.py $(ARGS)

bench: setup-dev ## measure programs, wire, recorder and readers beside their peers, on a quiet machine (20 minutes); writes docs/benchmarks.md
	python -m bench $(ARGS)

exercises: setup ## generate exercises/ from solutions/
	python -m tcplab.grading.generate

# What pytest compiles is kept, even where the environment forbids it: each worker would compile again.
test test-all test-class test-course: export PYTHONDONTWRITEBYTECODE =
test: tests setup-dev ## run the tests of this machine: fast (pure) and lab (its kernel), in about five minutes
	@tools/run-tests fast lab -- $(ARGS)

test-all: tests setup-dev ## the same, and slow: notebooks, browser, book, a class, real servers (half an hour)
	@tools/run-tests fast lab slow -- $(ARGS)

tests:
	@echo 'make: a student bundle has no tests; the repository and the instructor bundle have them' >&2; exit 2

lint: lint-style lint-types lint-c lint-shell lint-analysis ## check style, types and warnings of the Python, C and shell code

lint-style: setup-dev
	ruff check
	ruff format --check

lint-types: setup-dev
	mypy

lint-c: setup-dev
	clang-format -style=file:src/.clang-format --dry-run -Werror $(C_FILES)
	tools/compile-strictly

lint-analysis: ## look for bugs in the C programs with clang-tidy and cppcheck
	tools/analyse-c

lint-shell:
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS); \
	else echo 'shellcheck: NOT RUN, it is not installed (apt install shellcheck, dnf install ShellCheck)'; fi

fuzz: setup-dev ## look for input that breaks the parsers and the graders' readers: make fuzz SECONDS_EACH=600
	tests/fuzz/run $(SECONDS_EACH)

recordings: setup-dev ## record again, for a release, what is shown where nothing can run live; ARGS=small-writes for one lesson, ARGS=demos
	tools/record-lessons $(ARGS)
	tools/make-claims

claims: setup-dev ## put the recordings' numbers into docs/claims.md, and check that they bear the verdicts
	tools/make-claims

web: setup-dev ## the book with a Linux that runs in its pages; needs npm, node, gcc-multilib
	web/build
	tools/make-book $(ARGS)

book: setup-dev ## build the book, all lessons with their outputs, in dist/book; ARGS=--live measures for it
	tools/make-book $(ARGS)

pictures: setup-dev ## take the README's pictures of timeline and demo again (Chromium)
	tools/make-pictures

print: setup ## make the class's hand-out and a worksheet per lesson to print, in dist/print
	tools/make-print

release: setup-dev ## build bundles, wheel, sdist and the book in dist/
	tools/make-release

format: setup-dev ## put Python, C and notebooks into the course's format
	ruff check --fix-only --quiet
	ruff format
	clang-format -style=file:src/.clang-format -i $(C_FILES)
	git ls-files -z --cached --others --exclude-standard '*.ipynb' | xargs -0r nbstripout --keep-id

LOCK := uv pip compile --quiet --universal --fork-strategy fewest --python-version $(LOCK_PYTHON) \
	--generate-hashes --custom-compile-command 'make lock' $(UV_LOCK)
lock: setup-dev ## pin what pyproject.toml asks for, in locks/
	$(LOCK) pyproject.toml -o locks/requirements.lock >/dev/null
	$(LOCK) pyproject.toml --all-extras --group dev --constraint locks/requirements.lock -o locks/requirements-dev.lock >/dev/null
	$(LOCK) --group build --constraint locks/requirements-dev.lock -o locks/requirements-build.lock >/dev/null

address: ## write the repository's address into the package's metadata and CITATION.cff: make address URL=https://…
	@[[ "$(URL)" == https://* ]] || { echo 'make: the address is missing: make address URL=https://…' >&2; exit 2; }
	@sed -i -e '/^\[project.urls\]$$/,/^$$/d' \
		-e 's|^\[project.scripts\]$$|[project.urls]\nHomepage = "$(URL)"\nIssues = "$(URL)/issues"\n\n&|' pyproject.toml
	@sed -i -e '/^\(repository-code\|url\):/d' -e '$$a repository-code: "$(URL)"' CITATION.cff

clean: ## remove all that make made, .venv too; your notebooks and predictions stay
	rm -rf .venv build dist test-artifacts .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find src tests bench tools -name __pycache__ -prune -exec rm -rf {} +
