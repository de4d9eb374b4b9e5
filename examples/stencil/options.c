// SPDX-License-Identifier: BSD-3-Clause
// The command line of the stencil: a table of options and their checks.
//
// The error for an invalid word or number names the option and the values that the option accepts.
// No value is rounded, clamped or ignored without an error.
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* const kUsage =
    "usage: stencil [options]\n"
    "\n"
    "A 7-point stencil on a 3-D grid with many variables. In every step each rank exchanges its "
    "outer\n"
    "planes with up to six neighbours, all variables in one message a neighbour.\n"
    "\n"
    "grid\n"
    "  --nx N --ny N --nz N  cells of one rank in x, y, z (default 64 each)\n"
    "  --global              --nx, --ny, --nz are the cells of the whole grid instead\n"
    "  --vars N              variables (default 20)\n"
    "  --periodic            the grid closes on itself; without it the border is held at zero\n"
    "  --seed N              of initial values and heat sources (default 1)\n"
    "run\n"
    "  --steps N             time steps (default 50)\n"
    "  --warmup N            leave the first N steps out of the times (default 0)\n"
    "  --check N             every N steps: a heat source in each variable, then the sum of the "
    "grid\n"
    "                        against the sources (default 10, 0: never)\n"
    "  --imbalance P         odd ranks compute P percent more, 0 to 1000 (default 0)\n"
    "halo\n"
    "  --halo packed|types   the program packs the planes, or MPI datatypes describe them\n"
    "                        (default packed)\n"
    "  --blocking sendrecv   MPI_Sendrecv, one direction after the other; default none: all "
    "receives\n"
    "                        and sends nonblocking, then one MPI_Waitall\n"
    "output\n"
    "  --checksum FILE       hash of the final grid by variable and rank (- for standard output)\n"
    "  --dump FILE           the final grid, bit for bit: doubles by variable, z, y, x\n"
    "  --json FILE           times of every rank and step (- for standard output)\n"
    "  --memcpy MIB          also measure memcpy of MIB mebibytes, one rank alone and all "
    "together\n"
    "  --progress auto|always|never\n"
    "                        step counter of rank 0 on standard error (default auto: on a "
    "terminal)\n"
    "  --help                this text\n";

enum {
  OPT_NX = 256,
  OPT_NY,
  OPT_NZ,
  OPT_GLOBAL,
  OPT_VARS,
  OPT_STEPS,
  OPT_WARMUP,
  OPT_CHECK,
  OPT_HALO,
  OPT_IMBALANCE,
  OPT_PERIODIC,
  OPT_SEED,
  OPT_CHECKSUM,
  OPT_DUMP,
  OPT_JSON,
  OPT_BLOCKING,
  OPT_MEMCPY,
  OPT_PROGRESS,
  OPT_HELP
};

