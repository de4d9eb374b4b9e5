/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls a function that the library may lack; prints "absent", "error" or "success". */
#include <stdio.h>

extern int MPI_Isendrecv() __attribute__((weak));
extern int MPI_Init(int*, char***);
extern int MPI_Finalize(void);

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (MPI_Isendrecv == 0) {
    printf("absent\n");
  } else {
    for (int i = 0; i < 3; ++i)
      printf("%s\n", MPI_Isendrecv(0, 0, 0, 0, 0, 0, 0, 0) ? "error" : "success");
  }
  MPI_Finalize();
  return 0;
}
