# tcplab: a learner starts with `make lab`; a change has to pass `make test`.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

# The Python that .venv is made with; empty means the first suitable one that is found.
PYTHON ?=
# More arguments for the tool that a target runs, for example make test ARGS='-k wire -x'.
ARGS ?=
# The demo that `make demo` opens.
NAME ?= small-writes
# How long `make fuzz` runs each target, in seconds.
SECONDS_EACH ?= 60
# More options for uv when it makes the locks: make lock UV_LOCK='--upgrade' (or '--upgrade-package numpy')
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

# Only tools/setup knows CC=zig. It installs that compiler as the environment's cc. bash starts the script, since some unzip
# programs drop the permission to execute.
SETUP := bash tools/setup
ifeq ($(CC),zig)
SETUP := CC=zig $(SETUP)
override CC := cc
endif

C_FILES := $(shell find src bench lessons/c -name '*.[ch]' 2>/dev/null)
# A student's bundle has neither tests nor .ci.
SCRIPTS := $(shell grep -sl '^#!.*bash' .ci/run deploy/jupyterhub/* start tools/* tests/fuzz/run) $(wildcard web/init)

.PHONY: help setup setup-dev lab demo test lint lint-style lint-types lint-c lint-shell lint-analysis lint-repository format lock clean \
	address bench exercises test-all fuzz recordings your-turn claims book web pictures print reference release test-class test-course test-hub test-verdicts

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' Makefile

setup: ## install packages pinned by hash into .venv, and compile the C programs
	@$(SETUP)

setup-dev: ## set up .venv with the tools for tests and checks, too
	@$(SETUP) --dev

demo: setup ## open a lecture demo in the browser; NAME=cork opens another (`tcplab demo` lists them)
	@tcplab demo "$(NAME)"

lab: ## set up, report what this machine can do, then open the course in JupyterLab
	@$(SETUP) || [ $$? = 3 ] # a mistake in a C program must not keep the course closed
	@tcplab lab .

test-class: setup-dev ## grade a class of 225 with damaged and hostile submissions (minutes)
	@tools/run-tests slow -- -m classroom tests/slow/grading/test_classroom.py $(ARGS)

test-course: setup-dev ## run a course of 30 simulated learners, from hand-out to marks (20 minutes); ARGS="-k small-writes" for one set
	pytest -m classroom tests/slow/grading/test_course.py $(ARGS)

test-hub: setup-dev ## let two learners and an instructor use a real JupyterHub, as root (two minutes)
	pytest tests/slow/deploy/test_hub.py $(ARGS)

test-verdicts: setup-dev ## check that solutions and known mistakes get the same score 20 times, idle and busy (hours)
	pytest -m classroom tests/slow/grading/test_mutants.py $(ARGS)

bench: setup-dev ## compare the course's programs with similar ones on a quiet machine, and write docs/benchmarks.md (20 minutes)
	python -m bench $(ARGS)

exercises: setup ## generate exercises/ from solutions/, and the points and tables in texts; ARGS=pipes makes one set
	python -m tools.syllabus
	python -m tcplab.grading.release $(ARGS)

# Let pytest keep its bytecode even if the environment forbids it, since otherwise each worker compiles again.
test test-all test-class test-course: export PYTHONDONTWRITEBYTECODE =
test: tests setup-dev ## run the fast tests and those that make laboratories (about five minutes)
	@tools/run-tests fast lab -- $(ARGS)

test-all: tests setup-dev ## run the slow tests, too: notebooks, browser, book, a class, real servers (half an hour)
	@tools/run-tests fast lab slow -- $(ARGS)

tests:
	@echo 'make: a student bundle has no tests; the repository and the instructor bundle have them' >&2; exit 2

lint: lint-style lint-types lint-c lint-shell lint-analysis lint-repository ## check style, types and warnings of the Python, C and shell code, and the repository's own rules

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

lint-repository: setup-dev ## check layers, names, language, links, locks and what may be in the tree
	pytest -q -n auto tests/fast/course/test_{architecture,language,docs,packaging,check_machine}.py tests/fast/grading/test_syllabus.py

lint-shell:
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS); \
	else echo 'shellcheck: NOT RUN, it is not installed (apt install shellcheck, dnf install ShellCheck)'; fi

fuzz: setup-dev ## fuzz the parsers and the readers of submissions; SECONDS_EACH=600 runs each for 10 minutes
	tests/fuzz/run $(SECONDS_EACH)

recordings: setup-dev ## renew the recordings for machines that cannot run live; ARGS=small-writes for one lesson, ARGS=demos for the demos, ARGS=defaults for calls without arguments
	tools/record-lessons $(ARGS)

your-turn: setup-dev ## record the three changes that each lesson offers where there is no lab; ARGS=small-writes for one lesson
	tools/record-your-turn $(ARGS)
	tools/make-claims

claims: setup-dev ## write the recordings' numbers into docs/claims.md, and check that they support the verdicts
	tools/make-claims

web: setup-dev ## build the book with a Linux that runs in its pages; needs npm, node and gcc-multilib
	web/build
	tools/make-book $(ARGS)

book: setup-dev ## build the book of all lessons with their outputs in dist/book; ARGS=--live makes new measurements
	tools/make-book $(ARGS)

pictures: setup-dev ## renew the README's screenshots of timeline and demo; needs Chromium
	tools/make-pictures

print: setup ## make a printable class hand-out and a worksheet per lesson in dist/print
	tools/make-print

reference: setup-dev ## write docs/reference.md from the help texts and docstrings
	tools/make-reference

release: setup-dev ## build bundles, wheel, sdist and the book in dist/
	tools/make-release $(ARGS)

format: setup-dev ## format Python, C and notebooks
	ruff check --fix-only --quiet
	ruff format
	clang-format -style=file:src/.clang-format -i $(C_FILES)
	git ls-files -z --cached --others --exclude-standard '*.ipynb' | xargs -0r nbstripout --keep-id

LOCK := uv pip compile --quiet --universal --fork-strategy fewest --python-version $(LOCK_PYTHON) \
	--generate-hashes --custom-compile-command 'make lock' $(UV_LOCK)
lock: setup-dev ## pin the dependencies of pyproject.toml in locks/
	$(LOCK) pyproject.toml --extra course --extra grading -o locks/requirements.lock >/dev/null
	$(LOCK) pyproject.toml --all-extras --group dev --constraint locks/requirements.lock -o locks/requirements-dev.lock >/dev/null
	$(LOCK) --group zig -o locks/requirements-zig.lock >/dev/null
	$(LOCK) --group build --constraint locks/requirements-dev.lock -o locks/requirements-build.lock >/dev/null

address: ## write the repository's address into README, guides, package and CITATION.cff: make address URL=https://…
	@[[ "$(URL)" == https://* ]] || { echo 'make: the address is missing: make address URL=https://…' >&2; exit 2; }
	@sed -i -e '/^\[project.urls\]$$/,/^$$/d' \
		-e 's|^\[project.scripts\]$$|[project.urls]\nHomepage = "$(URL)"\nIssues = "$(URL)/issues"\n\n&|' pyproject.toml
	@sed -i -E 's|git clone [^ ]+ tcplab|git clone $(URL) tcplab|' README.md $(wildcard docs/lecturers-card.md)
	@sed -i -e '/^\(repository-code\|url\):/d' -e '$$a repository-code: "$(URL)"' CITATION.cff

clean: ## remove .venv, caches and everything that was built; keep your notebooks and predictions
	rm -rf .venv build dist test-artifacts .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find src tests bench tools -name __pycache__ -prune -exec rm -rf {} +
