/* SPDX-License-Identifier: BSD-3-Clause */
/* Is no MPI program and loads one privately: late PLUGIN calls the plugin's run(). */
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
