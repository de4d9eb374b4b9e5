// SPDX-License-Identifier: BSD-3-Clause
// Writes JSON. See json.h.
#include "json.h"

#include <errno.h>
#include <mpi.h>
#include <string.h>

static bool rank_0_says(bool ok) {
  int word = ok;
  MPI_Bcast(&word, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return word != 0;
}

static bool open_file(struct json* json, const char* program, const char* name) {
  json->file = strcmp(name, "-") == 0 ? stdout : fopen(name, "w");
  if (json->file == NULL) {
    fprintf(stderr, "%s: cannot write %s: %s\n", program, name, strerror(errno));
    return false;
  }
  fputs("{", json->file);
  return true;
}

bool json_open(struct json* json, const char* program, const char* name) {
  int rank = 0;
  bool ok = true;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  *json = (struct json){NULL, false};
  if (rank == 0 && name != NULL) ok = open_file(json, program, name);
  return rank_0_says(ok);
}

static bool close_file(FILE* file) {
  fputs("\n}\n", file);
  const bool failed_before = ferror(file) != 0;
  const int rc = file == stdout ? fflush(file) : fclose(file);
  return rc == 0 && !failed_before;
}

bool json_close(struct json* json, const char* program) {
  bool ok = true;
  if (json->file != NULL) ok = close_file(json->file);
  json->file = NULL;
  if (!ok) fprintf(stderr, "%s: could not write the JSON file: %s\n", program, strerror(errno));
  return rank_0_says(ok);
}

bool json_is_stdout(const struct json* json) { return json->file == stdout; }

// Begins a member: writes the comma after the previous member, if any, and the key. Returns false
// if this rank has no file and writes nothing.
static bool key_written(struct json* json, const char* key) {
  if (json->file == NULL) return false;
  fprintf(json->file, "%s\n  ", json->follow ? "," : "");
  if (key != NULL) fprintf(json->file, "\"%s\": ", key);
  json->follow = true;
  return true;
}

static void write_list(FILE* file, const double* values, int count) {
  fputs("[", file);
  for (int i = 0; i < count; ++i) fprintf(file, "%s%.9g", i > 0 ? ", " : "", values[i]);
  fputs("]", file);
}

void json_text(struct json* json, const char* key, const char* value) {
  if (key_written(json, key)) fprintf(json->file, "\"%s\"", value);
}

void json_whole(struct json* json, const char* key, long long value) {
  if (key_written(json, key)) fprintf(json->file, "%lld", value);
}

void json_real(struct json* json, const char* key, double value) {
  if (key_written(json, key)) fprintf(json->file, "%.9g", value);
}

void json_flag(struct json* json, const char* key, bool value) {
  if (key_written(json, key)) fputs(value ? "true" : "false", json->file);
}

void json_hash(struct json* json, const char* key, uint64_t value) {
  if (key_written(json, key)) fprintf(json->file, "\"%016llx\"", (unsigned long long)value);
}

void json_reals(struct json* json, const char* key, const double* values, int count) {
  if (key_written(json, key)) write_list(json->file, values, count);
}

void json_begin(struct json* json, const char* key, char bracket) {
  if (key_written(json, key)) fputc(bracket, json->file);
  json->follow = false;
}

void json_end(struct json* json, char bracket) {
  if (json->file != NULL) fprintf(json->file, "\n  %c", bracket);
  json->follow = true;
}

void json_row(struct json* json, const double* values, int count) {
  if (key_written(json, NULL)) write_list(json->file, values, count);
}
