// SPDX-License-Identifier: BSD-3-Clause
//
// A square block-sparse matrix, divided over the ranks by rows of tiles.
//
// Tile row i belongs to rank i modulo the number of ranks. A rank stores all elements of its tile
// rows, zeros included, in the memory of a window. The number of a factor (0 or 1, see `number`)
// determines which tiles exist and the values in them, so every rank can compute both without
// communication.
#ifndef BSPMM_MATRIX_H
#define BSPMM_MATRIX_H

#include <mpi.h>
#include <stdbool.h>

typedef struct {
  int number;      // 0 and 1 are factors; 2 is the product, which begins as zeros
  int tiles;       // tiles along a side of the matrix
  int tile;        // elements along a side of a tile
  double density;  // fraction of tiles that exist
  int rank, ranks;
  double* own;  // the tile rows of this rank
  MPI_Win win;
  MPI_Datatype there;  // target datatype: a tile within the tile rows of its owner
} Matrix;

Matrix matrix_new(int number, int tiles, int tile, double density);
void matrix_free(Matrix* matrix);

bool is_there(const Matrix* matrix, int row, int column);
// Returns the value at (i, j) of tile (row, column): a small integer, or 0 if there is no tile.
double value_at(const Matrix* matrix, int row, int column, int i, int j);

int owner_of(const Matrix* matrix, int row);
// Returns the place of a tile's first element in the window of the rank that owns the tile. The
// unit is elements, as of MPI displacements in this window.
MPI_Aint displacement_of(const Matrix* matrix, int row, int column);

#endif
