// SPDX-License-Identifier: BSD-3-Clause
// C[ijkl] += A[ijab] B[abkl] in tiles of different sizes. The tensors are distributed over the
// ranks, in MPI windows. A task computes a tile of C: it gets the tiles of A and B that it needs,
// multiplies them with BLAS, and adds the sum of the products to C.
//
//   mpiexec -n 2 ./tensor-contraction BALANCER [TILES [MEAN_SIZE [ITERATIONS]]] [record=FILE]
//
// Prints a line for each iteration, the sums of all elements of C and of their squares, and the
// error of C v against A (B v) for a vector v. Efficiency is the time in tasks of all ranks,
// divided by the number of ranks times the longest time of process().
#include <cblas.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../recording.hpp"
#include "manyhands/tasks.hpp"
#include "tensor.hpp"

namespace {

namespace tasks = mh::tasks;
using contraction::Tensor;

struct Tile {
  std::uint32_t left;   // pair ij
  std::uint32_t right;  // pair kl
};
struct Local {
  Tensor &a, &b, &c;
  std::vector<double> left = {}, right = {}, sum = {};  // tiles of A, B and C for the running task
  recording::Recording* recording = nullptr;
};
struct Job {
  int rank = 0;
  int ranks = 1;
};

void multiply_tile(Local& local, const Tile& tile) {
  Tensor& a = local.a;
  Tensor& b = local.b;
  const int rows = static_cast<int>(a.size(tile.left));
  const int columns = static_cast<int>(b.size(tile.right));
  local.sum.assign(a.size(tile.left) * b.size(tile.right), 0);
  for (std::size_t pair = 0; pair < a.pairs(); ++pair) {
    const int inner = static_cast<int>(a.size(pair));
    a.get(tile.left, pair, local.left);
    b.get(pair, tile.right, local.right);
    cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns, inner, 1,
                local.left.data(), inner, local.right.data(), columns, 1, local.sum.data(),
                columns);
  }
  local.c.add(tile.left, tile.right, local.sum);
}

void multiply(tasks::Context& context, const Tile& tile) noexcept {
  auto& local = context.local<Local>();
  const auto pairs = static_cast<std::uint32_t>(local.a.pairs());
  local.recording->run(tile.left * pairs + tile.right, [&] {
    multiply_tile(local, tile);
    return true;
  });
}

// Collective. Returns the largest difference between C v and `factor` times A (B v), for a vector
// v. `factor` is the number of iterations, each of which has added A B to C.
double error(Local& local, int factor) {
  Tensor::Vector vector(local.b.pairs());
  for (std::size_t pair = 0; pair < vector.size(); ++pair) {
    vector[pair].assign(local.b.size(pair), 1 + 0.1 * static_cast<double>(pair));
  }
  const Tensor::Vector got = local.c.times(vector);
  const Tensor::Vector wanted = local.a.times(local.b.times(vector));
  double largest = 0;
  for (std::size_t pair = 0; pair < got.size(); ++pair) {
    for (std::size_t i = 0; i < got[pair].size(); ++i) {
      largest = std::max(largest, std::abs(got[pair][i] - factor * wanted[pair][i]));
    }
  }
  return largest;
}

void report(int iteration, const tasks::Statistics& own, const Job& job) {
  std::array<double, 3> sums{own.task_s, static_cast<double>(own.tasks),
                             static_cast<double>(own.steals)};
  double longest = own.process_s;
  MPI_Allreduce(MPI_IN_PLACE, sums.data(), 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (job.rank != 0) return;
  std::printf("iteration %d tasks %.0f steals %.0f time %.4f s efficiency %.1f %%\n", iteration,
              sums[1], sums[2], longest, 100 * sums[0] / (longest * job.ranks));
}

int run(tasks::Balancer balancer, const contraction::Tiling& tiling, int iterations,
        recording::Recording& recording, const Job& job) {
  Tensor a(MPI_COMM_WORLD, tiling);
  Tensor b(MPI_COMM_WORLD, tiling);
  Tensor c(MPI_COMM_WORLD, tiling);
  a.fill(1);
  b.fill(2);
  Local local{.a = a, .b = b, .c = c, .recording = &recording};
  const auto pairs = static_cast<std::uint32_t>(local.a.pairs());
  const tasks::Config config{.task_bytes = sizeof(Tile),
                             .max_tasks = std::uint64_t{pairs} * pairs,
                             .balancer = balancer,
                             .local = &local};
  auto collection = tasks::create(MPI_COMM_WORLD, config);
  if (!collection) return 1;
  const auto function = collection->define<Tile>(multiply);
  if (!function) return 1;
  const auto ranks = static_cast<std::uint32_t>(job.ranks);
  for (std::uint32_t left = 0; left < pairs; ++left) {
    if (left * ranks / pairs != static_cast<std::uint32_t>(job.rank)) continue;
    for (std::uint32_t right = 0; right < pairs; ++right) {
      if (!collection->add(*function, Tile{left, right})) return 1;
    }
  }
  for (int iteration = 1; iteration <= iterations; ++iteration) {
    recording.begin_iteration();
    if (!collection->process()) return 1;
    report(iteration, collection->statistics(), job);
    if (!collection->restore()) return 1;
  }
  c.sync();
  const Tensor::Sums sums = c.sums();
  if (job.rank == 0) std::printf("sum %.12e squares %.12e\n", sums.elements, sums.squares);
  const double far = error(local, iterations);
  if (job.rank == 0) std::printf("error %.1e %s\n", far, far < 1e-8 ? "right" : "WRONG");
  return recording.write(job.rank) ? 0 : 1;
}

int number(int count, char** words, int at, int otherwise) {
  return count > at ? std::atoi(words[at]) : otherwise;
}

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  recording::Recording recording(count, words);
  Job job;
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.ranks);
  const auto balancer = tasks::balancer_of(count >= 2 ? words[1] : "");
  const int tiles = number(count, words, 2, 4);
  const int mean = number(count, words, 3, 4);
  const int iterations = number(count, words, 4, 5);
  int code = 2;
  if (balancer && tiles > 0 && mean > 0 && iterations > 0) {
    code = run(*balancer, contraction::uneven(tiles, mean), iterations, recording, job);
  } else if (job.rank == 0) {
    std::fprintf(
        stderr,
        "usage: tensor-contraction BALANCER [TILES [MEAN_SIZE [ITERATIONS]]] [record=FILE]\n"
        "BALANCER: none, steal, retain, plb-central, plb-tree or auto\n");
  }
  MPI_Finalize();
  return code;
}
