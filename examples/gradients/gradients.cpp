// SPDX-License-Identifier: BSD-3-Clause
// Conjugate gradients after the HPCCG miniapp, with a part of the matrix for each task or thread
// (dissertation on LCI, section 2.4.3). The ranks divide the grid along z, the jobs of a rank along
// y. Each job exchanges its own strip of the rank's boundary planes by blocking calls, and
// computes.
// ../blocking.hpp has the three ways to run the jobs.
//
//   gradients lci|mpi-tasks|mpi-threads WORKERS JOBS NX NY NZ [ITERATIONS]
//
// NX, NY, NZ: points of the grid of each rank. Rank 0 prints the time of an iteration and whether
// all values are those of the solution.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

#include "../blocking.hpp"

namespace {

struct Grid {
  int nx, ny, nz;   // points of a rank
  int first_plane;  // of this rank in the whole grid
  int planes;       // of the whole grid
  [[nodiscard]] std::size_t plane() const {
    return static_cast<std::size_t>(nx) * static_cast<std::size_t>(ny);
  }
  [[nodiscard]] std::size_t points() const { return plane() * static_cast<std::size_t>(nz); }
  // The index of a point in a vector with a halo plane below plane 0 and above plane nz - 1.
  [[nodiscard]] std::size_t at(int x, int y, int z) const {
    return (static_cast<std::size_t>(z + 1) * static_cast<std::size_t>(ny) +
            static_cast<std::size_t>(y)) *
               static_cast<std::size_t>(nx) +
           static_cast<std::size_t>(x);
  }
};

// The matrix rows of a rank, as compressed sparse rows. Columns are indices as of Grid::at(). A row
// has 27 on its diagonal and -1 for each neighbouring point. The right side is the sum of the row,
// so the solution is 1 everywhere.
struct Matrix {
  std::vector<std::uint32_t> first{0};
  std::vector<std::uint32_t> columns;
  std::vector<double> values;
  std::vector<double> right_side;

  explicit Matrix(const Grid& grid) {
    for (int z = 0; z < grid.nz; ++z) {
      for (int y = 0; y < grid.ny; ++y) {
        for (int x = 0; x < grid.nx; ++x) add_row(grid, x, y, z);
      }
    }
  }

 private:
  void add_row(const Grid& grid, int x, int y, int z) {
    double sum = 0;
    for (int i = 0; i < 27; ++i) {
      const int u = x + i % 3 - 1;
      const int v = y + i / 3 % 3 - 1;
      const int w = z + i / 9 - 1;
      const int plane = grid.first_plane + w;
      if (u < 0 || u >= grid.nx || v < 0 || v >= grid.ny || plane < 0 || plane >= grid.planes)
        continue;
      columns.push_back(static_cast<std::uint32_t>(grid.at(u, v, w)));
      values.push_back(i == 13 ? 27 : -1);
      sum += values.back();
    }
    first.push_back(static_cast<std::uint32_t>(columns.size()));
    right_side.push_back(sum);
  }
};

class Solver {
 public:
  Solver(const Grid& grid, blocking::Way& way, int jobs, int iterations)
      : grid_(grid),
        matrix_(grid),
        way_(way),
        jobs_(jobs),
        iterations_(iterations),
        direction_(grid.points() + 2 * grid.plane()),
        residual_(matrix_.right_side),
        product_(grid.points()),
        solution_(grid.points()),
        partial_(static_cast<std::size_t>(jobs)),
        barrier_(static_cast<std::uint32_t>(jobs)) {}

  void run() {
    blocking::Jobs jobs;
    for (int job = 0; job < jobs_; ++job) jobs.emplace_back([this, job] { solve(job); });
    way_.run(jobs);
  }
  [[nodiscard]] double error() const {
    double most = 0;
    for (const double value : solution_) most = std::max(most, std::abs(value - 1));
    return most;
  }

 private:
  struct alignas(64) Partial {
    double sum = 0;
  };
  // Calls `use(inside, around)` for each point of the job's rows: `inside` is the point's index in
  // vectors of the rank's points, `around` its index in vectors with halo planes.
  template <class Use>
  void for_each_point(int job, Use use) const {
    for (int z = 0; z < grid_.nz; ++z) {
      const std::size_t around = grid_.at(0, low(job), z);
      const std::size_t end = grid_.at(0, low(job + 1), z);
      for (std::size_t i = around; i < end; ++i) use(i - grid_.plane(), i);
    }
  }
  [[nodiscard]] int low(int job) const { return grid_.ny * job / jobs_; }

