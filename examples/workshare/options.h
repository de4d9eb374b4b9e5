// SPDX-License-Identifier: BSD-3-Clause
// The command line of a program: a table of options, checked on the way in.
//
// Every rank parses the same arguments and so comes to the same verdict; only rank 0 speaks. A
// number that is not understood or out of range is refused with the option's name and what it
// accepts; no value is rounded, clamped or ignored in silence.
#ifndef WORKSHARE_OPTIONS_H
#define WORKSHARE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

// What an option fills. FLAG: a bool. WHOLE: an int from `low` to `high`. WHOLES: a struct wholes
// of such, written as a list with commas. REAL: a double in the same sense. SEED: a uint64_t. NAME:
// a const char*, not empty.
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
  const struct option_row* options;  // ends with a row without a name; --help is known anyway
};

enum verdict { VERDICT_RUN, VERDICT_HELP, VERDICT_WRONG };

// With `speak`, VERDICT_WRONG comes with one line on standard error that says what is wrong.
enum verdict options_parse(const struct program* program, int argc, char** argv, bool speak);

// From main: parses, prints the usage if asked for, and calls `run` where there is something to do.
// The exit status of the program: that of `run`, 0 after --help, 2 when the command line is wrong.
int program_main(const struct program* program, int argc, char** argv, int (*run)(void));

#endif
