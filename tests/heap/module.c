/* SPDX-License-Identifier: BSD-3-Clause */
/* A library, linked or loaded late, with a large block from its constructor to its destructor, and
 * with blocks that the program frees. */
#include <stdlib.h>
#include <string.h>

static char* own;

__attribute__((constructor)) static void begin(void) {
  own = malloc(1 << 20);
  memset(own, 6, 1 << 20);
}

__attribute__((destructor)) static void end(void) {
  if (own[12345] != 6) abort();
  free(own);
}

char* module_block(void) { return calloc(300000, 1); }
void module_free(void* block) { free(block); }
