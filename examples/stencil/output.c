// SPDX-License-Identifier: BSD-3-Clause
// Writes the results. Rank 0 receives from one rank after another. Of the other ranks' data it
// holds at any time at most a row of values, the times of one rank, or a hash for each rank.
#include "output.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "heat.h"

enum { TAG_HASH = 100, TAG_PLACE, TAG_ROW, TAG_TIMES };  // tags that differ from the halo's tags

// --- opening and closing files

static FILE* open_one(const char* name, const char* mode, bool* ok) {
  if (name == NULL) return NULL;
  if (strcmp(name, "-") == 0) return stdout;
  FILE* file = fopen(name, mode);
  if (file == NULL) {
    fprintf(stderr, "stencil: cannot write %s: %s\n", name, strerror(errno));
    *ok = false;
  }
  return file;
}

static bool rank_0_says(const struct box* box, bool ok) {
  int word = ok;
  MPI_Bcast(&word, 1, MPI_INT, 0, box->comm);
  return word != 0;
}

static bool close_one(FILE** file) {
  if (*file == NULL) return true;
  const bool failed_before = ferror(*file) != 0;
  const int rc = *file == stdout ? fflush(stdout) : fclose(*file);
  *file = NULL;
  return rc == 0 && !failed_before;
}

bool output_open(const struct options* options, const struct box* box, struct output* output) {
  bool ok = true;
  *output = (struct output){0};
  if (box->rank == 0) {
    output->checksum = open_one(options->checksum_file, "w", &ok);
    output->dump = open_one(options->dump_file, "wb", &ok);
    output->json = open_one(options->json_file, "w", &ok);
  }
  return rank_0_says(box, ok);
}

bool output_close(const struct box* box, struct output* output) {
  const bool checksum = close_one(&output->checksum);
  const bool dump = close_one(&output->dump);
  const bool json = close_one(&output->json);
  const bool ok = checksum && dump && json;
  if (!ok) fprintf(stderr, "stencil: could not write all results: %s\n", strerror(errno));
  return rank_0_says(box, ok);
}

// --- checksum: hashes of the final grid

// Returns the sum, over the cells of this rank, of a hash of the bits of the cell's value and the
// cell's place in the whole grid. Sums of integers do not depend on the order of additions. So the
// sum over all ranks does not depend on the division of cells over ranks.
static uint64_t hash_of_variable(const struct box* box, const struct grid* grid, int var) {
  uint64_t sum = 0;
  for (int z = 0; z < grid->cells[AXIS_Z]; ++z) {
    for (int y = 0; y < grid->cells[AXIS_Y]; ++y) {
      const uint64_t row = (uint64_t)(box->first[AXIS_Z] + z) * (uint64_t)box->whole[AXIS_Y] +
                           (uint64_t)(box->first[AXIS_Y] + y);
      const uint64_t start = row * (uint64_t)box->whole[AXIS_X] + (uint64_t)box->first[AXIS_X];
      const double* in = grid->now + grid_at(grid, var, 0, y, z);
      for (int x = 0; x < grid->cells[AXIS_X]; ++x) {
        uint64_t bits;
        memcpy(&bits, &in[x], sizeof bits);
        sum += mix64(bits ^ mix64(start + (uint64_t)x));
      }
    }
  }
  return sum;
}

uint64_t output_checksum(const struct output* output, const struct results* r) {
  const struct box* box = r->box;
  uint64_t everything = 0;
  uint64_t* by_rank = NULL;
  if (box->rank == 0) by_rank = calloc((size_t)box->ranks, sizeof *by_rank);
  if (box->rank == 0 && by_rank == NULL) MPI_Abort(box->comm, 1);
  for (int var = 0; var < r->grid->vars; ++var) {
    const uint64_t mine = hash_of_variable(box, r->grid, var);
    MPI_Gather(&mine, 1, MPI_UINT64_T, by_rank, 1, MPI_UINT64_T, 0, box->comm);
    if (box->rank != 0) continue;
    uint64_t whole = 0;
    for (int rank = 0; rank < box->ranks; ++rank) {
      whole += by_rank[rank];
      if (output->checksum == NULL) continue;
      fprintf(output->checksum, "var %d rank %d %016llx\n", var, rank,
              (unsigned long long)by_rank[rank]);
    }
    everything = mix64(everything ^ mix64(whole));
    if (output->checksum == NULL) continue;
    fprintf(output->checksum, "var %d all %016llx\n", var, (unsigned long long)whole);
  }
  if (output->checksum != NULL)
    fprintf(output->checksum, "all %016llx\n", (unsigned long long)everything);
  free(by_rank);
  return everything;
}

// --- dump: the final grid as doubles

