/* SPDX-License-Identifier: BSD-3-Clause */
/* A program without MPI that loads an MPI plugin privately: `late PLUGIN` calls run() of PLUGIN. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* plugin = dlopen(argc > 1 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
  if (plugin == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  union {
    void* address;
    int (*call)(int, char**);
  } run = {dlsym(plugin, "run")};
  return run.call != NULL ? run.call(argc, argv) : 3;
}
