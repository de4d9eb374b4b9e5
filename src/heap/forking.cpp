// SPDX-License-Identifier: BSD-3-Clause
#include "heap/forking.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "heap/calls.hpp"
#include "heap/system.hpp"

#ifndef __x86_64__
#error "mh_heap_call_on is for x86-64"
#endif

// Calls `call` on the stack whose highest address is `top`, and returns to the caller's stack.
// Debuggers and unwinders find the caller by rbp. The function is plain assembly and no C++
// function with inline assembly, whose compiler would not expect that a call changes registers.
extern "C" pid_t mh_heap_call_on(void* top, pid_t (*call)());
asm(R"(
  .pushsection .text
  .globl mh_heap_call_on
  .hidden mh_heap_call_on
  .type mh_heap_call_on, @function
mh_heap_call_on:
  .cfi_startproc
  endbr64
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rdi, %rsp
  callq *%rsi
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  retq
  .cfi_endproc
  .size mh_heap_call_on, . - mh_heap_call_on
  .popsection
)");

namespace mh::heap {
namespace {

constexpr char kCopied = 'c';
constexpr char kFailed = 'f';

// Bytes of the stack on which a thread calls fork() if its own stack lies in the heap. It is enough
// for fork() handlers of other libraries, too. Untouched pages cost nothing.
constexpr std::size_t kStack = 1U << 20U;

// Waits for the child's report on the pipe `from`: kCopied or kFailed; 0 if the child has ended or
// does not exist.
char hear(int from) {
  char word = 0;
  while (call::read(from, &word, 1) < 0 && errno == EINTR) {
  }
  return word;
}

void tell(int to, char word) {
  while (call::write(to, &word, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace

bool Forking::can_copy() const {
  const File& file = heap_.file();
  // A heap is retired by mapping its file copy-on-write. If the program has closed the file's
  // descriptor, that is impossible, and the child must copy the heap in any case.
  return file.descriptor() < 0 || file.resident() < memory().available;
}

// Blocks all signals of the forking thread, and so of the child: a signal handler in the child
// would see memory that is being replaced.
void Forking::prepare() {
  const KeepErrno keep;
  sigset_t all;
  sigset_t before;  // mask_ belongs to another thread until this thread holds the lock
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  entered_ = heap_.lock();
  mask_ = before;
  pipe_[0] = pipe_[1] = -1;
  if (heap_.file().shared() && (!can_copy() || ::pipe2(pipe_, O_CLOEXEC) != 0)) {
    heap_.file().retire();
  }
}

void Forking::parent() {
  const KeepErrno keep;
  if (pipe_[0] >= 0) {
    call::close(pipe_[1]);
    if (hear(pipe_[0]) == kFailed) heap_.file().retire();
    call::close(pipe_[0]);
  }
  finish();
}

void Forking::child() {
  const KeepErrno keep;
  if (pipe_[0] >= 0) {
    call::close(pipe_[0]);
    tell(pipe_[1], heap_.file().copy() ? kCopied : kFailed);
    call::close(pipe_[1]);
  }
  finish();
}

void Forking::finish() {
  const sigset_t mask = mask_;
  if (entered_) heap_.unlock();
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
}

pid_t Forking::call_off_heap_stack(Call call) {
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  if (!heap_.file().reaches(here, 1)) return call();
  void* stack = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) return -1;  // ENOMEM, which fork() may answer
  const pid_t pid = mh_heap_call_on(static_cast<std::byte*>(stack) + kStack, call);
  const KeepErrno keep;
  ::munmap(stack, kStack);
  return pid;
}

}  // namespace mh::heap
