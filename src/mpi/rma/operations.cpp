// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rma/operations.hpp"

#include <algorithm>
#include <cstring>

#include "base/say.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/transfer.hpp"
#include "mpi/rma/remote.hpp"
#include "wait/wait.hpp"

namespace mh::mpi::rma {
namespace {

using mh::rma::End;
using mh::rma::Op;
using mh::rma::Task;

constexpr Outcome kUnusual = std::nullopt;
constexpr std::uint64_t kAtOnce = 16U << 10U;  // copied without further ado

// ---- Arguments ----------------------------------------------------------------------------------

std::optional<Op> op_of(MPI_Op op) {
  if (op == MPI_SUM) return Op::sum;
  if (op == MPI_REPLACE) return Op::replace;
  if (op == MPI_NO_OP) return Op::no_op;
  if (op == MPI_MAX) return Op::max;
  if (op == MPI_MIN) return Op::min;
  if (op == MPI_PROD) return Op::prod;
  if (op == MPI_LAND) return Op::land;
  if (op == MPI_BAND) return Op::band;
  if (op == MPI_LOR) return Op::lor;
  if (op == MPI_BOR) return Op::bor;
  if (op == MPI_LXOR) return Op::lxor;
  if (op == MPI_BXOR) return Op::bxor;
  if (op == MPI_MAXLOC) return Op::maxloc;
  if (op == MPI_MINLOC) return Op::minloc;
  return std::nullopt;
}

bool is_unusual(const Win& win, const Target& target) {
  const bool in_window = target.rank >= 0 && static_cast<std::uint32_t>(target.rank) < win.ranks();
  return (!in_window && target.rank != MPI_PROC_NULL) || target.count < 0 ||
         target.type == MPI_DATATYPE_NULL ||
         (target.displacement < 0 && win.flavor != Flavor::dynamic);
}
bool is_unusual(const Buffer& buffer) {
  return buffer.count < 0 || buffer.type == MPI_DATATYPE_NULL;
}
// What the short ways do not meet: a type that is not committed, and no buffer where elements begin
// at it (elsewhere it is MPI_BOTTOM).
bool is_unusable(const Buffer& buffer) {
  if (!datatypes::is_usable(buffer.type)) return true;
  return buffer.address == nullptr && buffer.count > 0 && datatypes::info(buffer.type).contiguous;
}
bool is_unusable(const Target& target) { return !datatypes::is_usable(target.type); }

// The predefined types that the standard has for MPI_Compare_and_swap, MPI_CHAR aside.
bool is_swapped(const elements::Element& element) {
  using mh::rma::Type;
  const bool integer = element.type >= Type::int8 && element.type <= Type::uint64;
  const bool logical = element.type >= Type::logical8 && element.type <= Type::byte8;
  return element.named && (integer || logical);
}

// What an operation to that rank returns at once: there is nobody, or no epoch allows it. Nothing
// if it may be; then it is counted.
Outcome stopped(Win& win, int rank) {
  if (rank == MPI_PROC_NULL) return MPI_SUCCESS;
  {
    const ThreadLock hold(win.mutex);
    if (win.window.epochs().may_access(static_cast<std::size_t>(rank), strict(win))) {
      services.counters().one_sided_operations.add(1);
      return std::nullopt;
    }
  }
  return raise(win.handle, MPI_ERR_RMA_SYNC);
}

// ---- Ends ---------------------------------------------------------------------------------------

// A side of an operation. Its layout lives as long as the side.
struct Side {
  layout::LayoutPtr held;
  End end;
  std::uint64_t bytes = 0;
  bool known = false;  // its places are
};

// Elements of a type with gaps inside its basic elements are moved gaps and all.
Side contiguous_side(std::uint64_t bytes) {
  Side side;
  side.bytes = bytes;
  side.known = true;
  return side;
}

Side side_of(MPI_Count count, MPI_Datatype type, bool padded) {
  const auto elements = static_cast<std::uint64_t>(count);
  const datatypes::Info info = datatypes::info(type);
  if (info.contiguous && !padded) return contiguous_side(info.size * elements);
  Side side;
  side.held = padded ? layouts::padded_of(type) : layouts::of(type);
  if (!side.held) return side;
  if (side.held->contiguous()) return contiguous_side(side.held->size() * elements);
  side.known = true;
  side.bytes = side.held->size() * elements;
  side.end.layout = side.held.get();
  side.end.count = elements;
  return side;
}

// const_cast: the end of an origin is only read.
End own_end(const Side& side, const void* address) {
  End end = side.end;
  end.base = view_of(address, config.me);
  end.here = static_cast<std::byte*>(const_cast<void*>(address));
  return end;
}

// Whether all ranks of the window reach an end of this rank.
bool is_reached(const End& end, std::uint64_t bytes) {
  if (config.reaching) return true;
  const mh::rma::Extent extent = mh::rma::extent_of(end.layout, end.count, bytes);
  return config.mapping && heaps::hold(end.here + extent.low, extent.bytes());
}

// ---- Carrying out -------------------------------------------------------------------------------

// What could not be done, for want of memory there or because the kernel refuses.
int failed(const Win& win, Status why) {
  return raise(win.handle, why.code == Code::fault ? MPI_ERR_RMA_RANGE : MPI_ERR_OTHER);
}
int failed(const Win& win) { return failed(win, {Code::system, 0}); }
int outcome(const Win& win, Status done) { return done ? MPI_SUCCESS : failed(win, done); }

bool run_by_many(Win& win, const Task& task, std::uint32_t chunk) {
  bool shared = task.target.here != nullptr || config.reaching;
  if (task.what.has_origin) shared = shared && is_reached(task.origin, task.what.bytes);
  if (task.what.has_result) shared = shared && is_reached(task.result, task.what.bytes);
  mh::rma::Running running(win.window, task, chunk, shared);
  // All of the own chunks before one of another rank's: two ranks that accumulate into one would
  // otherwise each do half of the other's, at more than the price of its own.
  while (!running.all_claimed()) {
    if (running.step(hands())) return running.succeeded();
  }
  Watch watch;
  wait::until([&] { return advance(running, watch); });
  return running.succeeded();
}

// Memory that only the kernel reaches, and few bytes: the target does it, if it is in MPI.
std::optional<Status> by_target(Win& win, const Task& task, const void* compare) {
  const bool small = task.what.bytes <= mh::rma::ActiveMessage::kMost;
  if (task.target.here != nullptr || !small || task.reducer.reduce != nullptr) return std::nullopt;
  for (const End* end : {&task.origin, &task.target, &task.result}) {
    if (end->layout != nullptr) return std::nullopt;
  }
  return win.window.ask_target(hands(), task, compare);
}

// With the target's end filled in by the operation's displacement. `result` has the layout of the
// result's end, if there is one. With `compare` the task is a swap.
Outcome carry_out(Win& win, Task& task, const Target& target, const Side& at,
                  const layout::LayoutPtr& result, const void* compare) {
  if (!complete_kept(win, static_cast<std::uint32_t>(target.rank))) return failed(win);
  const mh::rma::Exposed& exposed = win.window.exposed(static_cast<std::uint32_t>(target.rank));
  const std::uint64_t address =
      exposed.base + static_cast<std::uint64_t>(target.displacement) * exposed.unit;
  task.what.target = static_cast<std::uint32_t>(target.rank);
  const auto end = win.window.target_end(task.what.target, address, at.end.layout, at.end.count,
                                         task.what.bytes, *services.memory);
  if (!end) return raise(win.handle, MPI_ERR_RMA_RANGE);
  task.target = *end;
  if (exposed.is_elsewhere()) return outcome(win, remote::carry_out(win, task, result, compare));
  task.locks = &win.window.control().part(task.what.target).stripes;
  if (const auto done = by_target(win, task, compare)) return outcome(win, *done);
  if (compare != nullptr) return outcome(win, hands().executor().compare_and_swap(task, compare));
  const std::uint32_t chunk = task.what.atomic ? static_cast<std::uint32_t>(mh::rma::kStripe)
                                               : services.chunking->chunk_for(task.what.bytes);
  if (task.what.bytes > chunk) return run_by_many(win, task, chunk) ? MPI_SUCCESS : failed(win);
  return outcome(win, hands().executor().run(task, {0, task.what.bytes}));
}

// Few bytes of a window, contiguous there and on this side.
struct Stretch {
  std::uint64_t offset = 0;  // in what the target has exposed
  std::uint64_t bytes = 0;
};

// The beginning of the short ways. False where they are not to be gone.
bool is_stretch(const Win& win, const Buffer& buffer, const Target& target, Stretch& found) {
  const auto own = datatypes::known(buffer.count, buffer.type);
  const auto there = datatypes::known(target.count, target.type);
  if (!own.contiguous || !there.contiguous || own.bytes != there.bytes || own.bytes > kAtOnce ||
      buffer.address == nullptr) {
    return false;
  }
  const mh::rma::Exposed& exposed = win.window.exposed(static_cast<std::uint32_t>(target.rank));
  found = {static_cast<std::uint64_t>(target.displacement) * exposed.unit, own.bytes};
  return found.offset <= exposed.bytes && own.bytes <= exposed.bytes - found.offset;
}

// Where loads and stores reach a stretch; null where they do not.
std::byte* here(const Win& win, const Target& target, const Stretch& stretch) {
  std::byte* const base = win.window.exposed(static_cast<std::uint32_t>(target.rank)).here;
  return base == nullptr ? nullptr : base + stretch.offset;
}

// An operation without a result on created memory that only the kernel reaches: kept. False where
// it is not to be; else `outcome` is set. `what` without bytes and target.
bool keep(Win& win, const void* origin, const Target& target, const Stretch& at,
          mh::rma::Operation what, Outcome& outcome) {
  if (win.flavor != Flavor::created || at.bytes == 0) return false;
  what.target = static_cast<std::uint32_t>(target.rank);
  what.bytes = at.bytes;
  const mh::rma::Exposed& exposed = win.window.exposed(what.target);
  if (!mh::rma::KeptList::is_short(at.bytes) || exposed.is_elsewhere()) return false;
  const memory::View place{exposed.base + at.offset, exposed.pid, exposed.node_rank};
  if (services.memory->here(place, at.bytes) != nullptr) return false;
  const ThreadLock hold(win.mutex);
  outcome = MPI_SUCCESS;
  if (win.window.keep(what, place.address, origin)) return true;
  const bool fine = win.window.carry_out_kept(hands(), what.target).ok();
  if (!fine) outcome = failed(win);
  return !fine || win.window.keep(what, place.address, origin);
}

// Types whose places are not known, which only the library could move.
Outcome unknown_places(const Win& win) {
  static Once once;
  if (once()) say("a datatype of a one-sided operation cannot be read, so the operation fails");
  return raise(win.handle, MPI_ERR_TYPE);
}

// Elements with gaps inside (MPI_DOUBLE_INT) travel gaps and all, at all ends alike.
bool is_padded(MPI_Datatype type) {
  return !datatypes::info(type).contiguous && layouts::of(type) == nullptr;
}

// Of as many bytes as all sides have: an operation with `origin`, with `result`, or both. `what`
// says what becomes of the elements; padded ones travel gaps and all. With `compare` it is a swap.
Outcome carry_out(Win& win, const Buffer* origin, const Buffer* result, const Target& target,
                  const mh::rma::Operation& what, bool padded, const mh::rma::Reducer& reducer = {},
                  const void* compare = nullptr) {
  const Side there = side_of(target.count, target.type, padded);
  const Side from = origin != nullptr ? side_of(origin->count, origin->type, padded) : there;
  const Side into = result != nullptr ? side_of(result->count, result->type, padded) : there;
  if (!there.known || !from.known || !into.known) return unknown_places(win);
  Task task;
  task.what = what;
  task.what.has_origin = origin != nullptr;
  task.what.has_result = result != nullptr;
  task.what.bytes = std::min({there.bytes, from.bytes, into.bytes});
  if (task.what.bytes == 0 || (origin == nullptr && result == nullptr)) return MPI_SUCCESS;
  if (origin != nullptr) task.origin = own_end(from, origin->address);
  if (result != nullptr) task.result = own_end(into, result->address);
  task.reducer = reducer;
  return carry_out(win, task, target, there, into.held, compare);
}

// ---- Accumulates --------------------------------------------------------------------------------

// What the library has to be asked for: MPI_Reduce_local on copies.
struct ByLibrary {
  MPI_Datatype type;
  MPI_Op op;

