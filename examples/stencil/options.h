// SPDX-License-Identifier: BSD-3-Clause
// The options of the stencil, from the command line.
//
// Every rank parses the same arguments and gets the same options; only rank 0 prints errors.
#ifndef STENCIL_OPTIONS_H
#define STENCIL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { AXIS_X, AXIS_Y, AXIS_Z, AXES };

enum halo_mode { HALO_PACKED, HALO_TYPES };
enum exchange_mode { EXCHANGE_WAITALL, EXCHANGE_SENDRECV };
enum progress_mode { PROGRESS_AUTO, PROGRESS_ALWAYS, PROGRESS_NEVER };

struct options {
  int cells[AXES];  // of one rank, or of the whole grid with --global
  bool global;      // cells[] are cells of the whole grid
  int vars;         // variables, each with its own grid
  int steps;        // time steps
  int warmup;       // number of first steps that the times leave out
  int check;        // steps from one heat source and sum check to the next; 0: none
  int imbalance;    // percent of extra work on every odd rank
  int memcpy_mib;   // size of the buffers of the memory measurement; 0: none
  bool periodic;    // the grid closes on itself in all directions
  uint64_t seed;    // of the initial values and heat sources
  enum halo_mode halo;
  enum exchange_mode exchange;
  enum progress_mode progress;
  const char* checksum_file;  // NULL: none; "-": standard output
  const char* dump_file;      // NULL: none
  const char* json_file;      // NULL: none; "-": standard output
};

enum verdict { OPTIONS_RUN, OPTIONS_HELP, OPTIONS_WRONG };

// Parses the command line into `options`. If the command line is wrong, prints a line with the
// error to standard error if `speak` is true, and returns OPTIONS_WRONG.
enum verdict options_parse(int argc, char** argv, bool speak, struct options* options);

void options_print_usage(void);

const char* halo_name(enum halo_mode mode);
const char* exchange_name(enum exchange_mode mode);

#endif
