/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks that outlive a thread or a loaded library, and blocks that are freed at exit. */
#include <pthread.h>
#include <string.h>

#include "heap.h"

char* module_block(void);
void module_free(void* block);

static char* last;
static void at_exit(void) {
  if (last[77] != 4) abort();
  free(last);
  free(malloc(500000));
}

static void* thread(void* unused) {
  (void)unused;
  return module_block();
}

int main(int count, char** arguments) {
  tell();
  EXPECT(count == 2);
  last = calloc(1 << 20, 1);
  last[77] = 4;
  EXPECT(atexit(at_exit) == 0);
  free(module_block());
  module_free(malloc(700000));
  for (int i = 0; i < 3; ++i) {
    void* late = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    EXPECT(late != NULL);
    char* (*block)(void) = (char* (*)(void))dlsym(late, "module_block");
    char* kept = block();
    dlclose(late);
    EXPECT(kept[299999] == 0);
    free(kept);
  }
  for (int i = 0; i < 20; ++i) {
    pthread_t one;
    void* block = NULL;
    EXPECT(pthread_create(&one, NULL, thread, NULL) == 0);
    EXPECT(pthread_join(one, &block) == 0);
    free(block);
  }
  puts("right");
  return 0;
}