  static void reduce(const void* context, void* target, const void* origin, std::size_t elements) {
    const auto* self = static_cast<const ByLibrary*>(context);
    real.Reduce_local(const_cast<void*>(origin), target, static_cast<int>(elements), self->type,
                      self->op);
  }
};

// What is not in the standard's table may be an extension of the library: it is asked, and says so
// if it is not.
bool is_computed_by_library(Op op, const elements::Element& element) {
  if (op == Op::replace || op == Op::no_op) return false;
  return mh::rma::kernel_of(op, element.type) == nullptr;
}

// On a stretch that loads and stores reach, and that lies in one stripe.
bool accumulate_at_once(Win& win, const Buffer& origin, const Buffer* result, std::uint32_t rank,
                        const Stretch& at, Op op, const elements::Element& element) {
  const mh::rma::Exposed& exposed = win.window.exposed(rank);
  const std::uint64_t address = exposed.base + at.offset;
  if (address % mh::rma::kStripe + at.bytes > mh::rma::kStripe) return false;
  std::byte* const to = exposed.here + at.offset;
  const mh::rma::Kernel kernel = mh::rma::kernel_of(op, element.type);
  mh::rma::StripeLock& lock = win.window.control().part(rank).stripes.of(address);
  lock.lock(config.me, hands().liveness());
  if (result != nullptr) std::memcpy(const_cast<void*>(result->address), to, at.bytes);
  if (op == Op::replace) std::memcpy(to, origin.address, at.bytes);
  if (kernel != nullptr) kernel(to, origin.address, at.bytes / element.bytes);
  lock.unlock();
  return true;
}

// The short ways of an accumulate: one run of few bytes here and there, known operation and type.
// False where they are not to be gone; else `outcome` is set.
bool accumulate_short(Win& win, const Buffer& origin, const Buffer* result, const Target& target,
                      Op op, const elements::Element& element, Outcome& outcome) {
  const bool fetches_alone = op == Op::no_op && result != nullptr;
  const bool computable =
      op == Op::replace || fetches_alone || mh::rma::kernel_of(op, element.type) != nullptr;
  Stretch at;
  Stretch fetched;
  if (element.padded || !computable) return false;
  if (!is_stretch(win, fetches_alone ? *result : origin, target, at)) return false;
  if (result != nullptr &&
      (!is_stretch(win, *result, target, fetched) || fetched.bytes != at.bytes)) {
    return false;
  }
  if (here(win, target, at) != nullptr) {
    outcome = MPI_SUCCESS;
    return accumulate_at_once(win, origin, result, static_cast<std::uint32_t>(target.rank), at, op,
                              element);
  }
  const mh::rma::Operation what{
      .op = op, .type = element.type, .atomic = true, .has_origin = true, .element = element.bytes};
  return result == nullptr && keep(win, origin.address, target, at, what, outcome);
}

Outcome accumulate_uniform(Win& win, const Buffer& origin, const Buffer* result,
                           const Target& target, Op op, MPI_Op handle) {
  const elements::Element element = elements::of(target.type);
  if (target.count == 0) return MPI_SUCCESS;
  if (!element.uniform) return kUnusual;
  Outcome outcome = MPI_SUCCESS;
  if (accumulate_short(win, origin, result, target, op, element, outcome)) return outcome;
  if (is_unusable(target) || (op != Op::no_op && is_unusable(origin)) ||
      (result != nullptr && is_unusable(*result))) {
    return kUnusual;
  }
  ByLibrary library{MPI_DATATYPE_NULL, handle};
  mh::rma::Reducer reducer;
  if (is_computed_by_library(op, element)) {
    library.type = elements::basic_of(target.type);
    reducer = {ByLibrary::reduce, &library};
  }
  const mh::rma::Operation what{
      .op = op, .type = element.type, .atomic = true, .element = element.bytes};
  return carry_out(win, op == Op::no_op ? nullptr : &origin, result, target, what, element.padded,
                   reducer);
}

}  // namespace

Outcome accumulate(Win& win, const Buffer& origin, const Buffer* result, const Target& target,
                   MPI_Op op) {
  const std::optional<Op> known = op_of(op);
  if (!known || is_unusual(win, target) || (result != nullptr && is_unusual(*result))) {
    return kUnusual;
  }
  if (*known == Op::no_op ? result == nullptr : is_unusual(origin)) return kUnusual;
  if (const Outcome stop = stopped(win, target.rank)) return stop;
  return accumulate_uniform(win, origin, result, target, *known, op);
}

Outcome put(Win& win, const Buffer& origin, const Target& target) {
  if (is_unusual(win, target) || is_unusual(origin)) return kUnusual;
  if (const Outcome stop = stopped(win, target.rank)) return stop;
  Stretch at;
  if (is_stretch(win, origin, target, at)) {
    if (std::byte* const to = here(win, target, at)) {
      std::memcpy(to, origin.address, at.bytes);
      return MPI_SUCCESS;
    }
    const mh::rma::Operation what{.op = Op::replace, .has_origin = true};
    Outcome kept = MPI_SUCCESS;
    if (keep(win, origin.address, target, at, what, kept)) return kept;
  }
  if (is_unusable(origin) || is_unusable(target)) return kUnusual;
  const bool padded = is_padded(origin.type) || is_padded(target.type);
  return carry_out(win, &origin, nullptr, target, {.op = Op::replace}, padded);
}

// const_cast: a result is written.
Outcome get(Win& win, const Buffer& result, const Target& target) {
  if (is_unusual(win, target) || is_unusual(result)) return kUnusual;
  if (const Outcome stop = stopped(win, target.rank)) return stop;
  Stretch at;
  if (is_stretch(win, result, target, at)) {
    if (const std::byte* const from = here(win, target, at)) {
      std::memcpy(const_cast<void*>(result.address), from, at.bytes);
      return MPI_SUCCESS;
    }
  }
  if (is_unusable(result) || is_unusable(target)) return kUnusual;
  const bool padded = is_padded(result.type) || is_padded(target.type);
  return carry_out(win, nullptr, &result, target, {.op = Op::no_op}, padded);
}

Outcome fetch_and_op(Win& win, const void* origin, void* result, MPI_Datatype type, int rank,
                     MPI_Aint displacement, MPI_Op op) {
  const Buffer into{result, 1, type};
  progress_sometimes();
  if (!elements::of(type).named || result == nullptr || (origin == nullptr && op != MPI_NO_OP)) {
    const int code = real.Fetch_and_op(origin, result, type, MPI_PROC_NULL, 0, op, win.handle);
    if (code != MPI_SUCCESS) return code;
  }
  return accumulate(win, {origin, 1, type}, &into, {rank, displacement, 1, type}, op);
}

Outcome compare_and_swap(Win& win, const void* origin, const void* compare, void* result,
                         MPI_Datatype type, int rank, MPI_Aint displacement) {
  const Target target{rank, displacement, 1, type};
  progress_sometimes();
  if (is_unusual(win, target)) return kUnusual;
  const elements::Element element = elements::of(type);
  const bool whole = origin != nullptr && compare != nullptr && result != nullptr;
  if (!whole || !is_swapped(element)) {
    const int code =
        real.Compare_and_swap(origin, compare, result, type, MPI_PROC_NULL, 0, win.handle);
    if (code != MPI_SUCCESS) return code;
  }
  if (!element.uniform || !datatypes::info(type).contiguous || element.bytes > 16) return kUnusual;
  if (const Outcome stop = stopped(win, rank)) return stop;
  const Buffer from{origin, 1, type};
  const Buffer into{result, 1, type};
  const mh::rma::Operation what{.op = Op::replace, .element = element.bytes};
  return carry_out(win, &from, &into, target, what, false, {}, compare);
}

bool complete_kept_slow(Win& win, std::optional<std::uint32_t> target) {
  const ThreadLock hold(win.mutex);
  bool fine = true;
  for (std::uint32_t rank = target.value_or(0); rank < win.ranks(); ++rank) {
    fine = win.window.carry_out_kept(hands(), rank).ok() && fine;
    if (target) break;
  }
  return fine;
}

Outcome with_request(MPI_Win handle, Outcome done, MPI_Request* request) {
  if (!done || *done != MPI_SUCCESS) return done;
  Win* win = find(handle);
  if (win->spanning != nullptr && !remote::await_results(*win)) return failed(*win);
  return real.Isend(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, config.self_comm, request);
}

void progress_sometimes() {
  constexpr std::uint32_t kEvery = 64;
  thread_local std::uint32_t calls = 0;
  if (++calls % kEvery != 0) return;
  kick_progress();
  wait::polled_in_vain();
}

}  // namespace mh::mpi::rma
