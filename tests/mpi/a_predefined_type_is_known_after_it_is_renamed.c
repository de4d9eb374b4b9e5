// SPDX-License-Identifier: BSD-3-Clause
//
// A predefined datatype may have another name on one rank. All ranks still decide alike whether
// they carry out a reduction themselves.
//
// run: ranks 2
// run: ranks 3
#include "check.h"

int main(int argc, char** argv) {
  begin(&argc, &argv);
  if (rank == 0) MPI_Type_set_name(MPI_INT, "count");
  for (int i = 0; i < 100; ++i) {
    int mine = rank + i, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == ranks * (ranks - 1) / 2 + ranks * i, "sum %d in call %d", sum, i);
  }
  char name[MPI_MAX_OBJECT_NAME];
  int length;
  MPI_Type_get_name(MPI_INT, name, &length);
  CHECK(strcmp(name, rank == 0 ? "count" : "MPI_INT") == 0, "the name is %s", name);
  return end();
}
