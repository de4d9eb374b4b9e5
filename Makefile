# SPDX-License-Identifier: BSD-3-Clause
# The commands of this repository. Each target calls scripts/bootstrap for the packages and headers
# that it needs, then CMake.
#
# JOBS: number of compilers that run at once. BUILD_TYPE: CMake's build type. PREFIX: install prefix
# of `make install`.
JOBS ?= $(shell nproc)
BUILD_TYPE ?= Release
PREFIX ?= /usr/local
PYTHON := .venv/bin/python

ifneq ($(shell command -v ccache 2>/dev/null),)
export CMAKE_C_COMPILER_LAUNCHER := ccache
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
export CCACHE_SLOPPINESS ?= pch_defines,time_macros
endif
export CMAKE_GENERATOR := Ninja
export PIP_DISABLE_PIP_VERSION_CHECK := 1

CONFIGURE = cmake -S . -B build -DCMAKE_BUILD_TYPE=$(BUILD_TYPE)

.PHONY: help build install wheel demo test bench site lint format clean distclean
.DEFAULT_GOAL := help

help:
	@echo "make build    the library (build/lib/libmanyhands.so) and the command .venv/bin/mh"
	@echo "make install  into PREFIX ($(PREFIX)): the library, bin/mh, bin/mh-tune, bin/mh-top; nothing stays tied to here"
	@echo "make wheel    dist/manyhands-*.whl for pip: the library, mh and its compilers; needs no MPI and no compiler"
	@echo "make demo     a 3-D stencil, plain and helped, side by side (three minutes, with the build)"
	@echo "make test     lint, unit tests, tests under every MPI, sanitizers; its last line says how long it took"
	@echo "make bench    the short set of benchmarks"
	@echo "make site     the documentation as web pages, in build/site"
	@echo "make lint     the checks of source text alone; make format repairs what can be repaired"
	@echo "make clean    removes build folders; make distclean also .venv and .mpi"

# The first configuration of build/ leaves the tests out, so that `make build` and `make demo` are
# quick. `make test` adds them in the same folder, and later commands keep them.
CONFIGURE_BUILD = { test -f build/CMakeCache.txt || $(CONFIGURE) -DMH_TESTS=OFF; } && \
    $(CONFIGURE) -Wno-dev --log-level=WARNING >/dev/null

build:
	@scripts/bootstrap build
	@$(CONFIGURE_BUILD)
	@cmake --build build -j $(JOBS)

# The installed `mh` has its Python packages in a virtual environment of its own, apart from the
# packages of the system and of the user.
install: build
	@cmake --install build --prefix $(PREFIX) >/dev/null
	@python3 -m venv $(PREFIX)/share/manyhands/python
	@rm -rf build/python-source && $(PYTHON) packaging/copy_python.py build/python-source
	@$(PREFIX)/share/manyhands/python/bin/pip install --quiet --constraint requirements.txt ./build/python-source
	@mkdir -p $(PREFIX)/bin $(PREFIX)/share/man/man1
	@$(PYTHON) docs/make_man.py $(PREFIX)/share/man/man1
	@for command in mh mhcc mhc++ mhfort; do \
	    ln -sf ../share/manyhands/python/bin/$$command $(PREFIX)/bin/$$command; done
	@echo "installed: $(PREFIX)/bin/mh, $(PREFIX)/lib/libmanyhands.so"

# Links the objects of build/ once more, so that the libraries load on older systems.
wheel:
	@scripts/bootstrap wheel
	@test -f .hwloc/lib/libhwloc.a || { echo "make wheel: .hwloc/lib/libhwloc.a is missing"; exit 1; }
	@$(CONFIGURE_BUILD)
	@$(CONFIGURE) -DMH_WHEEL=ON -Wno-dev --log-level=WARNING >/dev/null
	@cmake --build build -j $(JOBS) --target wheel-files
	@$(PYTHON) packaging/wheel/assemble.py

# Builds only the variant for the MPI that the demo runs under, and no programs.
demo:
	@scripts/bootstrap demo
	@$(CONFIGURE_BUILD)
	@cmake --build build -j $(JOBS) --target $$($(PYTHON) -m manyhands.demo.needs)
	@.venv/bin/mh demo

test:
	@scripts/bootstrap test
	@$(PYTHON) scripts/run-tests --jobs $(JOBS)

bench: build
	@.venv/bin/mh bench --short --compare

# With --strict every warning, for example of a dead link, is an error.
site:
	@scripts/bootstrap build
	@$(PYTHON) -m mkdocs build --strict
	@echo "built: build/site/index.html"

lint:
	@scripts/bootstrap test
	@$(PYTHON) scripts/lint

format:
	@scripts/bootstrap test
	@$(PYTHON) scripts/lint --fix

clean:
	rm -rf build build-asan build-tsan

distclean: clean
	rm -rf .venv .mpi .pytest_cache .ruff_cache
