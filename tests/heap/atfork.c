/* SPDX-License-Identifier: BSD-3-Clause */
/* A library whose constructor registers handlers of fork() before the first allocation. The
 * handlers allocate, write and free. A heap that holds its locks while they run would hang, and a
 * heap that copies its blocks too early would lose what they write. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum { BYTES = 1 << 20 };
static char* own;
static char* between;

static void prepare(void) {
  between = malloc(BYTES);
  memset(between, 5, BYTES);
}

static void after(int value) {
  for (int i = 0; i < BYTES; ++i) {
    if (between[i] != 5 || (own != NULL && own[i] != own[0])) abort();
  }
  free(between);
  if (own != NULL) memset(own, value, BYTES);
  char* again = calloc(BYTES, 1);
  memset(again, 1, BYTES);
  free(again);
}

static void parent(void) { after(1); }
static void child(void) { after(2); }

__attribute__((constructor)) static void begin(void) { pthread_atfork(prepare, parent, child); }

/* Returns what the handlers have written to `own`: 1 in a parent, 2 in a child, else 0. The first
 * call allocates `own`. */
int atfork_value(void) {
  if (own == NULL) own = calloc(BYTES, 1);
  for (int i = 0; i < BYTES; ++i) {
    if (own[i] != own[0]) abort();
  }
  return own[0];
}