struct place {
  long first[AXES];
  long cells[AXES];
};

static void write_row(FILE* file, const struct box* box, const struct place* at, long var, long row,
                      const double* values) {
  const long y = at->first[AXIS_Y] + row % at->cells[AXIS_Y];
  const long z = at->first[AXIS_Z] + row / at->cells[AXIS_Y];
  const long before =
      ((var * box->whole[AXIS_Z] + z) * box->whole[AXIS_Y] + y) * box->whole[AXIS_X];
  if (fseek(file, (before + at->first[AXIS_X]) * (long)sizeof(double), SEEK_SET) != 0) return;
  fwrite(values, sizeof(double), (size_t)at->cells[AXIS_X], file);
}

static const double* own_row(const struct grid* grid, long var, long row) {
  const int y = (int)(row % grid->cells[AXIS_Y]), z = (int)(row / grid->cells[AXIS_Y]);
  return grid->now + grid_at(grid, (int)var, 0, y, z);
}

static void send_rows(const struct results* r, const struct place* at) {
  MPI_Send(at, (int)sizeof *at, MPI_BYTE, 0, TAG_PLACE, r->box->comm);
  for (long var = 0; var < r->grid->vars; ++var) {
    for (long row = 0; row < at->cells[AXIS_Y] * at->cells[AXIS_Z]; ++row) {
      MPI_Send(own_row(r->grid, var, row), r->grid->cells[AXIS_X], MPI_DOUBLE, 0, TAG_ROW,
               r->box->comm);
    }
  }
}

static void write_rows_of(FILE* file, const struct results* r, int rank, const struct place* own) {
  struct place at = *own;
  const MPI_Comm comm = r->box->comm;
  if (rank != 0) MPI_Recv(&at, (int)sizeof at, MPI_BYTE, rank, TAG_PLACE, comm, MPI_STATUS_IGNORE);
  double* values = malloc((size_t)at.cells[AXIS_X] * sizeof(double));
  if (values == NULL) MPI_Abort(comm, 1);
  for (long var = 0; var < r->grid->vars; ++var) {
    for (long row = 0; row < at.cells[AXIS_Y] * at.cells[AXIS_Z]; ++row) {
      const double* from = values;
      if (rank == 0) {
        from = own_row(r->grid, var, row);
      } else {
        MPI_Recv(values, (int)at.cells[AXIS_X], MPI_DOUBLE, rank, TAG_ROW, comm, MPI_STATUS_IGNORE);
      }
      write_row(file, r->box, &at, var, row, from);
    }
  }
  free(values);
}

void output_dump(const struct output* output, const struct results* r) {
  if (r->options->dump_file == NULL) return;
  struct place own;
  for (int axis = 0; axis < AXES; ++axis) {
    own.first[axis] = r->box->first[axis];
    own.cells[axis] = r->box->cells[axis];
  }
  if (r->box->rank != 0) {
    send_rows(r, &own);
    return;
  }
  for (int rank = 0; rank < r->box->ranks; ++rank) write_rows_of(output->dump, r, rank, &own);
}

// --- JSON: configuration and times

static void print_string(FILE* f, const char* text) {
  fputc('"', f);
  for (const char* c = text; *c != '\0'; ++c) {
    if (*c == '"' || *c == '\\') fputc('\\', f);
    fputc((unsigned char)*c < 0x20 ? ' ' : *c, f);
  }
  fputc('"', f);
}

static void print_triple(FILE* f, const char* name, const long* values) {
  fprintf(f, "  \"%s\": [%ld, %ld, %ld],\n", name, values[AXIS_X], values[AXIS_Y], values[AXIS_Z]);
}

static void print_seconds(FILE* f, const char* name, const double* values, int n) {
  fprintf(f, ", \"%s\": [", name);
  for (int i = 0; i < n; ++i) fprintf(f, "%s%.9f", i > 0 ? ", " : "", values[i]);
  fputc(']', f);
}

