// SPDX-License-Identifier: BSD-3-Clause
//
// C = A B of block-sparse matrices. A shared counter hands out pairs (row of A, tile in that row)
// to the ranks. The rank that gets a pair fetches the tile and the tiles of B that it is multiplied
// with, and adds the products to C. A, B and C are in MPI windows.
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"
#ifdef HAVE_CBLAS
#include <cblas.h>
#endif

typedef struct {
  int tiles, tile, check;
  double density;
} Options;

// The seconds that this rank has spent in each kind of operation.
typedef struct {
  double counter, get, multiply, accumulate;
} Times;

typedef struct {
  Matrix a, b, c;
  MPI_Win counter;
  long* count;
  double *tile_a, *tile_b, *tile_c;
  Times times;
} Product;

// ---- The multiplication -------------------------------------------------------------------------

static void multiply(int n, const double* a, const double* b, double* c) {
#ifdef HAVE_CBLAS
  cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, a, n, b, n, 0, c, n);
#else
  memset(c, 0, (size_t)n * (size_t)n * sizeof(double));
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < n; ++k) {
      for (int j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
    }
  }
#endif
}

static double passed(double* since) {
  const double now = MPI_Wtime();
  const double seconds = now - *since;
  *since = now;
  return seconds;
}

static long next_unit(Product* p) {
  const long one = 1;
  long unit = 0;
  MPI_Fetch_and_op(&one, &unit, MPI_LONG, 0, 0, MPI_SUM, p->counter);
  MPI_Win_flush(0, p->counter);
  return unit;
}

static void fetch(const Matrix* from, int row, int column, double* tile) {
  const int count = from->tile * from->tile;
  const int owner = owner_of(from, row);
  MPI_Get(tile, count, MPI_DOUBLE, owner, displacement_of(from, row, column), 1, from->there,
          from->win);
  MPI_Win_flush(owner, from->win);
}

static void add(const Matrix* to, int row, int column, const double* tile) {
  const int count = to->tile * to->tile;
  const int owner = owner_of(to, row);
  MPI_Accumulate(tile, count, MPI_DOUBLE, owner, displacement_of(to, row, column), 1, to->there,
                 MPI_SUM, to->win);
  MPI_Win_flush(owner, to->win);
}

// Does the work of the pair (i, k) that the shared counter has handed out. Adds the products of
// tile (i, k) of A with all tiles in row k of B to row i of C.
static void do_unit(Product* p, int i, int k) {
  double since = MPI_Wtime();
  fetch(&p->a, i, k, p->tile_a);
  p->times.get += passed(&since);
  for (int j = 0; j < p->b.tiles; ++j) {
    if (!is_there(&p->b, k, j)) continue;
    since = MPI_Wtime();
    fetch(&p->b, k, j, p->tile_b);
    p->times.get += passed(&since);
    multiply(p->a.tile, p->tile_a, p->tile_b, p->tile_c);
    p->times.multiply += passed(&since);
    add(&p->c, i, j, p->tile_c);
    p->times.accumulate += passed(&since);
  }
}

static void work(Product* p) {
  const long units = (long)p->a.tiles * p->a.tiles;
  MPI_Win wins[] = {p->a.win, p->b.win, p->c.win, p->counter};
  for (int i = 0; i < 4; ++i) MPI_Win_lock_all(0, wins[i]);
  for (;;) {
    double since = MPI_Wtime();
    const long unit = next_unit(p);
    p->times.counter += passed(&since);
    if (unit >= units) break;
    const int i = (int)(unit / p->a.tiles);
    const int k = (int)(unit % p->a.tiles);
    if (is_there(&p->a, i, k)) do_unit(p, i, k);
  }
  for (int i = 0; i < 4; ++i) MPI_Win_unlock_all(wins[i]);
  MPI_Barrier(MPI_COMM_WORLD);
}

// ---- The check of the result --------------------------------------------------------------------

