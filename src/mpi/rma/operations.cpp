// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rma/operations.hpp"

#include <algorithm>
#include <cstring>

#include "base/say.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/datatype/predefined_ops.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rma/library_reduction.hpp"
#include "mpi/rma/remote.hpp"
#include "mpi/rndv/copy.hpp"
#include "wait/wait.hpp"

namespace mh::mpi::rma {
namespace {

using mh::rma::BoundOperation;
using mh::rma::Op;
using mh::rma::RmaBuffer;

constexpr CallResult kLeftToLibrary = std::nullopt;
// The most bytes of an operation on the short paths, which carry it out at once and make no job.
constexpr std::uint64_t kMostShort = 16U << 10U;

// ---- Checks of a call's arguments ---------------------------------------------------------------

bool is_invalid(const Win& win, const TargetArgs& target) {
  const bool in_window = target.rank >= 0 && static_cast<std::uint32_t>(target.rank) < win.ranks();
  return (!in_window && target.rank != MPI_PROC_NULL) || target.count < 0 ||
         target.type == MPI_DATATYPE_NULL ||
         (target.displacement < 0 && win.flavor != Flavor::dynamic);
}
bool is_invalid(const BufferArgs& buffer) {
  return buffer.count < 0 || buffer.type == MPI_DATATYPE_NULL;
}
// True if an operation with this buffer has to go to the library, which reports the error: a type
// that is not committed, or a null buffer of a contiguous type. (With other types, null may be
// MPI_BOTTOM.) The short paths skip these checks.
bool is_unusable(const BufferArgs& buffer) {
  if (!datatypes::is_usable(buffer.type)) return true;
  return buffer.address == nullptr && buffer.count > 0 && datatypes::info(buffer.type).contiguous;
}
bool is_unusable(const TargetArgs& target) { return !datatypes::is_usable(target.type); }

// True for the predefined types that the standard allows in MPI_Compare_and_swap. For any other
// type the library is asked, since some libraries accept MPI_CHAR as well.
bool is_swapped(const elements::Element& element) {
  using mh::rma::Type;
  const bool integer = element.type >= Type::int8 && element.type <= Type::uint64;
  const bool logical = element.type >= Type::logical8 && element.type <= Type::byte8;
  return element.named && (integer || logical);
}

// Returns the code for the program if an operation must not be carried out: the target is
// MPI_PROC_NULL, or no epoch allows the access. Otherwise counts the operation and returns nothing.
CallResult early_result(Win& win, int rank) {
  if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
  {
    const ThreadLock hold(win.mutex);
    if (win.window.epochs().may_access(static_cast<std::size_t>(rank), is_strict(win))) {
      services.counters().one_sided_operations.add(1);
      return std::nullopt;
    }
  }
  return raise_error(win.handle, MPI_ERR_RMA_SYNC);
}

// ---- The buffers of an operation ----------------------------------------------------------------

// A buffer of an operation with its layout, which lives as long as this object. `buffer` gets its
// address later: an own buffer in own_buffer(), the target's buffer in carry_out().
struct TypedBuffer {
  layout::LayoutPtr held;
  RmaBuffer buffer;
  std::uint64_t bytes = 0;
  bool is_readable = false;  // false: Manyhands cannot read the type's layout
};

// Describes a buffer of `bytes` contiguous bytes. Elements with gaps inside (MPI_DOUBLE_INT) are
// moved together with their gaps.
TypedBuffer contiguous_buffer(std::uint64_t bytes) {
  TypedBuffer typed;
  typed.bytes = bytes;
  typed.is_readable = true;
  return typed;
}

// Describes a buffer of `count` elements of a type. `padded`: the elements are moved together with
// the gaps inside them (is_padded()).
TypedBuffer typed_buffer(MPI_Count count, MPI_Datatype type, bool padded) {
  const auto elements = static_cast<std::uint64_t>(count);
  const datatypes::Info info = datatypes::info(type);
  if (info.contiguous && !padded) return contiguous_buffer(info.size * elements);
  TypedBuffer typed;
  typed.held = padded ? layouts::padded_of(type) : layouts::of(type);
  if (!typed.held) return typed;
  if (typed.held->contiguous()) return contiguous_buffer(typed.held->size() * elements);
  typed.is_readable = true;
  typed.bytes = typed.held->size() * elements;
  typed.buffer.layout = typed.held.get();
  typed.buffer.count = elements;
  return typed;
}

// Returns a buffer in this rank's memory. const_cast: an origin buffer is only read; a result
// buffer is not const in the program's call.
RmaBuffer own_buffer(const TypedBuffer& typed, const void* address) {
  RmaBuffer buffer = typed.buffer;
  buffer.base = view_of(address, config.me);
  buffer.mapped = static_cast<std::byte*>(const_cast<void*>(address));
  return buffer;
}

// True if all ranks of the node reach a buffer of this rank, so that they can help with the
// operation.
bool is_reached(const RmaBuffer& buffer, std::uint64_t bytes) {
  if (config.single_copy) return true;
  const mh::rma::Extent extent = mh::rma::extent_of(buffer.layout, buffer.count, bytes);
  return config.heaps_mapped && heaps::contain(buffer.mapped + extent.low, extent.bytes());
}

// ---- Carrying out operations --------------------------------------------------------------------

// Calls the window's error handler for an operation that failed because memory was short or the
// kernel refused a copy, and returns the code.
int report_failure(const Win& win, Status why) {
  return raise_error(win.handle, why.code == Code::fault ? MPI_ERR_RMA_RANGE : MPI_ERR_OTHER);
}
int report_failure(const Win& win) { return report_failure(win, {Code::system, 0}); }
int result_of(const Win& win, Status done) {
  return done ? MPI_SUCCESS : report_failure(win, done);
}

bool run_as_job(Win& win, const BoundOperation& operation, std::uint32_t chunk) {
  bool shared = operation.target.mapped != nullptr || config.single_copy;
  if (operation.what.has_origin)
    shared = shared && is_reached(operation.origin, operation.what.bytes);
  if (operation.what.has_result)
    shared = shared && is_reached(operation.result, operation.what.bytes);
  mh::rma::OperationRun running(win.window, operation, chunk, shared);
  // This rank claims all chunks of its own operation before it helps another rank. Otherwise two
  // ranks that accumulate into one target would each carry out half of the other rank's operation,
  // which costs more.
  while (!running.all_claimed()) {
    if (running.step(thread_context())) return running.succeeded();
  }
  ThiefWatch watch;
  wait::until([&] { return advance_run(running, watch); });
  return running.succeeded();
}

// Lets the target carry out a small operation on its own memory, if this rank reaches that memory
// only through the kernel. Returns nothing if the target has not carried the operation out.
std::optional<Status> ask_target(Win& win, const BoundOperation& operation, const void* compare) {
  const bool small = operation.what.bytes <= mh::rma::ActiveMessage::kMost;
  if (operation.target.mapped != nullptr || !small || operation.reducer.reduce != nullptr)
    return std::nullopt;
  for (const RmaBuffer* buffer : {&operation.origin, &operation.target, &operation.result}) {
    if (buffer->layout != nullptr) return std::nullopt;
  }
  return win.window.ask_target(thread_context(), operation, compare);
}

// Carries out an operation whose origin and result buffers are set; finds the target buffer by
// `target` and `at`, the target buffer without its address. `result` owns the layout of the result
// buffer, if any. If `compare` is not null, the operation is MPI_Compare_and_swap with this value.
CallResult carry_out(Win& win, BoundOperation& operation, const TargetArgs& target,
                     const TypedBuffer& at, const layout::LayoutPtr& result, const void* compare) {
  if (!complete_deferred(win, static_cast<std::uint32_t>(target.rank))) return report_failure(win);
  const mh::rma::Exposed& exposed = win.window.exposed(static_cast<std::uint32_t>(target.rank));
  const std::uint64_t address =
      exposed.base + static_cast<std::uint64_t>(target.displacement) * exposed.unit;
  operation.what.target = static_cast<std::uint32_t>(target.rank);
  const auto buffer =
      win.window.target_buffer(operation.what.target, address, at.buffer.layout, at.buffer.count,
                               operation.what.bytes, *services.memory);
  if (!buffer) return raise_error(win.handle, MPI_ERR_RMA_RANGE);
  operation.target = *buffer;
  if (exposed.is_elsewhere())
    return result_of(win, remote::send_operation(win, operation, result, compare));
  operation.locks = &win.window.control().part(operation.what.target).stripes;
  if (const auto done = ask_target(win, operation, compare)) return result_of(win, *done);
  if (compare != nullptr)
    return result_of(win, thread_context().executor().compare_and_swap(operation, compare));
  const std::uint32_t chunk = operation.what.atomic
                                  ? static_cast<std::uint32_t>(mh::rma::kStripe)
                                  : services.chunking->chunk_for(operation.what.bytes);
  if (operation.what.bytes > chunk)
    return run_as_job(win, operation, chunk) ? MPI_SUCCESS : report_failure(win);
  return result_of(win, thread_context().executor().run(operation, {0, operation.what.bytes}));
}

// A short run of bytes of the target's memory, contiguous there and in this rank's buffer.
struct ShortAccess {
  std::uint64_t offset = 0;  // from the beginning of the target's exposed memory
  std::uint64_t bytes = 0;
};

// Sets `found` if the access is short, contiguous in both buffers and within the target's memory.
// Returns false otherwise: then the operation cannot take a short path.
bool is_short_access(const Win& win, const BufferArgs& buffer, const TargetArgs& target,
                     ShortAccess& found) {
  const auto own = datatypes::known(buffer.count, buffer.type);
  const auto there = datatypes::known(target.count, target.type);
  if (!own.contiguous || !there.contiguous || own.bytes != there.bytes || own.bytes > kMostShort ||
      buffer.address == nullptr) {
    return false;
  }
  const mh::rma::Exposed& exposed = win.window.exposed(static_cast<std::uint32_t>(target.rank));
  found = {static_cast<std::uint64_t>(target.displacement) * exposed.unit, own.bytes};
  return found.offset <= exposed.bytes && own.bytes <= exposed.bytes - found.offset;
}

// Returns the address of the target's bytes in this process, or null if they are not mapped.
std::byte* mapped_address(const Win& win, const TargetArgs& target, const ShortAccess& stretch) {
  std::byte* const base = win.window.exposed(static_cast<std::uint32_t>(target.rank)).mapped;
  return base == nullptr ? nullptr : base + stretch.offset;
}

// Tries to defer a put or accumulate on memory of MPI_Win_create that only the kernel reaches.
// Returns false if the operation cannot be deferred. If the result is true, `code` is the code for
// the program. `what` lacks only its target and its number of bytes.
bool defer_operation(Win& win, const void* origin, const TargetArgs& target, const ShortAccess& at,
                     mh::rma::Operation what, CallResult& code) {
  if (win.flavor != Flavor::created || at.bytes == 0) return false;
  what.target = static_cast<std::uint32_t>(target.rank);
  what.bytes = at.bytes;
  const mh::rma::Exposed& exposed = win.window.exposed(what.target);
  if (!mh::rma::DeferredList::is_short(at.bytes) || exposed.is_elsewhere()) return false;
  const memory::View address_there{exposed.base + at.offset, exposed.pid, exposed.node_rank};
  if (services.memory->here(address_there, at.bytes) != nullptr) return false;
  const ThreadLock hold(win.mutex);
  code = MPI_SUCCESS;
  if (win.window.defer(what, address_there.address, origin)) return true;
  const bool fine = win.window.carry_out_deferred(thread_context(), what.target).ok();
  if (!fine) code = report_failure(win);
  return !fine || win.window.defer(what, address_there.address, origin);
}

// Raises MPI_ERR_TYPE for a type whose layout Manyhands cannot read: only the library could move
// its elements, and the library has no part in a window of ours. Prints a message once.
CallResult report_unknown_layout(const Win& win) {
  static Once once;
  if (once()) {
    print_message(
        "a one-sided operation fails, because Manyhands cannot read its datatype; run with "
        "MH_WINDOWS=none");
  }
  return raise_error(win.handle, MPI_ERR_TYPE);
}

// True for a type whose elements have gaps inside (MPI_DOUBLE_INT). The elements travel together
// with their gaps, in all buffers of the operation.
bool is_padded(MPI_Datatype type) {
  return !datatypes::info(type).contiguous && layouts::of(type) == nullptr;
}

// Carries out an operation with an origin buffer, a result buffer, or both (else null), on as many
// bytes as all buffers have. `what` defines how elements are combined. If `compare` is not null,
// the operation is MPI_Compare_and_swap with this value.
CallResult carry_out(Win& win, const BufferArgs* origin, const BufferArgs* result,
                     const TargetArgs& target, const mh::rma::Operation& what, bool padded,
                     const mh::rma::Reducer& reducer = {}, const void* compare = nullptr) {
  const TypedBuffer there = typed_buffer(target.count, target.type, padded);
  const TypedBuffer from =
      origin != nullptr ? typed_buffer(origin->count, origin->type, padded) : there;
  const TypedBuffer into =
      result != nullptr ? typed_buffer(result->count, result->type, padded) : there;
  if (!there.is_readable || !from.is_readable || !into.is_readable)
    return report_unknown_layout(win);
  BoundOperation operation;
  operation.what = what;
  operation.what.has_origin = origin != nullptr;
  operation.what.has_result = result != nullptr;
  operation.what.bytes = std::min({there.bytes, from.bytes, into.bytes});
  if (operation.what.bytes == 0 || (origin == nullptr && result == nullptr)) return MPI_SUCCESS;
  if (origin != nullptr) operation.origin = own_buffer(from, origin->address);
  if (result != nullptr) operation.result = own_buffer(into, result->address);
  operation.reducer = reducer;
  return carry_out(win, operation, target, there, into.held, compare);
}

// ---- Accumulates --------------------------------------------------------------------------------

// True if kernel_of() has no reduction kernel (rma/reduce.hpp) for this operation and type. The MPI
// library may support the pair as an extension; then MPI_Reduce_local computes the operation.
bool is_computed_by_library(Op op, const elements::Element& element) {
  if (op == Op::replace || op == Op::no_op) return false;
  return mh::rma::kernel_of(op, element.type) == nullptr;
}

// Returns the MPI library's error for the operation or the types of an accumulate, after it has
// called the window's error handler; else MPI_SUCCESS. Asks by the same call without a target.
int error_of(const Win& win, const BufferArgs& origin, const BufferArgs* result,
             const TargetArgs& target, MPI_Op op) {
  if (result == nullptr) {
    return by_count::Accumulate(real, origin.address, origin.count, origin.type, MPI_PROC_NULL, 0,
                                target.count, target.type, op, win.handle);
  }
  return by_count::Get_accumulate(real, origin.address, origin.count, origin.type,
                                  const_cast<void*>(result->address), result->count, result->type,
                                  MPI_PROC_NULL, 0, target.count, target.type, op, win.handle);
}

// Accumulates into target memory that this process maps, under the lock of the bytes' stripe (64 KB
// of the target's addresses, rma/locks.hpp). Returns false, with nothing done, if the bytes lie in
// two stripes and so need two locks.
bool accumulate_mapped(Win& win, const BufferArgs& origin, const BufferArgs* result,
                       std::uint32_t rank, const ShortAccess& at, Op op,
                       const elements::Element& element) {
  const mh::rma::Exposed& exposed = win.window.exposed(rank);
  const std::uint64_t address = exposed.base + at.offset;
  if (address % mh::rma::kStripe + at.bytes > mh::rma::kStripe) return false;
  std::byte* const to = exposed.mapped + at.offset;
  const mh::rma::ReduceKernel kernel = mh::rma::kernel_of(op, element.type);
  mh::rma::StripeLock& lock = win.window.control().part(rank).stripes.of(address);
  lock.lock(config.me, thread_context().liveness());
  if (result != nullptr) std::memcpy(const_cast<void*>(result->address), to, at.bytes);
  if (op == Op::replace) std::memcpy(to, origin.address, at.bytes);
  if (kernel != nullptr) kernel(to, origin.address, at.bytes / element.bytes);
  lock.unlock();
  return true;
}

// Tries the short paths of an accumulate: at most kMostShort bytes, contiguous in all buffers, with
// a known operation and type. Returns false if no short path applies; else `code` is the code for
// the program.
bool accumulate_short(Win& win, const BufferArgs& origin, const BufferArgs* result,
                      const TargetArgs& target, Op op, const elements::Element& element,
                      CallResult& code) {
  const bool fetches_alone = op == Op::no_op && result != nullptr;
  const bool computable =
      op == Op::replace || fetches_alone || mh::rma::kernel_of(op, element.type) != nullptr;
  ShortAccess at;
  ShortAccess fetched;
  if (element.padded || !computable) return false;
  if (!is_short_access(win, fetches_alone ? *result : origin, target, at)) return false;
  if (result != nullptr &&
      (!is_short_access(win, *result, target, fetched) || fetched.bytes != at.bytes)) {
    return false;
  }
  if (mapped_address(win, target, at) != nullptr) {
    code = MPI_SUCCESS;
    return accumulate_mapped(win, origin, result, static_cast<std::uint32_t>(target.rank), at, op,
                             element);
  }
  const mh::rma::Operation what{
      .op = op, .type = element.type, .atomic = true, .has_origin = true, .element = element.bytes};
  return result == nullptr && defer_operation(win, origin.address, target, at, what, code);
}

CallResult accumulate_uniform(Win& win, const BufferArgs& origin, const BufferArgs* result,
                              const TargetArgs& target, Op op, MPI_Op handle,
                              const elements::Element& element) {
  if (target.count == 0) return MPI_SUCCESS;
  if (!element.uniform) return kLeftToLibrary;
  CallResult code = MPI_SUCCESS;
  if (accumulate_short(win, origin, result, target, op, element, code)) return code;
  if (is_unusable(target) || (op != Op::no_op && is_unusable(origin)) ||
      (result != nullptr && is_unusable(*result))) {
    return kLeftToLibrary;
  }
  LibraryReduction library{MPI_DATATYPE_NULL, handle};
  mh::rma::Reducer reducer;
  if (is_computed_by_library(op, element)) {
    library.type = elements::basic_of(target.type);
    if (library.is_defined()) {
      reducer = {LibraryReduction::reduce, &library};
    } else {
      op = Op::no_op;  // MPICH reports no error, and leaves the target's elements as they are
    }
  }
  const mh::rma::Operation what{
      .op = op, .type = element.type, .atomic = true, .element = element.bytes};
  return carry_out(win, op == Op::no_op ? nullptr : &origin, result, target, what, element.padded,
                   reducer);
}

}  // namespace

CallResult accumulate(Win& win, const BufferArgs& origin, const BufferArgs* result,
                      const TargetArgs& target, MPI_Op op) {
  const std::optional<Op> known = elements::op_of(op);
  if (!known || is_invalid(win, target) || (result != nullptr && is_invalid(*result))) {
    return kLeftToLibrary;
  }
  if (*known == Op::no_op ? result == nullptr : is_invalid(origin)) return kLeftToLibrary;
  const elements::Element element = elements::of(target.type);
  const bool types_differ = *known != Op::no_op && origin.type != target.type;
  if (types_differ || is_computed_by_library(*known, element)) {
    const int code = error_of(win, origin, result, target, op);
    if (code != MPI_SUCCESS) return code;
  }
  if (const CallResult stop = early_result(win, target.rank)) return stop;
  return accumulate_uniform(win, origin, result, target, *known, op, element);
}

CallResult put(Win& win, const BufferArgs& origin, const TargetArgs& target) {
  if (is_invalid(win, target) || is_invalid(origin)) return kLeftToLibrary;
  if (const CallResult stop = early_result(win, target.rank)) return stop;
  ShortAccess at;
  if (is_short_access(win, origin, target, at)) {
    if (std::byte* const to = mapped_address(win, target, at)) {
      std::memcpy(to, origin.address, at.bytes);
      return MPI_SUCCESS;
    }
    const mh::rma::Operation what{.op = Op::replace, .has_origin = true};
    CallResult deferred = MPI_SUCCESS;
    if (defer_operation(win, origin.address, target, at, what, deferred)) return deferred;
  }
  if (is_unusable(origin) || is_unusable(target)) return kLeftToLibrary;
  const bool padded = is_padded(origin.type) || is_padded(target.type);
  return carry_out(win, &origin, nullptr, target, {.op = Op::replace}, padded);
}

// const_cast, below: MPI_Get writes into its result buffer, which BufferArgs holds as const.
CallResult get(Win& win, const BufferArgs& result, const TargetArgs& target) {
  if (is_invalid(win, target) || is_invalid(result)) return kLeftToLibrary;
  if (const CallResult stop = early_result(win, target.rank)) return stop;
  ShortAccess at;
  if (is_short_access(win, result, target, at)) {
    if (const std::byte* const from = mapped_address(win, target, at)) {
      std::memcpy(const_cast<void*>(result.address), from, at.bytes);
      return MPI_SUCCESS;
    }
  }
  if (is_unusable(result) || is_unusable(target)) return kLeftToLibrary;
  const bool padded = is_padded(result.type) || is_padded(target.type);
  return carry_out(win, nullptr, &result, target, {.op = Op::no_op}, padded);
}

CallResult fetch_and_op(Win& win, const void* origin, void* result, MPI_Datatype type, int rank,
                        MPI_Aint displacement, MPI_Op op) {
  const BufferArgs into{result, 1, type};
  progress_sometimes();
  if (type == MPI_DATATYPE_NULL) return kLeftToLibrary;
  if (!elements::of(type).named || result == nullptr || (origin == nullptr && op != MPI_NO_OP)) {
    const int code = real.Fetch_and_op(origin, result, type, MPI_PROC_NULL, 0, op, win.handle);
    if (code != MPI_SUCCESS) return code;
  }
  return accumulate(win, {origin, 1, type}, &into, {rank, displacement, 1, type}, op);
}

CallResult compare_and_swap(Win& win, const void* origin, const void* compare, void* result,
                            MPI_Datatype type, int rank, MPI_Aint displacement) {
  const TargetArgs target{rank, displacement, 1, type};
  progress_sometimes();
  if (is_invalid(win, target)) return kLeftToLibrary;
  const elements::Element element = elements::of(type);
  const bool whole = origin != nullptr && compare != nullptr && result != nullptr;
  if (!whole || !is_swapped(element)) {
    const int code =
        real.Compare_and_swap(origin, compare, result, type, MPI_PROC_NULL, 0, win.handle);
    if (code != MPI_SUCCESS) return code;
  }
  if (!element.uniform || !datatypes::info(type).contiguous || element.bytes > 16)
    return kLeftToLibrary;
  if (const CallResult stop = early_result(win, rank)) return stop;
  const BufferArgs from{origin, 1, type};
  const BufferArgs into{result, 1, type};
  const mh::rma::Operation what{.op = Op::replace, .element = element.bytes};
  return carry_out(win, &from, &into, target, what, false, {}, compare);
}

bool complete_deferred_slow(Win& win, std::optional<std::uint32_t> target) {
  const ThreadLock hold(win.mutex);
  bool fine = true;
  for (std::uint32_t rank = target.value_or(0); rank < win.ranks(); ++rank) {
    fine = win.window.carry_out_deferred(thread_context(), rank).ok() && fine;
    if (target) break;
  }
  return fine;
}

CallResult with_request(MPI_Win handle, CallResult done, MPI_Request* request) {
  if (!done || *done != MPI_SUCCESS) return done;
  Win* win = find_window(handle);
  if (win->internode != nullptr && !remote::await_results(*win)) return report_failure(*win);
  return real.Isend(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, config.self_comm, request);
}

void progress_sometimes() {
  constexpr std::uint32_t kEvery = 64;
  thread_local std::uint32_t calls = 0;
  if (++calls % kEvery != 0) return;
  kick_progress();
  wait::note_failed_poll();
}

}  // namespace mh::mpi::rma
