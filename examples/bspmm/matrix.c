// SPDX-License-Identifier: BSD-3-Clause
#include "matrix.h"

#include <stdint.h>
#include <string.h>

static uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool is_there(const Matrix* matrix, int row, int column) {
  const uint64_t key = ((uint64_t)matrix->number << 60) + ((uint64_t)row << 30) + (uint64_t)column;
  return matrix->number < 2 && (double)(mix(key + 1) >> 11) < matrix->density * 9007199254740992.0;
}

double value_at(const Matrix* matrix, int row, int column, int i, int j) {
  if (!is_there(matrix, row, column)) return 0;
  return (row * 3 + column * 5 + i * 7 + j * 11 + matrix->number) % 9 - 4;
}

int owner_of(const Matrix* matrix, int row) { return row % matrix->ranks; }

MPI_Aint displacement_of(const Matrix* matrix, int row, int column) {
  const MPI_Aint side = (MPI_Aint)matrix->tiles * matrix->tile;
  return (MPI_Aint)(row / matrix->ranks) * matrix->tile * side + (MPI_Aint)column * matrix->tile;
}

static void fill(const Matrix* matrix) {
  const MPI_Aint side = (MPI_Aint)matrix->tiles * matrix->tile;
  for (int row = matrix->rank; row < matrix->tiles; row += matrix->ranks) {
    for (int column = 0; column < matrix->tiles; ++column) {
      double* at = matrix->own + displacement_of(matrix, row, column);
      for (int i = 0; i < matrix->tile; ++i) {
        for (int j = 0; j < matrix->tile; ++j)
          at[i * side + j] = value_at(matrix, row, column, i, j);
      }
    }
  }
}

Matrix matrix_new(int number, int tiles, int tile, double density) {
  Matrix made = {.number = number, .tiles = tiles, .tile = tile, .density = density};
  MPI_Comm_rank(MPI_COMM_WORLD, &made.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &made.ranks);
  const int rows = (tiles - made.rank + made.ranks - 1) / made.ranks;
  const MPI_Aint bytes = (MPI_Aint)rows * tile * tiles * tile * (MPI_Aint)sizeof(double);
  MPI_Win_allocate(bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &made.own, &made.win);
  fill(&made);
  const int sizes[2] = {tile, tiles * tile};
  const int part[2] = {tile, tile};
  const int start[2] = {0, 0};
  MPI_Type_create_subarray(2, sizes, part, start, MPI_ORDER_C, MPI_DOUBLE, &made.there);
  MPI_Type_commit(&made.there);
  return made;
}

void matrix_free(Matrix* matrix) {
  MPI_Type_free(&matrix->there);
  MPI_Win_free(&matrix->win);
}