static const struct option kLongOptions[] = {
    {"nx", required_argument, NULL, OPT_NX},
    {"ny", required_argument, NULL, OPT_NY},
    {"nz", required_argument, NULL, OPT_NZ},
    {"global", no_argument, NULL, OPT_GLOBAL},
    {"vars", required_argument, NULL, OPT_VARS},
    {"steps", required_argument, NULL, OPT_STEPS},
    {"warmup", required_argument, NULL, OPT_WARMUP},
    {"check", required_argument, NULL, OPT_CHECK},
    {"halo", required_argument, NULL, OPT_HALO},
    {"imbalance", required_argument, NULL, OPT_IMBALANCE},
    {"periodic", no_argument, NULL, OPT_PERIODIC},
    {"seed", required_argument, NULL, OPT_SEED},
    {"checksum", required_argument, NULL, OPT_CHECKSUM},
    {"dump", required_argument, NULL, OPT_DUMP},
    {"json", required_argument, NULL, OPT_JSON},
    {"blocking", required_argument, NULL, OPT_BLOCKING},
    {"memcpy", required_argument, NULL, OPT_MEMCPY},
    {"progress", required_argument, NULL, OPT_PROGRESS},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static const char* option_name(int id) {
  for (const struct option* o = kLongOptions; o->name != NULL; ++o) {
    if (o->val == id) return o->name;
  }
  return "?";
}

// The argument of an option on the command line: the option's number, the text, and whether this
// rank prints errors.
struct value {
  int id;
  const char* text;
  bool speak;
};

static bool refuse(struct value value, const char* accepted) {
  if (value.speak) {
    fprintf(stderr, "stencil: --%s %s: expected %s\n", option_name(value.id), value.text, accepted);
  }
  return false;
}

static bool read_int(struct value value, int low, int high, int* out) {
  char* end = NULL;
  errno = 0;
  const long number = strtol(value.text, &end, 10);
  if (errno == 0 && end != value.text && *end == '\0' && number >= low && number <= high) {
    *out = (int)number;
    return true;
  }
  char accepted[80];
  if (high == INT_MAX) {
    snprintf(accepted, sizeof accepted, "a whole number of at least %d", low);
  } else {
    snprintf(accepted, sizeof accepted, "a whole number from %d to %d", low, high);
  }
  return refuse(value, accepted);
}

static bool read_seed(struct value value, uint64_t* out) {
  char* end = NULL;
  errno = 0;
  const unsigned long long number = strtoull(value.text, &end, 10);
  if (errno != 0 || end == value.text || *end != '\0' || strchr(value.text, '-') != NULL) {
    return refuse(value, "a whole number from 0 to 2^64-1");
  }
  *out = number;
  return true;
}

// Looks for the value in `words`, a list that NULL ends, and sets `out` to its index. Returns false
// if the list lacks the value.
static bool read_word(struct value value, const char* const* words, int* out) {
  for (int i = 0; words[i] != NULL; ++i) {
    if (strcmp(value.text, words[i]) == 0) {
      *out = i;
      return true;
    }
  }
  char accepted[80] = "";
  for (int i = 0; words[i] != NULL; ++i) {
    if (i > 0) strncat(accepted, " or ", sizeof accepted - strlen(accepted) - 1);
    strncat(accepted, words[i], sizeof accepted - strlen(accepted) - 1);
  }
  return refuse(value, accepted);
}

static bool read_file_name(struct value value, const char** out) {
  if (value.text[0] == '\0') return refuse(value, "a file name");
  *out = value.text;
  return true;
}

static const char* const kHaloWords[] = {"packed", "types", NULL};
static const char* const kBlockingWords[] = {"none", "sendrecv", NULL};
static const char* const kProgressWords[] = {"auto", "always", "never", NULL};

const char* halo_name(enum halo_mode mode) { return kHaloWords[mode]; }
const char* exchange_name(enum exchange_mode mode) {
  return mode == EXCHANGE_SENDRECV ? "sendrecv" : "waitall";
}

static bool apply_word(struct value value, struct options* o) {
  int word = 0;
  switch (value.id) {
    case OPT_HALO:
      if (!read_word(value, kHaloWords, &word)) return false;
      o->halo = word == 0 ? HALO_PACKED : HALO_TYPES;
      return true;
    case OPT_BLOCKING:
      if (!read_word(value, kBlockingWords, &word)) return false;
      o->exchange = word == 0 ? EXCHANGE_WAITALL : EXCHANGE_SENDRECV;
      return true;
    default:
      if (!read_word(value, kProgressWords, &word)) return false;
      o->progress = (enum progress_mode)word;
      return true;
  }
}

static bool apply(struct value value, struct options* o) {
  const int kMaxCells = 1 << 16;  // most cells along an axis
  switch (value.id) {
    case OPT_NX:
      return read_int(value, 1, kMaxCells, &o->cells[AXIS_X]);
    case OPT_NY:
      return read_int(value, 1, kMaxCells, &o->cells[AXIS_Y]);
    case OPT_NZ:
      return read_int(value, 1, kMaxCells, &o->cells[AXIS_Z]);
    case OPT_VARS:
      return read_int(value, 1, 1 << 20, &o->vars);
    case OPT_STEPS:
      return read_int(value, 1, INT_MAX, &o->steps);
    case OPT_WARMUP:
      return read_int(value, 0, INT_MAX, &o->warmup);
    case OPT_CHECK:
      return read_int(value, 0, INT_MAX, &o->check);
    case OPT_IMBALANCE:
      return read_int(value, 0, 1000, &o->imbalance);
    case OPT_MEMCPY:
      return read_int(value, 1, 1024, &o->memcpy_mib);
    case OPT_SEED:
      return read_seed(value, &o->seed);
    case OPT_GLOBAL:
      o->global = true;
      return true;
    case OPT_PERIODIC:
      o->periodic = true;
      return true;
    case OPT_CHECKSUM:
      return read_file_name(value, &o->checksum_file);
    case OPT_DUMP:
      return read_file_name(value, &o->dump_file);
    case OPT_JSON:
      return read_file_name(value, &o->json_file);
    default:
      return apply_word(value, o);
  }
}

static enum verdict complain(bool speak, const char* what, const char* which) {
  if (speak) fprintf(stderr, "stencil: %s%s (--help lists the options)\n", what, which);
  return OPTIONS_WRONG;
}

static struct options defaults(void) {
  return (struct options){.cells = {64, 64, 64},
                          .vars = 20,
                          .steps = 50,
                          .check = 10,
                          .seed = 1,
                          .halo = HALO_PACKED,
                          .exchange = EXCHANGE_WAITALL,
                          .progress = PROGRESS_AUTO};
}

enum verdict options_parse(int argc, char** argv, bool speak, struct options* options) {
  *options = defaults();
  opterr = 0;  // getopt prints nothing: rank 0 alone prints errors
  optind = 1;
  for (;;) {
    const int at = optind;
    const int id = getopt_long(argc, argv, ":", kLongOptions, NULL);
    if (id == -1) break;
    if (id == OPT_HELP) return OPTIONS_HELP;
    if (id == '?') return complain(speak, "unknown option ", argv[at]);
    if (id == ':') return complain(speak, "value missing after ", argv[at]);
    const struct value value = {id, optarg, speak};
    if (!apply(value, options)) return OPTIONS_WRONG;
  }
  if (optind < argc) return complain(speak, "argument not understood: ", argv[optind]);
  if (options->warmup >= options->steps) {
    return complain(speak, "--warmup must be less than --steps", "");
  }
  return OPTIONS_RUN;
}

void options_print_usage(void) { fputs(kUsage, stdout); }
