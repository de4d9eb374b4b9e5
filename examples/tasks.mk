# SPDX-License-Identifier: BSD-3-Clause
# Shared make rules for the examples of task collections, with any MPI library:
#   make [MPICXX=/path/to/mpicxx] [MANYHANDS=prefix of make install] [OUT=folder]
# Without MANYHANDS, the library of this checkout is used (make build). A Makefile that includes
# this file sets PROGRAM, LIBRARIES (further libraries) and, optionally, FLAGS.
MPICXX ?= mpicxx
CXXFLAGS ?= -O3
OUT ?= .
ifdef MANYHANDS
INCLUDE = $(MANYHANDS)/include
LIBRARY = $(abspath $(MANYHANDS)/lib)
else
INCLUDE = ../../include
LIBRARY = $(abspath ../../build/lib)
endif
COMPILE = -std=c++20 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -I$(INCLUDE) \
    -Wall -Wextra -Wconversion -Wshadow -Werror $(FLAGS) $(CXXFLAGS)
LINK = -L$(LIBRARY) -Wl,-rpath,$(LIBRARY) -lmanyhands-tasks $(LIBRARIES)
SOURCES ?= $(wildcard *.cpp)

all: $(OUT)/$(PROGRAM)

$(OUT)/$(PROGRAM): $(SOURCES) $(wildcard *.hpp)
	@mkdir -p $(OUT)
	$(MPICXX) $(COMPILE) $(SOURCES) $(LINK) -o $@

clean:
	rm -f $(OUT)/$(PROGRAM) $(EXTRA)

.PHONY: all clean
