// SPDX-License-Identifier: BSD-3-Clause
// The output of a run: hash of the final grid, the grid itself, and the times as JSON.
//
// Rank 0 writes all files. It opens them before the first step, so that a wrong path fails at once
// and not after the run.
#ifndef STENCIL_OUTPUT_H
#define STENCIL_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "grid.h"
#include "halo.h"
#include "membench.h"
#include "options.h"
#include "times.h"

struct output {
  FILE* checksum;  // each of the three files is NULL if not wanted, and on all ranks but 0
  FILE* dump;
  FILE* json;
};

// Collective. Rank 0 opens all output files. Returns false on every rank if rank 0 cannot open a
// file; rank 0 then prints the name of the file.
bool output_open(const struct options* options, const struct box* box, struct output* output);

// Collective. Rank 0 closes all output files. Returns false on every rank if rank 0 could not write
// everything; rank 0 then prints an error.
bool output_close(const struct box* box, struct output* output);

struct results {
  const struct options* options;
  const struct box* box;
  const struct grid* grid;
  const struct halo* halo;
  const struct times* times;
  const struct membench* membench;
  double worst_heat_error;
};

// Collective. Rank 0 writes a 64-bit hash of every variable on every rank, and of every variable
// over all ranks. The hashes over all ranks are sums over cells, so they are the same for any
// number of ranks. Returns the hash of all variables on rank 0, and 0 on other ranks.
uint64_t output_checksum(const struct output* output, const struct results* results);

// Collective. Rank 0 writes the final grid as doubles in the machine's byte order, by variable, z,
// y, x of the whole grid.
void output_dump(const struct output* output, const struct results* results);

// Collective. Rank 0 writes the configuration, the `hash` of the final grid, and the times of all
// ranks as JSON.
void output_json(const struct output* output, const struct results* results, uint64_t hash);

#endif
