// SPDX-License-Identifier: BSD-3-Clause
#include "ult/stack.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <new>

namespace mh::ult {
namespace {

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// The number of guard pages that this process may still create, over all its schedulers. relaxed:
// the number publishes no other data.
std::atomic<long>& guards_left() {
  static std::atomic<long> left = [] {
    long mappings = 0;
    if (std::FILE* file = std::fopen("/proc/sys/vm/max_map_count", "re")) {
      if (std::fscanf(file, "%ld", &mappings) != 1) mappings = 0;
      std::fclose(file);
    }
    return (mappings > 0 ? mappings : 65530) / 4;
  }();
  return left;
}

}  // namespace

StackDepot::StackDepot(std::size_t bytes, bool guarded)
    : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
      stride_(page_ + round_up(bytes + round_up(sizeof(Stack), 64), page_)),
      guarded_(guarded) {}

StackDepot::~StackDepot() {
  for (std::byte* slab : slabs_) {
    for (int i = 0; i < kBatch; ++i) {
      std::byte* top = slab + static_cast<std::size_t>(i + 1) * stride_;
      auto* stack = reinterpret_cast<Stack*>(top - round_up(sizeof(Stack), 64));
      stack->fibre.destroy();
      stack->~Stack();
    }
    ::munmap(slab, stride_ * kBatch);
  }
  guards_left().fetch_add(guards_, std::memory_order_relaxed);
}

Stack* StackDepot::take() {
  const std::lock_guard lock(mutex_);
  if (lists_.empty()) return map_slab();
  Stack* list = lists_.back();
  lists_.pop_back();
  return list;
}

void StackDepot::put(Stack* list) {
  const std::lock_guard lock(mutex_);
  lists_.push_back(list);
}

Stack* StackDepot::map_slab() {
  void* memory = ::mmap(nullptr, stride_ * kBatch, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* slab = static_cast<std::byte*>(memory);
  // Small pages only: a huge page would use 2 MB of memory for each stack. The call may fail
  // harmlessly: a kernel that does not know the advice has no transparent huge pages.
  ::madvise(slab, stride_ * kBatch, MADV_NOHUGEPAGE);
  slabs_.push_back(slab);
  Stack* list = nullptr;
  for (int i = 0; i < kBatch; ++i) {
    Stack* stack = make(slab + static_cast<std::size_t>(i) * stride_);
    stack->next = list;
    list = stack;
  }
  mapped_.fetch_add(kBatch, std::memory_order_relaxed);
  return list;
}

Stack* StackDepot::make(std::byte* base) {
  if (!guard(base)) unguarded_.fetch_add(1, std::memory_order_relaxed);
  auto* stack = new (base + stride_ - round_up(sizeof(Stack), 64)) Stack;
  stack->low = base + page_;
  stack->fibre.create(stack->low, stack->bytes());
  return stack;
}

bool StackDepot::guard(std::byte* base) {
  if (!guarded_) return false;
  if (guards_left().fetch_sub(1, std::memory_order_relaxed) > 0 &&
      ::mprotect(base, page_, PROT_NONE) == 0) {
    ++guards_;
    return true;
  }
  guards_left().fetch_add(1, std::memory_order_relaxed);
  return false;
}

void StackPool::refill() {
  first_ = depot_.take();
  for (Stack* stack = first_; stack != nullptr; stack = stack->next) ++count_;
}

void StackPool::spill() {
  Stack* list = first_;
  Stack* last = first_;
  for (int i = 1; i < StackDepot::kBatch; ++i) last = last->next;
  first_ = last->next;
  last->next = nullptr;
  count_ -= StackDepot::kBatch;
  depot_.put(list);
}

}  // namespace mh::ult
