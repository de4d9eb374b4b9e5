// SPDX-License-Identifier: BSD-3-Clause
// Writes one JSON object to a file, member by member.
//
// Only rank 0 writes. A `struct json` without a file ignores all calls, so callers need no checks.
// Limit: texts are written verbatim, so they must not need escapes.
#ifndef WORKSHARE_JSON_H
#define WORKSHARE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
  FILE* file;   // NULL: nothing is written
  bool follow;  // a member has been written at this level, so a comma precedes the next
};

// Opens the output. Collective over MPI_COMM_WORLD. A `name` of NULL means no file, "-" standard
// output. Returns false if the file cannot be written; rank 0 then prints an error that begins with
// the name `program`.
bool json_open(struct json* json, const char* program, const char* name);
bool json_close(struct json* json, const char* program);
bool json_is_stdout(const struct json* json);

void json_text(struct json* json, const char* key, const char* value);
void json_whole(struct json* json, const char* key, long long value);
void json_real(struct json* json, const char* key, double value);
void json_flag(struct json* json, const char* key, bool value);
void json_hash(struct json* json, const char* key, uint64_t value);
void json_reals(struct json* json, const char* key, const double* values, int count);

// json_begin() begins a nested object ('{') or a list ('['), json_end() ends it with the closing
// bracket. json_row() writes a list of `count` values as an element of a list.
void json_begin(struct json* json, const char* key, char bracket);
void json_end(struct json* json, char bracket);
void json_row(struct json* json, const double* values, int count);

#endif
