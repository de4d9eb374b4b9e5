// SPDX-License-Identifier: BSD-3-Clause
#include "heap/forking.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support/child.hpp"
#include "support/deny.hpp"
#include "support/shared.hpp"

namespace mh::heap {
namespace {

constexpr std::size_t kMega = 1U << 20U;
constexpr int kSkip = 77;

// Forks as a program with the preloaded heap does. The test calls the fork handlers itself, on the
// heap of this test, so no handler stays registered.
template <class Body>
pid_t forked(Forking& forking, Body body) {
  forking.prepare();
  const pid_t pid = ::fork();
  if (pid == 0) {
    forking.child();
    ::alarm(60);
    ::_exit(body());
  }
  forking.parent();
  return pid;
}

int code_of(pid_t pid) {
  int status = 0;
  if (pid <= 0 || ::waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

struct Stage {
  Stage() { heap.start({}); }
  char* block(std::size_t bytes, int value) {
    auto* memory = static_cast<char*>(heap.allocate(bytes, 16, false));
    std::memset(memory, value, bytes);
    return memory;
  }
  Heap heap;
  Forking forking{heap};
};

bool all(const char* memory, std::size_t bytes, char value) {
  for (std::size_t i = 0; i < bytes; ++i) {
    if (memory[i] != value) return false;
  }
  return true;
}

// Checks what must be true after every fork: parent and child do not see each other's writes into
// the heap.
int writes_stay_apart(Stage& stage, test::Barrier& turn) {
  char* block = stage.block(3 * kMega, 1);
  const pid_t pid = forked(stage.forking, [&] {
    if (!all(block, 3 * kMega, 1)) return 1;
    std::memset(block, 2, kMega);
    turn.wait(2);
    turn.wait(2);
    return all(block, kMega, 2) && all(block + kMega, 2 * kMega, 1) ? 0 : 2;
  });
  turn.wait(2);
  const bool untouched = all(block, 3 * kMega, 1);
  std::memset(block, 3, 3 * kMega);
  turn.wait(2);
  const int code = code_of(pid);
  return !untouched ? 3 : code == 0 && all(block, 3 * kMega, 3) ? 0 : 10 + code;
}

test::Barrier& shared_barrier() {
  static test::SharedMemory memory(sizeof(test::Barrier));
  return *new (memory.span().data()) test::Barrier{};
}

TEST(Forking, neither_side_sees_what_the_other_writes) {
  test::Barrier& turn = shared_barrier();
  test::Child child([&] {
    Stage stage;
    if (const int code = writes_stay_apart(stage, turn)) return code;
    return stage.heap.file().shared() ? 0 : 99;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Forking, without_the_descriptor_too) {
  test::Barrier& turn = shared_barrier();
  test::Child child([&] {
    Stage stage;
    (void)stage.block(kMega, 9);
    char* sparse = static_cast<char*>(stage.heap.allocate(100 * kMega, 16, false));
    sparse[50 * kMega] = 1;
    ::close(stage.heap.file().descriptor());
    if (const int code = writes_stay_apart(stage, turn)) return code;
    return stage.heap.file().shared() && sparse[50 * kMega] == 1 ? 0 : 99;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Forking, where_no_copy_is_possible_both_sides_keep_what_they_have) {
  test::Barrier& turn = shared_barrier();
  test::Child child([&] {
    Stage stage;
    (void)stage.block(kMega, 9);
    if (!test::deny(SYS_pipe2, EMFILE)) return kSkip;
    if (const int code = writes_stay_apart(stage, turn)) return code;
    return stage.heap.file().state() == File::State::retired ? 0 : 99;
  });
  const int code = child.wait();
  if (code == kSkip) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(code, 0);
}

TEST(Forking, a_copy_that_fails_leaves_both_sides_with_what_they_have) {
  test::Barrier& turn = shared_barrier();
  test::Child child([&] {
    Stage stage;
    (void)stage.block(kMega, 9);
    if (!test::deny(SYS_pread64, EIO)) return kSkip;
    if (const int code = writes_stay_apart(stage, turn)) return code;
    return stage.heap.file().state() == File::State::retired ? 0 : 99;
  });
  const int code = child.wait();
  if (code == kSkip) GTEST_SKIP() << "no seccomp here";
  EXPECT_EQ(code, 0);
}

TEST(Forking, a_retired_heap_still_serves_and_its_memory_is_zero_again_when_given_back) {
  test::Child child([] {
    Stage stage;
    char* old = stage.block(2 * kMega, 5);
    stage.heap.file().retire();
    if (!all(old, 2 * kMega, 5)) return 1;
    stage.heap.release(old);
    stage.heap.trim();
    auto* fresh = static_cast<char*>(stage.heap.allocate(2 * kMega, 16, true));
    if (fresh == nullptr || !all(fresh, 2 * kMega, 0)) return 2;
    if (stage.heap.file().reaches(reinterpret_cast<std::uint64_t>(fresh), 1)) return 3;
    return stage.heap.check() == nullptr ? 0 : 4;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Forking, a_child_uses_the_heap_on_and_forks_itself) {
  test::Child child([] {
    Stage stage;
    char* block = stage.block(kMega, 1);
    const pid_t pid = forked(stage.forking, [&] {
      char* more = stage.block(100 * kMega, 4);
      stage.heap.release(block);
      stage.heap.trim();
      block = static_cast<char*>(stage.heap.allocate(kMega, 16, true));
      if (!all(block, kMega, 0) || !all(more, 100 * kMega, 4)) return 1;
      const pid_t inner = forked(stage.forking, [&] {
        std::memset(more, 5, kMega);
        return stage.heap.check() == nullptr ? 0 : 1;
      });
      return code_of(inner) == 0 && all(more, kMega, 4) ? 0 : 2;
    });
    const int code = code_of(pid);
    return code == 0 && all(block, kMega, 1) ? 0 : 10 + code;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Forking, a_child_that_dies_while_it_copies_does_not_hold_its_parent) {
  test::Child child([] {
    Stage stage;
    char* block = stage.block(kMega, 1);
    stage.forking.prepare();
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(7);
    stage.forking.parent();
    if (code_of(pid) != 7) return 1;
    return stage.heap.file().shared() && all(block, kMega, 1) ? 0 : 2;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Forking, a_fork_that_fails_changes_nothing) {
  test::Child child([] {
    Stage stage;
    (void)stage.block(kMega, 1);
    stage.forking.prepare();
    stage.forking.parent();
    return stage.heap.file().shared() && stage.heap.allocate(kMega, 16, false) != nullptr ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Forking, signals_wait_while_memory_is_replaced) {
  test::Child child([] {
    Stage stage;
    stage.forking.prepare();
    sigset_t mask;
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    const bool held = ::sigismember(&mask, SIGUSR1) == 1;
    stage.forking.parent();
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    return held && ::sigismember(&mask, SIGUSR1) == 0 ? 0 : 1;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Forking, only_touched_memory_is_copied) {
  test::Child child([] {
    Stage stage;
    char* sparse = static_cast<char*>(stage.heap.allocate(1024 * kMega, 16, false));
    sparse[512 * kMega] = 1;
    const pid_t pid = forked(stage.forking, [&] {
      unsigned char here[256];
      ::mincore(reinterpret_cast<void*>(reinterpret_cast<std::uint64_t>(sparse) & ~4095ULL), kMega,
                here);
      for (const unsigned char page : here) {
        if ((page & 1U) != 0) return 1;
      }
      return sparse[512 * kMega] == 1 ? 0 : 2;
    });
    return code_of(pid);
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(Forking, other_threads_allocate_meanwhile) {
  test::Child child([] {
    Stage stage;
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        while (!over.load()) stage.heap.release(stage.block(256U << 10U, 1));
      });
    }
    int wrong = 0;
    for (int i = 0; i < 30; ++i) {
      char* block = stage.block(kMega, i);
      wrong += code_of(forked(stage.forking, [&] {
        char* own = stage.block(kMega, 7);
        const bool right = all(block, kMega, static_cast<char>(i)) && all(own, kMega, 7);
        return right && stage.heap.check() == nullptr ? 0 : 1;
      }));
      stage.heap.release(block);
    }
    over = true;
    for (std::thread& thread : threads) thread.join();
    return wrong;
  });
  EXPECT_EQ(child.wait(), 0);
}

}  // namespace
}  // namespace mh::heap
