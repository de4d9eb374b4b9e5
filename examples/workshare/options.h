// SPDX-License-Identifier: BSD-3-Clause
// The command line of a program: a table of options and their checks.
//
// Every rank parses the same arguments and thus gets the same verdict; only rank 0 prints errors.
// The error for a malformed number or a number out of range names the option and the values that
// the option accepts. No value is rounded, clamped or ignored without an error.
#ifndef WORKSHARE_OPTIONS_H
#define WORKSHARE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

// The type of an option's value. FLAG: a bool. WHOLE: an int from `low` to `high`. WHOLES: a struct
// wholes of such ints, written as a list with commas. REAL: a double from `low` to `high`. SEED: a
// uint64_t. NAME: a const char*, not empty.
enum option_kind {
  OPTION_FLAG,
  OPTION_WHOLE,
  OPTION_WHOLES,
  OPTION_REAL,
  OPTION_SEED,
  OPTION_NAME
};

enum { MAX_WHOLES = 64 };

struct wholes {
  int count;
  int values[MAX_WHOLES];
};

struct option_row {
  const char* name;  // without the dashes
  enum option_kind kind;
  void* target;
  double low, high;
};

enum { MAX_OPTIONS = 24 };

struct program {
  const char* name;
  const char* usage;
  const struct option_row* options;  // ends with a row without a name; --help needs no row
};

enum verdict { VERDICT_RUN, VERDICT_HELP, VERDICT_WRONG };

// Parses the command line and stores the options' values. If the command line is wrong, prints a
// line with the error to standard error if `speak` is true, and returns VERDICT_WRONG.
enum verdict options_parse(const struct program* program, int argc, char** argv, bool speak);

// The body of main(): initializes MPI, parses the arguments, prints the usage for --help, otherwise
// calls `run`, and finalizes MPI. Returns the exit status: the result of `run`, 0 after --help, 2
// if the command line is wrong.
int program_main(const struct program* program, int argc, char** argv, int (*run)(void));

#endif