// Computes row `i` of tile row `row` of C without communication, from the elements of A and B,
// which every rank can compute.
static void serial_row(const Product* p, int row, int i, double* sums) {
  const int n = p->a.tile;
  const int tiles = p->a.tiles;
  memset(sums, 0, (size_t)n * (size_t)tiles * sizeof(double));
  for (int k = 0; k < tiles; ++k) {
    if (!is_there(&p->a, row, k)) continue;
    for (int column = 0; column < tiles; ++column) {
      if (!is_there(&p->b, k, column)) continue;
      for (int l = 0; l < n; ++l) {
        const double factor = value_at(&p->a, row, k, i, l);
        double* at = sums + column * n;
        for (int j = 0; j < n; ++j) at[j] += factor * value_at(&p->b, k, column, l, j);
      }
    }
  }
}

// Returns the number of this rank's elements of C that differ from the serial result.
static long wrong(const Product* p) {
  const int side = p->c.tiles * p->c.tile;
  double* sums = malloc((size_t)side * sizeof(double));
  long found = 0;
  MPI_Win_lock_all(0, p->c.win);
  MPI_Win_sync(p->c.win);
  for (int row = p->c.rank; row < p->c.tiles; row += p->c.ranks) {
    for (int i = 0; i < p->c.tile; ++i) {
      serial_row(p, row, i, sums);
      const double* own = p->c.own + displacement_of(&p->c, row, 0) + (MPI_Aint)i * side;
      for (int j = 0; j < side; ++j) found += own[j] != sums[j];
    }
  }
  MPI_Win_unlock_all(p->c.win);
  free(sums);
  return found;
}

// ---- Creation, report and end -------------------------------------------------------------------

static void stop_with_usage(void) {
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    fprintf(stderr,
            "usage: bspmm [--tiles N] [--tile N] [--density D] [--check 0|1]\n"
            "tiles of a row and rows of a tile are at least 1; density is the part of tiles that "
            "are not 0\n");
  }
  MPI_Finalize();
  exit(2);
}

static Options parse(int argc, char** argv) {
  static const struct option kLong[] = {{"tiles", 1, 0, 't'},
                                        {"tile", 1, 0, 'b'},
                                        {"density", 1, 0, 'd'},
                                        {"check", 1, 0, 'c'},
                                        {0, 0, 0, 0}};
  Options o = {.tiles = 8, .tile = 128, .check = 1, .density = 0.3};
  for (int option; (option = getopt_long(argc, argv, "", kLong, NULL)) != -1;) {
    if (option == 't') o.tiles = atoi(optarg);
    if (option == 'b') o.tile = atoi(optarg);
    if (option == 'd') o.density = atof(optarg);
    if (option == 'c') o.check = atoi(optarg);
    if (option == '?') stop_with_usage();
  }
  if (o.tiles < 1 || o.tile < 1 || optind != argc) stop_with_usage();
  return o;
}

static Product product_new(const Options* o) {
  const size_t bytes = (size_t)o->tile * (size_t)o->tile * sizeof(double);
  Product made = {.a = matrix_new(0, o->tiles, o->tile, o->density),
                  .b = matrix_new(1, o->tiles, o->tile, o->density),
                  .c = matrix_new(2, o->tiles, o->tile, 0),
                  .tile_a = malloc(bytes),
                  .tile_b = malloc(bytes),
                  .tile_c = malloc(bytes)};
  MPI_Win_allocate(sizeof(long), sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &made.count,
                   &made.counter);
  *made.count = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  return made;
}

static void product_free(Product* p) {
  MPI_Win_free(&p->counter);
  matrix_free(&p->c);
  matrix_free(&p->b);
  matrix_free(&p->a);
  free(p->tile_a);
  free(p->tile_b);
  free(p->tile_c);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const Options options = parse(argc, argv);
  Product product = product_new(&options);
  double since = MPI_Wtime();
  work(&product);
  const double spent = passed(&since);
  Times slowest;
  MPI_Reduce(&product.times, &slowest, 4, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  const long own = options.check ? wrong(&product) : 0;
  long all = 0;
  MPI_Allreduce(&own, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  if (product.a.rank == 0) {
    printf("{\"ranks\": %d, \"seconds\": %.6f, ", product.a.ranks, spent);
    printf("\"counter\": %.6f, \"get\": %.6f, \"multiply\": %.6f, ", slowest.counter, slowest.get,
           slowest.multiply);
    printf("\"accumulate\": %.6f, \"checked\": %s, \"wrong\": %ld}\n", slowest.accumulate,
           options.check ? "true" : "false", all);
  }
  product_free(&product);
  MPI_Finalize();
  return all == 0 ? 0 : 1;
}