  void solve(int job) {
    double squares = 0;
    for_each_point(job, [&](std::size_t inside, std::size_t around) {
      direction_[around] = residual_[inside];
      squares += residual_[inside] * residual_[inside];
    });
    double rest = sum(job, squares);
    for (int i = 0; i < iterations_ && rest > 0; ++i) {
      exchange(job);
      barrier_.wait();  // the job's rows also read the strips of its neighbours
      const double step = rest / sum(job, multiply(job));
      squares = 0;
      for_each_point(job, [&](std::size_t inside, std::size_t around) {
        solution_[inside] += step * direction_[around];
        residual_[inside] -= step * product_[inside];
        squares += residual_[inside] * residual_[inside];
      });
      const double next = sum(job, squares);
      for_each_point(job, [&](std::size_t inside, std::size_t around) {
        direction_[around] = residual_[inside] + next / rest * direction_[around];
      });
      rest = next;
    }
  }

  // Computes the job's rows of product = matrix * direction. Returns the job's part of the scalar
  // product of `direction` and this product.
  double multiply(int job) {
    double sum = 0;
    for_each_point(job, [&](std::size_t inside, std::size_t around) {
      double row = 0;
      for (std::uint32_t i = matrix_.first[inside]; i < matrix_.first[inside + 1]; ++i) {
        row += matrix_.values[i] * direction_[matrix_.columns[i]];
      }
      product_[inside] = row;
      sum += row * direction_[around];
    });
    return sum;
  }

  // Exchanges the job's strips with the jobs of the same number in the ranks below and above. Ranks
  // of even numbers send first, so no two ranks wait for each other to receive.
  void exchange(int job) {
    const bool even = way_.rank() % 2 == 0;
    for (const bool up : {even, !even}) {
      const int peer = way_.rank() + (up ? 1 : -1);
      if (peer < 0 || peer >= way_.size()) continue;
      const std::span mine = strip(job, up ? grid_.nz - 1 : 0);
      const std::span theirs = strip(job, up ? grid_.nz : -1);
      const auto tag = static_cast<std::uint32_t>(job);
      if (even) way_.send(peer, tag, std::as_bytes(mine));
      way_.receive(peer, tag, std::as_writable_bytes(theirs));
      if (!even) way_.send(peer, tag, std::as_bytes(mine));
    }
  }
  std::span<double> strip(int job, int z) {
    const std::size_t begin = grid_.at(0, low(job), z);
    return {direction_.data() + begin, grid_.at(0, low(job + 1), z) - begin};
  }

  // Returns the sum of `mine` over all jobs of all ranks.
  double sum(int job, double mine) {
    partial_[static_cast<std::size_t>(job)].sum = mine;
    if (barrier_.wait()) {
      double all = 0;
      for (const Partial& partial : partial_) all += partial.sum;
      sum_ = way_.total(all);
    }
    barrier_.wait();
    return sum_;
  }

  const Grid grid_;
  const Matrix matrix_;
  blocking::Way& way_;
  const int jobs_;
  const int iterations_;
  std::vector<double> direction_;  // with halo planes
  std::vector<double> residual_;
  std::vector<double> product_;
  std::vector<double> solution_;
  std::vector<Partial> partial_;
  mh::ult::Barrier barrier_;  // of all jobs of this rank
  double sum_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  int numbers[6] = {0, 0, 0, 0, 0, 100};
  for (int i = 2; i < std::min(argc, 8); ++i) numbers[i - 2] = std::atoi(argv[i]);
  const auto [workers, jobs, nx, ny, nz, iterations] = numbers;
  const bool counts = std::ranges::all_of(numbers, [](int number) { return number > 0; });
  const bool fits = counts && jobs <= ny && jobs <= 4000 && workers <= 64;
  const auto way = fits ? blocking::open_way(argv[1], static_cast<unsigned>(workers)) : nullptr;
  if (way == nullptr) {
    std::fprintf(stderr,
                 "usage: gradients lci|mpi-tasks|mpi-threads WORKERS JOBS NX NY NZ [ITERATIONS]\n");
    return 2;
  }
  const Grid grid{nx, ny, nz, nz * way->rank(), nz * way->size()};
  Solver solver(grid, *way, jobs, iterations);
  (void)way->sum(0);
  const auto start = std::chrono::steady_clock::now();
  solver.run();
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const bool right = way->sum(solver.error() < 1e-6 ? 0 : 1) == 0;
  if (way->rank() == 0) {
    std::printf("%d jobs a rank, %.3f ms an iteration, %s\n", jobs,
                1e3 * spent.count() / iterations, right ? "right" : "WRONG");
  }
  return right ? 0 : 1;
}
