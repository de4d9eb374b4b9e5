// SPDX-License-Identifier: BSD-3-Clause
// From one context to another, and what happens to the one that was left.
//
// A context cannot be published while something still runs on its stack. So the one that leaves
// writes down what is to become of it (After), and the one that arrives does it.
#include <boost/context/detail/fcontext.hpp>
#include <cstring>

#include "ult/worker.hpp"

namespace mh::ult::detail {

namespace context = boost::context::detail;

namespace {

// context::jump_fcontext(), and the processor's stack of return addresses in step with ours again.
//
// The processor predicts where a `ret` goes from the calls it has seen. jump_fcontext() is called
// and comes back by a jump, so one entry stays on that stack, and every `ret` after the switch
// would be mispredicted. The entry left is the address right behind the call. So, once: a `ret` to
// just there, which is predicted right and takes the entry off. `left` is in a register that the
// switch restores. (This file is compiled without a red zone.) 29 -> 13 ns for a yield.
[[gnu::always_inline]] inline context::transfer_t jump(context::fcontext_t to, void* data) {
#if !defined(__CET__)
  std::uint64_t left = 1;
  void* from = nullptr;
  void* returned = nullptr;
  asm volatile(
      "call jump_fcontext@PLT\n"
      "1:\n"
      "dec %%rbx\n"
      "js 2f\n"
      "lea 1b(%%rip), %%rcx\n"
      "push %%rcx\n"
      "ret\n"
      "2:\n"
      : "+D"(to), "+S"(data), "+b"(left), "=a"(from), "=d"(returned)
      :
      : "rcx", "r8", "r9", "r10", "r11", "cc", "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4",
        "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
        "xmm15");
  return {from, returned};
#else
  return context::jump_fcontext(to, data);
#endif
}

}  // namespace

struct Entry {
  static void run(context::transfer_t from) {
    Worker::enter(from.fctx, static_cast<Worker*>(from.data));
  }
};

Worker* Worker::leave(After after, Record* next) {
  counts.switches.add();
  const bool ends = after == After::ended;
  Record* from = current;  // meaningless at the end of a task: the record may be another one's
  Fibre& here = ends              ? dead_stack_->fibre
                : from == nullptr ? root_fibre_
                                  : from->stack.load(std::memory_order_relaxed)->fibre;
  Fibre& there = next == nullptr ? root_fibre_ : next->stack.load(std::memory_order_relaxed)->fibre;
  if (!ends) {
    std::memcpy(from == nullptr ? &root_exceptions_ : &from->exceptions, exceptions_,
                sizeof(Exceptions));
  }
  std::memcpy(exceptions_, next == nullptr ? &root_exceptions_ : &next->exceptions,
              sizeof(Exceptions));
  leaving_ = from;
  after_ = after;
  current = next;
  here.depart(there, ends);
  const context::transfer_t back = jump(next == nullptr ? root_ : next->context, this);
  auto* worker = static_cast<Worker*>(back.data);
  worker->arrive(back.fctx, false);
  return worker;
}

// This worker, on the new stack; `from` is the context that was left.
inline void Worker::arrive(void* from, bool first) {
  Fibre& here =
      current == nullptr ? root_fibre_ : current->stack.load(std::memory_order_relaxed)->fibre;
  here.arrive(first);
  Record* left = leaving_;
  switch (after_) {
    case After::left_root:
      root_ = from;
      break;
    case After::yielded:
      left->context = from;
      if (left->location.load(std::memory_order_relaxed).worker != id) migrate(left);
      left->state.make_ready();
      show(left);
      break;
    case After::blocked:
      left->context = from;
      if (!left->state.block()) show(left);
      break;
    case After::ended:
      dead_stack_->fibre.renew();
      stacks_.put(dead_stack_);
      break;
  }
}

// This worker: sets the bit of a task that ran and is ready.
void Worker::show(Record* record) {
  const Location at = record->location.load(std::memory_order_relaxed);
  if (at.worker != id) return core.workers[at.worker]->signal(at.slot, this);
  started_.set(at.slot);
  announce();
}

// This worker: a thief, or it would be the task's home. The task is off its stack and nobody may
// run it. A signaller that read the old location looks again after it has set the bit (signal());
// one that does not see the new one has set its condition before the task looks at it next.
void Worker::migrate(Record* record) {
  if (!core.stealing) return;
  const std::uint32_t slot = take_slot(0);
  if (slot == kNoSlot) return;
  const Location old = record->location.load(std::memory_order_relaxed);
  Worker& home = *core.workers[old.worker];
  Record* mine = record_at(slot);
  home.slots_[old.slot].store(mine, std::memory_order_release);
  slots_[slot].store(record, std::memory_order_release);
  record->location.store({id, slot}, std::memory_order_seq_cst);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  // The task runs once more in any case: that is what the signal wanted.
  if (home.signals_.has(old.slot)) home.signals_.take(old.slot);
  home.free_shared_.set(old.slot);
  counts.migrated.add();
}

Record* Worker::with_stack(Record* next) {
  while (next != nullptr && next->stack.load(std::memory_order_relaxed) == nullptr) {
    Stack* stack = stacks_.take();
    if (stack != nullptr) [[likely]] {
      next->stack.store(stack, std::memory_order_relaxed);
      next->context = context::make_fcontext(stack->top(), stack->bytes(), &Entry::run);
      break;
    }
    Record* waiter = refuse(next);
    next = waiter != nullptr ? waiter : choose();
  }
  return next;
}

// The life of a stack, from when a task first gets it until no task needs it at once.
void Worker::enter(void* from, Worker* worker) {
  worker->arrive(from, true);
  for (;;) {
    Record* record = worker->current;
    run_body(record);
    worker = this_thread_worker();
    Stack* stack = record->stack.load(std::memory_order_relaxed);
    worker->current = nullptr;
    Record* next = worker->finish(record);
    if (next == nullptr) next = worker->choose();
    if (next != nullptr && next->stack.load(std::memory_order_relaxed) == nullptr) {
      next->stack.store(stack, std::memory_order_relaxed);
      worker->current = next;
      continue;
    }
    worker->dead_stack_ = stack;
    worker->leave(After::ended, next);
  }
}

}  // namespace mh::ult::detail