static void print_head(FILE* f, const struct results* r, uint64_t hash, double bytes_a_step) {
  const struct options* o = r->options;
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  long processes[AXES];
  for (int axis = 0; axis < AXES; ++axis) processes[axis] = r->box->processes[axis];
  MPI_Get_library_version(library, &length);
  fprintf(f, "{\n  \"program\": \"stencil\",\n  \"format\": 1,\n  \"mpi_library\": ");
  print_string(f, library);
  fprintf(f, ",\n  \"ranks\": %d,\n", r->box->ranks);
  print_triple(f, "processes", processes);
  print_triple(f, "cells", r->box->whole);
  fprintf(f, "  \"vars\": %d,\n  \"steps\": %d,\n  \"measured_steps\": %d,\n", o->vars, o->steps,
          r->times->steps);
  fprintf(f, "  \"halo\": \"%s\",\n  \"exchange\": \"%s\",\n", halo_name(o->halo),
          exchange_name(o->exchange));
  fprintf(f, "  \"periodic\": %s,\n  \"imbalance_percent\": %d,\n", o->periodic ? "true" : "false",
          o->imbalance);
  fprintf(f, "  \"seed\": %llu,\n  \"hash\": \"%016llx\",\n", (unsigned long long)o->seed,
          (unsigned long long)hash);
  if (isfinite(r->worst_heat_error)) {
    fprintf(f, "  \"worst_heat_error\": %.3e,\n", r->worst_heat_error);
  } else {
    fprintf(f, "  \"worst_heat_error\": null,\n");
  }
  fprintf(f, "  \"bytes_sent_per_step\": %.0f,\n", bytes_a_step);
}

static void print_membench(FILE* f, const struct membench* m) {
  if (m->mib == 0) {
    fprintf(f, "  \"memcpy\": null,\n");
    return;
  }
  fprintf(f, "  \"memcpy\": {\"mib\": %d, \"one_gb_per_s\": %.3f, \"together_gb_per_s\": %.3f},\n",
          m->mib, m->one_gb_per_s, m->together_gb_per_s);
}

enum { kSums = 5 };  // total, compute, pack, mpi, wait

static void print_rank(FILE* f, int rank, const double* sums, const double* total,
                       const double* mpi, int n) {
  fprintf(f, "%s    {\"rank\": %d, \"total_s\": %.9f, \"compute_s\": %.9f, \"pack_s\": %.9f, ",
          rank > 0 ? ",\n" : "", rank, sums[0], sums[1], sums[2]);
  fprintf(f, "\"mpi_s\": %.9f, \"wait_s\": %.9f", sums[3], sums[4]);
  print_seconds(f, "step_total_s", total, n);
  print_seconds(f, "step_mpi_s", mpi, n);
  fputc('}', f);
}

static void send_times(const struct box* box, const struct times* t) {
  const double sums[kSums] = {t->total, t->compute, t->pack, t->mpi, t->wait};
  MPI_Send(sums, kSums, MPI_DOUBLE, 0, TAG_TIMES, box->comm);
  MPI_Send(t->step_total, t->steps, MPI_DOUBLE, 0, TAG_TIMES, box->comm);
  MPI_Send(t->step_mpi, t->steps, MPI_DOUBLE, 0, TAG_TIMES, box->comm);
}

static void print_ranks(FILE* f, const struct box* box, const struct times* t) {
  const double own[kSums] = {t->total, t->compute, t->pack, t->mpi, t->wait};
  struct times theirs;
  if (!times_create(t->steps, &theirs)) MPI_Abort(box->comm, 1);
  fprintf(f, "  \"times\": [\n");
  print_rank(f, 0, own, t->step_total, t->step_mpi, t->steps);
  for (int rank = 1; rank < box->ranks; ++rank) {
    double sums[kSums];
    MPI_Recv(sums, kSums, MPI_DOUBLE, rank, TAG_TIMES, box->comm, MPI_STATUS_IGNORE);
    MPI_Recv(theirs.step_total, t->steps, MPI_DOUBLE, rank, TAG_TIMES, box->comm,
             MPI_STATUS_IGNORE);
    MPI_Recv(theirs.step_mpi, t->steps, MPI_DOUBLE, rank, TAG_TIMES, box->comm, MPI_STATUS_IGNORE);
    print_rank(f, rank, sums, theirs.step_total, theirs.step_mpi, t->steps);
  }
  fprintf(f, "\n  ]\n}\n");
  times_free(&theirs);
}

void output_json(const struct output* output, const struct results* r, uint64_t hash) {
  if (r->options->json_file == NULL) return;
  double bytes = (double)halo_bytes_sent(r->halo), largest = (double)halo_largest_message(r->halo);
  double all_bytes = 0.0, all_largest = 0.0, slowest = 0.0;
  MPI_Reduce(&bytes, &all_bytes, 1, MPI_DOUBLE, MPI_SUM, 0, r->box->comm);
  MPI_Reduce(&largest, &all_largest, 1, MPI_DOUBLE, MPI_MAX, 0, r->box->comm);
  MPI_Reduce(&r->times->total, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, r->box->comm);
  if (r->box->rank != 0) {
    send_times(r->box, r->times);
    return;
  }
  print_head(output->json, r, hash, all_bytes);
  fprintf(output->json, "  \"largest_message_bytes\": %.0f,\n  \"seconds\": %.9f,\n", all_largest,
          slowest);
  print_membench(output->json, r->membench);
  print_ranks(output->json, r->box, r->times);
}
