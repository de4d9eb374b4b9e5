// SPDX-License-Identifier: BSD-3-Clause
//
// Shared loops in C++: in templates, lambdas, member functions, over iterators, with exceptions
// that stay inside an iteration, with thread_local data, and a loop after a fork.
//
// run: by test_matrix.py
#include <mpi.h>
#include <omp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <vector>

namespace {

constexpr int kMany = 400;
int most = 3000;  // executions in which a helper may join; the first argument
std::atomic<long> others{0};
pid_t self;

void visit(int i) {
  for (volatile int k = 0; k < 200 + i % 50; k = k + 1) continue;
  if (static_cast<pid_t>(syscall(SYS_gettid)) != self) others.fetch_add(1);
}

template <class Number>
bool in_a_template() {
  Number sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
  for (int i = 0; i < kMany; ++i) {
    visit(i);
    sum += static_cast<Number>(i);
  }
  return sum == static_cast<Number>(kMany) * (kMany - 1) / 2;
}

bool in_a_lambda() {
  std::vector<int> seen(kMany);
  const auto run = [&](int first) {
#pragma omp parallel for schedule(guided)
    for (int i = first; i < kMany; ++i) {
      visit(i);
      seen[static_cast<std::size_t>(i)] += i;
    }
  };
  run(0);
  for (int i = 0; i < kMany; ++i) {
    if (seen[static_cast<std::size_t>(i)] != i) return false;
  }
  return true;
}

class Field {
 public:
  bool in_a_member() {
#pragma omp parallel for schedule(dynamic, 2)
    for (std::size_t i = 0; i < values_.size(); ++i) {
      visit(static_cast<int>(i));
      values_[i] = scale_ * static_cast<double>(i);
    }
    return values_[7] == 21 && values_.back() == 3.0 * (kMany - 1);
  }

 private:
  double scale_ = 3;
  std::vector<double> values_ = std::vector<double>(kMany);
};

bool over_iterators() {
  std::vector<int> values(kMany, 1);
#pragma omp parallel for schedule(dynamic)
  for (auto at = values.begin(); at < values.end(); ++at) {
    visit(1);
    *at += 1;
  }
  for (const int value : values) {
    if (value != 2) return false;
  }
  return true;
}

bool with_exceptions() {
  long caught = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : caught)
  for (int i = 0; i < kMany; ++i) {
    visit(i);
    try {
      if (i % 3 == 0) throw std::runtime_error("no");
    } catch (const std::runtime_error&) {
      caught += 1;
    }
  }
  return caught == (kMany + 2) / 3;
}

thread_local int t_last = -1;

bool with_thread_locals() {
  int wrong = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : wrong)
  for (int i = 0; i < kMany; ++i) {
    t_last = i;
    visit(i);
    if (t_last != i) ++wrong;
  }
  return wrong == 0;
}

bool objects_of_a_class() {
  struct Sum {
    long value = 0;
    Sum& operator+=(const Sum& other) {
      value += other.value;
      return *this;
    }
  } sum;
#pragma omp declare reduction(plus:Sum : omp_out += omp_in) initializer(omp_priv = Sum{})
#pragma omp parallel for schedule(dynamic, 3) reduction(plus : sum)
  for (int i = 0; i < kMany; ++i) {
    visit(i);
    sum.value += i;
  }
  return sum.value == static_cast<long>(kMany) * (kMany - 1) / 2;
}

// Checks that a forked child, which has no helpers, runs loops right, and that its end changes
// nothing in the parent.
bool after_a_fork() {
  const pid_t child = fork();
  if (child == 0) _exit(in_a_template<long>() ? 5 : 6);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 5 && in_a_template<long>();
}

struct Case {
  const char* name;
  std::function<bool()> run;
};

void play(const Case& one) {
  others = 0;
  bool right = true;
  for (int times = 0; right && times < most; ++times) {
    right = one.run();
    if (others != 0 && times > 4) break;
  }
  std::printf("case %s %s %s\n", one.name, right ? "ok" : "WRONG", others ? "joined" : "alone");
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc > 1) most = std::atoi(argv[1]);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  self = static_cast<pid_t>(syscall(SYS_gettid));
  Field field;
  const Case cases[] = {{"template_long", in_a_template<long>},
                        {"template_double", in_a_template<double>},
                        {"lambda", in_a_lambda},
                        {"member", [&] { return field.in_a_member(); }},
                        {"iterators", over_iterators},
                        {"exceptions", with_exceptions},
                        {"thread_locals", with_thread_locals},
                        {"declared_reduction", objects_of_a_class},
                        {"after_a_fork", after_a_fork}};
  for (const Case& one : cases) {
    if (rank == 0) play(one);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
