// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rma/remote.hpp"

#include <sys/uio.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/say.hpp"
#include "base/settings.hpp"
#include "mpi/collective/arrivals.hpp"
#include "mpi/job/agreement.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/rma/messages.hpp"
#include "mpi/rma/serving.hpp"
#include "rma/executor.hpp"
#include "rma/piece.hpp"
#include "wait/wait.hpp"

namespace mh::mpi::rma::remote {
namespace {

using messages::Buffer;
using mh::rma::LockMode;
using mh::rma::Message;
using mh::rma::Piece;
using mh::rma::Task;

constexpr std::uint64_t kMostUnderWay = 64;
constexpr std::uint32_t kMostLongOnes = 64;

// A look serves, so that what is waited for is seen at once.
template <class Done>
void wait_until(Done&& done) {
  arrivals::wait_until([&] { return done() || (serve_other_nodes() && done()); });
}

// ---- Requests -----------------------------------------------------------------------------------

Message head_of(const Win& win, Message::Kind kind) {
  return {.kind = kind, .from = win.window.me(), .window = win.spanning->id};
}

bool has_room(const Peer& peer) {
  // relaxed, acquire: what this thread has sent; pairs with the release in take_answer().
  const std::uint64_t under_way =
      peer.sent.load(std::memory_order_relaxed) - peer.done.load(std::memory_order_acquire);
  return under_way < kMostUnderWay && messages::long_ones() < kMostLongOnes;
}

Buffer buffer_of(std::size_t bytes) {
  Buffer buffer(bytes);
  // Long ones come back when messages were taken.
  if (buffer.empty()) wait_until([&] { return !(buffer = Buffer(bytes)).empty(); });
  return buffer;
}

bool send(Win& win, std::uint32_t target, const Message& head, Buffer buffer) {
  Peer& peer = win.spanning->peers[target];
  // relaxed: read by callers alone.
  if (head.is_counted()) peer.sent.fetch_add(1, std::memory_order_relaxed);
  if (messages::send(peer.world_rank, tags::kRequests, std::move(buffer))) return true;
  if (head.is_counted()) peer.sent.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void send_step(Win& win, std::uint32_t to, const Message& head) {
  Buffer buffer = buffer_of(sizeof head);
  std::memcpy(buffer.data(), &head, sizeof head);
  // Where the library refuses, it has told its error handler, and whoever waits is told by flush().
  if (!send(win, to, head, std::move(buffer))) {
    win.spanning->peers[to].failed.store(true, std::memory_order_relaxed);
  }
}

// The number of a request with that result.
std::uint64_t await(Win& win, std::uint32_t target, AwaitedResult result) {
  win.spanning->peers[target].awaited.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard<std::mutex> hold(win.spanning->mutex);
  const std::uint64_t number = ++win.spanning->asked;
  win.spanning->results.emplace(number, std::move(result));
  return number;
}

void forget(Win& win, std::uint32_t target, std::uint64_t number) {
  const std::lock_guard<std::mutex> hold(win.spanning->mutex);
  win.spanning->results.erase(number);
  win.spanning->peers[target].awaited.fetch_sub(1, std::memory_order_relaxed);
}

// Sends a piece, with `compare` behind it where it swaps.
Status send_piece(Win& win, const Task& task, const Piece& piece, const layout::LayoutPtr& result,
                  const void* compare) {
  const std::uint32_t target = task.what.target;
  const Peer& peer = win.spanning->peers[target];
  if (!has_room(peer)) wait_until([&] { return has_room(peer); });
  Message head = head_of(win, compare == nullptr ? Message::Kind::operation : Message::Kind::swap);
  Buffer buffer = buffer_of(piece.bytes() + (compare == nullptr ? 0 : task.what.element));
  if (task.what.has_result) {
    head.number =
        await(win, target, {.place = task.result, .layout = result, .range = piece.range()});
  }
  piece.write(head, buffer.data());
  if (compare != nullptr) {
    std::memcpy(buffer.data() + piece.bytes(), compare, task.what.element);
  }
  if (send(win, target, head, std::move(buffer))) return {};
  if (task.what.has_result) forget(win, target, head.number);
  return {Code::system, 0};
}

// A reduction that only the MPI library computes: the target cannot ask its own, where handles are
// other words. So each element is fetched, reduced here, and swapped in if it is still what was
// fetched; atomic as any other accumulate, and slow. Limit: elements of kMostSwapped bytes.
class ByElements {
 public:
  ByElements(Win& win, const Task& task) : win_(win), task_(task) {}

  Status run() {
    if (task_.what.element > mh::rma::kMostSwapped) return {Code::misuse, 0};
    for (std::uint64_t at = 0; at < task_.what.bytes; at += task_.what.element) {
      const Status done = update(at);
      if (!done) return done;
    }
    return {};
  }

 private:
  using Bytes = std::array<std::byte, mh::rma::kMostSwapped>;

  Status update(std::uint64_t at) {
    const layout::Range range{at, at + task_.what.element};
    Task one;
    one.what = {.op = mh::rma::Op::no_op,
                .atomic = true,
                .has_result = true,
                .element = task_.what.element,
                .target = task_.what.target,
                .bytes = task_.what.element};
    one.target.base = task_.target.base;
    one.target.base.address = address_of(range);
    Bytes added{};
    mh::rma::pack_here(task_.origin, range, added.data());
    Bytes expected{};
    one.result.here = expected.data();
    if (const Status fetched = ask(one, nullptr); !fetched) return fetched;
    one.what.op = mh::rma::Op::replace;
    one.what.has_origin = true;
    for (;;) {
      Bytes wanted = expected;
      Bytes before{};
      task_.reducer.reduce(task_.reducer.context, wanted.data(), added.data(), 1);
      one.origin.here = wanted.data();
      one.result.here = before.data();
      if (const Status swapped = ask(one, expected.data()); !swapped) return swapped;
      if (std::memcmp(before.data(), expected.data(), task_.what.element) == 0) break;
      expected = before;
    }
    if (task_.what.has_result) mh::rma::unpack_here(task_.result, range, expected.data());
    return {};
  }

  Status ask(const Task& one, const void* compare) {
    const Status sent = carry_out(win_, one, nullptr, compare);
    if (!sent) return sent;
    return await_results(win_, task_.what.target) ? Status{} : Status{Code::system, 0};
  }

  [[nodiscard]] std::uint64_t address_of(layout::Range range) const {
    const mh::rma::End& target = task_.target;
    if (target.layout == nullptr) return target.base.address + range.begin;
    std::array<iovec, 1> found{};
    layout::blocks(mh::rma::elements_there(target), range, found);
    return layout::address_of(found[0].iov_base);
  }

  Win& win_;
  const Task& task_;
};

}  // namespace

// ---- Operations ---------------------------------------------------------------------------------

Status carry_out(Win& win, const Task& task, const layout::LayoutPtr& result, const void* compare) {
  if (task.reducer.reduce != nullptr) return ByElements(win, task).run();
  if (compare != nullptr) {
    return send_piece(win, task, Piece(task, 0, messages::kMost), result, compare);
  }
  for (std::uint64_t begin = 0; begin < task.what.bytes;) {
    const Piece piece(task, begin, messages::kMost);
    const Status sent = send_piece(win, task, piece, result, nullptr);
    if (!sent) return sent;
    begin = piece.range().end;
  }
  return {};
}

// ---- Completion ---------------------------------------------------------------------------------

namespace {

bool has_results(const Peer& peer) {
  // acquire: pairs with the release in take_result().
  return peer.awaited.load(std::memory_order_acquire) == 0;
}
bool is_done(const Peer& peer) {
  // acquire: pairs with the release in take_answer().
  return peer.done.load(std::memory_order_acquire) >= peer.sent.load(std::memory_order_relaxed);
}

// Until done(peer), of one target or of all. False if something has failed.
template <class Done>
bool await_peers(Win& win, std::optional<std::uint32_t> target, Done&& done) {
  bool fine = true;
  const std::uint32_t end = target ? *target + 1 : win.ranks();
  for (std::uint32_t rank = target.value_or(0); rank < end; ++rank) {
    Peer& peer = win.spanning->peers[rank];
    if (!done(peer)) wait_until([&] { return done(peer); });
    fine = !peer.failed.exchange(false, std::memory_order_acquire) && fine;
  }
  return fine;
}

}  // namespace

bool await_results(Win& win, std::optional<std::uint32_t> target) {
  return await_peers(win, target, has_results);
}

bool flush(Win& win, std::optional<std::uint32_t> target) {
  return await_peers(win, target,
                     [](const Peer& peer) { return has_results(peer) && is_done(peer); });
}

// ---- Synchronisation ----------------------------------------------------------------------------

void lock(Win& win, std::uint32_t target, LockMode mode) {
  Peer& peer = win.spanning->peers[target];
  std::uint64_t number = 0;
  {
    const ThreadLock hold(win.mutex);
    number = ++peer.locks;
  }
  Message head = head_of(win, Message::Kind::lock);
  head.exclusive = mode == LockMode::exclusive;
  send_step(win, target, head);
  // acquire: pairs with the release in take_answer().
  wait_until([&] {
    return peer.granted.load(std::memory_order_acquire) >= number ||
           peer.failed.load(std::memory_order_relaxed);
  });
}

void unlock(Win& win, std::uint32_t target, LockMode mode) {
  Message head = head_of(win, Message::Kind::unlock);
  head.exclusive = mode == LockMode::exclusive;
  send_step(win, target, head);
}

void post(Win& win, std::uint32_t origin) {
  send_step(win, origin, head_of(win, Message::Kind::post));
}

void complete(Win& win, std::uint32_t target) {
  send_step(win, target, head_of(win, Message::Kind::complete));
}

// In each round a rank tells another, twice as far away each time, that it and those behind it have
// come.
void barrier(Win& win) {
  Spanning& spanning = *win.spanning;
  const std::uint32_t me = win.window.me();
  const std::uint64_t count = ++spanning.barriers;
  Message head = head_of(win, Message::Kind::barrier);
  for (std::uint64_t step = 1; step < win.ranks(); step *= 2, ++head.number) {
    send_step(win, static_cast<std::uint32_t>((me + step) % win.ranks()), head);
    const auto& arrived = spanning.arrived[head.number];
    // acquire: pairs with the release in take_step().
    wait_until([&] { return arrived.load(std::memory_order_acquire) >= count; });
  }
}

// ---- Start and end ------------------------------------------------------------------------------

namespace {

enum Objection : int { kNone, kAlone, kUnwilling, kThreads };

Objection objection() {
  if (config.ranks == 1) return kAlone;
  if (!switches.active || !config.windows || !services.node->one_pid_namespace()) return kUnwilling;
  return config.multiple ? kNone : kThreads;
}

const char* words_of(int objection) {
  switch (objection) {
    case kAlone:
      return "a node has one rank";
    case kThreads:
      return "the MPI library has not granted MPI_THREAD_MULTIPLE";
    default:
      return "not all nodes help with messages";
  }
}

}  // namespace

void start() {
  int size = 0;
  real.Comm_size(MPI_COMM_WORLD, &size);
  if (static_cast<std::uint32_t>(size) == config.ranks) return;  // so it is for every rank, or none
  const bool wanted = settings().enable && settings().windows == WindowScope::all;
  // Of both the largest: whether somebody does not want it, and what speaks against it.
  const int mine[2] = {wanted ? 0 : 1, wanted ? objection() : kNone};
  int all[2] = {};
  agreement::reduce(mine, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (all[0] != 0) return;
  if (all[1] != kNone) {
    if (config.world_rank == 0) {
      say("windows over several nodes stay the MPI library's: {}", words_of(all[1]));
    }
    return;
  }
  if (real.Comm_dup(MPI_COMM_WORLD, &mpi::detail::config.windows_comm) != MPI_SUCCESS) return;
  real.Comm_set_errhandler(config.windows_comm, MPI_ERRORS_RETURN);
  const bool made = start_server_thread();
  mpi::detail::config.spanning = agreement::all(made, config.windows_comm);
  if (config.spanning) return;
  if (made) stop_server_thread();
  real.Comm_free(&mpi::detail::config.windows_comm);
}

void stop() {
  if (!config.spanning) return;
  rest_together(config.windows_comm, messages::reap);
  stop_server_thread();
  mpi::detail::config.spanning = false;
  real.Comm_free(&mpi::detail::config.windows_comm);
}

}  // namespace mh::mpi::rma::remote
