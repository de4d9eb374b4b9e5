// SPDX-License-Identifier: BSD-3-Clause
#include "openmp/fibres.hpp"

#include <sys/mman.h>
#include <sys/resource.h>

#include <mutex>

#include "openmp/stack.hpp"

extern "C" {
void mh_fibre_switch(void** from, void* to);
void mh_fibre_first();
}

namespace mh::openmp {
namespace {

constexpr std::size_t kAlignment = 16;
constexpr std::size_t kGuard = 64U << 10U;

struct KeptFibres {
  TeamFibre* all = nullptr;  // never destroyed
  std::uint32_t with_stacks = 0;
};
KeptFibres g_kept;

bool is_address_space_limited() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

// Returns the lowest usable byte of a new stack of `bytes`, or null. The pages below are
// inaccessible: an overflow ends the program, as on the stack of a thread.
char* make_stack(std::size_t bytes) {
  void* const low = ::mmap(nullptr, bytes + kGuard, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (low == MAP_FAILED) return nullptr;
  if (::mprotect(low, kGuard, PROT_NONE) == 0) return static_cast<char*>(low) + kGuard;
  ::munmap(low, bytes + kGuard);
  return nullptr;
}

}  // namespace

// Lays out the registers and the return address that mh_fibre_switch() takes from the fibre's new
// stack, so that the first switch to it calls entry(data).
void TeamFibre::begin(Entry entry, void* data) {
  struct FirstFrame {
    void* r15 = nullptr;
    void* r14 = nullptr;
    void (*r13)(TeamFibre*) = nullptr;
    TeamFibre* r12 = nullptr;
    void* rbx = nullptr;
    void* rbp = nullptr;
    void (*first)() = nullptr;
  };
  entry_ = entry;
  data_ = data;
  ended_ = false;
  auto* const frame = reinterpret_cast<FirstFrame*>(stack_ + bytes_) - 1;
  *frame = {.r13 = enter, .r12 = this, .first = mh_fibre_first};
  here_ = frame;
}

void TeamFibre::enter(TeamFibre* fibre) {
  fibre->entry_(fibre->data_);
  fibre->ended_ = true;
  fibre->pause();
}

bool TeamFibre::resume() {
  mh_fibre_switch(&back_, here_);
  return ended_;
}

void TeamFibre::pause() { mh_fibre_switch(&here_, back_); }

TeamFibre* TeamFibres::with_stacks(std::uint32_t count) {
  static std::mutex& growing = *new std::mutex;
  const std::lock_guard<std::mutex> hold(growing);
  if (count > kMost || is_address_space_limited()) return nullptr;
  if (g_kept.all == nullptr) g_kept.all = new TeamFibre[kMost];
  const std::size_t bytes = stack_for_loops() & -kAlignment;
  for (; g_kept.with_stacks < count; ++g_kept.with_stacks) {
    char* const stack = make_stack(bytes);
    if (stack == nullptr) return nullptr;
    g_kept.all[g_kept.with_stacks].stack_ = stack;
    g_kept.all[g_kept.with_stacks].bytes_ = bytes;
  }
  return g_kept.all;
}

}  // namespace mh::openmp
