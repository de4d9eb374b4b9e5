// SPDX-License-Identifier: BSD-3-Clause
// Parses the command line by getopt_long, with the option table of a program. See options.h.
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ID = 256, HELP_ID = FIRST_ID + MAX_OPTIONS };  // distinct from getopt's ':' and '?'

// The argument of an option on the command line: the option, its text, and whether this rank prints
// errors.
struct value {
  const struct program* program;
  const struct option_row* option;
  const char* text;
  bool speak;
};

static bool refuse(struct value value, const char* accepted) {
  if (value.speak) {
    fprintf(stderr, "%s: --%s %s: expected %s\n", value.program->name, value.option->name,
            value.text, accepted);
  }
  return false;
}

static bool refuse_number(struct value value, const char* kind) {
  char accepted[120];
  snprintf(accepted, sizeof accepted, "a %s from %.10g to %.10g", kind, value.option->low,
           value.option->high);
  return refuse(value, accepted);
}

// Parses the number at `text`, which must end with the text or before a character of `ends`.
// Returns false if there is no such number in the option's range.
static bool parse_whole(const struct option_row* option, const char* text, const char* ends,
                        char** end, int* number) {
  errno = 0;
  const long found = strtol(text, end, 10);
  const bool understood = errno == 0 && *end != text && strchr(ends, **end) != NULL;
  if (!understood || (double)found < option->low || (double)found > option->high) return false;
  *number = (int)found;
  return true;
}

static bool read_whole(struct value value) {
  char* end = NULL;
  return parse_whole(value.option, value.text, "", &end, value.option->target) ||
         refuse_number(value, "whole number");
}

static bool read_wholes(struct value value) {
  struct wholes list = {0, {0}};
  const char* at = value.text;
  char* end = NULL;
  for (;; at = end + 1) {
    if (list.count == MAX_WHOLES) return refuse(value, "at most 64 numbers");
    if (!parse_whole(value.option, at, ",", &end, &list.values[list.count++])) {
      return refuse_number(value, "whole number (or a list with commas)");
    }
    if (*end == '\0') break;
  }
  *(struct wholes*)value.option->target = list;
  return true;
}

static bool read_real(struct value value) {
  char* end = NULL;
  const double number = strtod(value.text, &end);
  const bool understood = end != value.text && *end == '\0' && isfinite(number);
  if (!understood || number < value.option->low || number > value.option->high) {
    return refuse_number(value, "number");
  }
  *(double*)value.option->target = number;
  return true;
}

static bool read_seed(struct value value) {
  char* end = NULL;
  errno = 0;
  const unsigned long long number = strtoull(value.text, &end, 10);
  if (errno != 0 || end == value.text || *end != '\0' || strchr(value.text, '-') != NULL) {
    return refuse(value, "a whole number from 0 to 2^64-1");
  }
  *(uint64_t*)value.option->target = number;
  return true;
}

static bool read_name(struct value value) {
  if (value.text[0] == '\0') return refuse(value, "a file name");
  *(const char**)value.option->target = value.text;
  return true;
}

static bool apply(struct value value) {
  switch (value.option->kind) {
    case OPTION_FLAG:
      *(bool*)value.option->target = true;
      return true;
    case OPTION_WHOLE:
      return read_whole(value);
    case OPTION_WHOLES:
      return read_wholes(value);
    case OPTION_REAL:
      return read_real(value);
    case OPTION_SEED:
      return read_seed(value);
    case OPTION_NAME:
      return read_name(value);
  }
  return false;
}

// Fills the table of getopt_long: the program's options, --help, and the empty entry that ends the
// table. `table` has MAX_OPTIONS + 2 elements, for --help and this entry.
static void fill_table(const struct program* program, struct option* table) {
  int count = 0;
  for (const struct option_row* row = program->options; row->name != NULL; ++row) {
    const int argument = row->kind == OPTION_FLAG ? no_argument : required_argument;
    table[count] = (struct option){row->name, argument, NULL, FIRST_ID + count};
    if (++count == MAX_OPTIONS) break;
  }
  table[count] = (struct option){"help", no_argument, NULL, HELP_ID};
  table[count + 1] = (struct option){NULL, 0, NULL, 0};
}

static enum verdict complain(const struct program* program, bool speak, const char* what,
                             const char* which) {
  if (speak) {
    fprintf(stderr, "%s: %s%s (--help lists the options)\n", program->name, what, which);
  }
  return VERDICT_WRONG;
}

enum verdict options_parse(const struct program* program, int argc, char** argv, bool speak) {
  struct option table[MAX_OPTIONS + 2];
  fill_table(program, table);
  opterr = 0;  // getopt prints nothing: rank 0 alone prints errors
  optind = 1;
  for (;;) {
    const int at = optind;
    const int id = getopt_long(argc, argv, ":", table, NULL);
    if (id == -1) break;
    if (id == HELP_ID) return VERDICT_HELP;
    if (id == '?') return complain(program, speak, "unknown option ", argv[at]);
    if (id == ':') return complain(program, speak, "value missing after ", argv[at]);
    const struct value value = {program, &program->options[id - FIRST_ID], optarg, speak};
    if (!apply(value)) return VERDICT_WRONG;
  }
  if (optind < argc) return complain(program, speak, "argument not understood: ", argv[optind]);
  return VERDICT_RUN;
}

int program_main(const struct program* program, int argc, char** argv, int (*run)(void)) {
  int rank = 0, provided = 0, status = 2;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  switch (options_parse(program, argc, argv, rank == 0)) {
    case VERDICT_RUN:
      status = run();
      break;
    case VERDICT_HELP:
      if (rank == 0) fputs(program->usage, stdout);
      status = 0;
      break;
    case VERDICT_WRONG:
      break;
  }
  MPI_Finalize();
  return status;
}
