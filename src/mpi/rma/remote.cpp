// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rma/remote.hpp"

#include <sys/uio.h>

#include <array>
#include <cstring>
#include <utility>

#include "base/say.hpp"
#include "base/settings.hpp"
#include "mpi/collective/arrivals.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/agreement.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rma/messages.hpp"
#include "mpi/rma/serving.hpp"
#include "rma/executor.hpp"
#include "rma/piece.hpp"
#include "wait/wait.hpp"

namespace mh::mpi::rma::remote {
namespace {

using messages::MessageBuffer;
using mh::rma::BoundOperation;
using mh::rma::LockMode;
using mh::rma::OperationPiece;
using mh::rma::RmaMessage;
using mh::rma::RmaMessageKind;

constexpr std::uint64_t kMostUnderWay = 64;
constexpr std::uint32_t kMostLongMessages = 64;

// Waits until is_over(), in the wait loop. Between two tests this thread itself handles messages
// from other nodes, so that an answer has its effect at once.
template <class IsOver>
void wait_until(IsOver&& is_over) {
  arrivals::wait_until([&] { return is_over() || (serve_other_nodes() && is_over()); });
}

// ---- Requests to targets of other nodes ---------------------------------------------------------

RmaMessage head_of(const Win& win, RmaMessageKind kind) {
  return {.kind = kind, .from = win.window.me(), .window = win.internode->id};
}

bool has_space(const RemoteRank& peer) {
  // relaxed: `sent` publishes nothing; threads of this rank that call MPI add to it. acquire: pairs
  // with the release in handle_answer().
  const std::uint64_t under_way =
      peer.sent.load(std::memory_order_relaxed) - peer.done.load(std::memory_order_acquire);
  return under_way < kMostUnderWay && messages::long_messages_under_way() < kMostLongMessages;
}

MessageBuffer buffer_of(std::size_t bytes) {
  MessageBuffer buffer(bytes);
  // If there is no free buffer, this thread waits: the buffer of a long message is free again once
  // the library has sent the message.
  if (buffer.empty()) wait_until([&] { return !(buffer = MessageBuffer(bytes)).empty(); });
  return buffer;
}

bool send_request(Win& win, std::uint32_t target, const RmaMessage& head, MessageBuffer buffer) {
  RemoteRank& peer = win.internode->peers[target];
  // relaxed: only threads that make the window's calls read `sent`; the RMA server (serving.hpp),
  // which runs beside them, does not.
  if (head.is_counted()) peer.sent.fetch_add(1, std::memory_order_relaxed);
  if (messages::send_message(peer.world_rank, tags::kRequests, std::move(buffer))) return true;
  if (head.is_counted()) peer.sent.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void send_step(Win& win, std::uint32_t to, const RmaMessage& head) {
  MessageBuffer buffer = buffer_of(sizeof head);
  std::memcpy(buffer.data(), &head, sizeof head);
  // If the send fails, the library has refused to send and has called the error handler. This
  // function returns no code, so flush_targets() reports the failure to the caller later.
  if (!send_request(win, to, head, std::move(buffer))) {
    win.internode->peers[to].failed.store(true, std::memory_order_relaxed);
  }
}

// Notes a result that this rank awaits from `target`, and returns the number by which the target's
// answer names it.
std::uint64_t register_result(Win& win, std::uint32_t target, AwaitedResult result) {
  win.internode->peers[target].awaited.fetch_add(1, std::memory_order_relaxed);
  const std::lock_guard<std::mutex> hold(win.internode->mutex);
  const std::uint64_t number = ++win.internode->asked;
  win.internode->results.emplace(number, std::move(result));
  return number;
}

void unregister_result(Win& win, std::uint32_t target, std::uint64_t number) {
  const std::lock_guard<std::mutex> hold(win.internode->mutex);
  win.internode->results.erase(number);
  win.internode->peers[target].awaited.fetch_sub(1, std::memory_order_relaxed);
}

// Sends a piece of an operation to its target. If `compare` is not null, the operation is
// MPI_Compare_and_swap, and this value follows the piece in the message.
Status send_piece(Win& win, const BoundOperation& operation, const OperationPiece& piece,
                  const layout::LayoutPtr& result, const void* compare) {
  const std::uint32_t target = operation.what.target;
  const RemoteRank& peer = win.internode->peers[target];
  if (!has_space(peer)) wait_until([&] { return has_space(peer); });
  RmaMessage head =
      head_of(win, compare == nullptr ? RmaMessageKind::operation : RmaMessageKind::swap);
  MessageBuffer buffer =
      buffer_of(piece.bytes() + (compare == nullptr ? 0 : operation.what.element));
  if (operation.what.has_result) {
    head.number = register_result(
        win, target, {.buffer = operation.result, .layout = result, .range = piece.range()});
  }
  piece.write(head, buffer.data());
  if (compare != nullptr) {
    std::memcpy(buffer.data() + piece.bytes(), compare, operation.what.element);
  }
  if (send_request(win, target, head, std::move(buffer))) return {};
  if (operation.what.has_result) unregister_result(win, target, head.number);
  return {Code::system, 0};
}

// A reduction that only the MPI library computes, on a target of another node. The target cannot
// compute it, because MPI handles differ between processes. The origin fetches each element,
// reduces it, and swaps the result in if the target's element is unchanged. The update is as atomic
// as any other accumulate, and slow. Limit: elements of kMostSwapped bytes.
class ElementwiseReduction {
 public:
  ElementwiseReduction(Win& win, const BoundOperation& operation)
      : win_(win), operation_(operation) {}

  Status run() {
    if (operation_.what.element > mh::rma::kMostSwapped) return {Code::misuse, 0};
    for (std::uint64_t at = 0; at < operation_.what.bytes; at += operation_.what.element) {
      const Status done = update(at);
      if (!done) return done;
    }
    return {};
  }

 private:
  using ElementBytes = std::array<std::byte, mh::rma::kMostSwapped>;

  Status update(std::uint64_t at) {
    const layout::StreamRange range{at, at + operation_.what.element};
    BoundOperation one;
    one.what = {.op = mh::rma::Op::no_op,
                .atomic = true,
                .has_result = true,
                .element = operation_.what.element,
                .target = operation_.what.target,
                .bytes = operation_.what.element};
    one.target.base = operation_.target.base;
    one.target.base.address = address_of(range);
    ElementBytes added{};
    mh::rma::pack_here(operation_.origin, range, added.data());
    ElementBytes expected{};
    one.result.mapped = expected.data();
    if (const Status fetched = ask(one, nullptr); !fetched) return fetched;
    one.what.op = mh::rma::Op::replace;
    one.what.has_origin = true;
    for (;;) {
      ElementBytes wanted = expected;
      ElementBytes before{};
      operation_.reducer.reduce(operation_.reducer.context, wanted.data(), added.data(), 1);
      one.origin.mapped = wanted.data();
      one.result.mapped = before.data();
      if (const Status swapped = ask(one, expected.data()); !swapped) return swapped;
      if (std::memcmp(before.data(), expected.data(), operation_.what.element) == 0) break;
      expected = before;
    }
    if (operation_.what.has_result) mh::rma::unpack_here(operation_.result, range, expected.data());
    return {};
  }

  Status ask(const BoundOperation& one, const void* compare) {
    const Status sent = send_operation(win_, one, nullptr, compare);
    if (!sent) return sent;
    return await_results(win_, operation_.what.target) ? Status{} : Status{Code::system, 0};
  }

  [[nodiscard]] std::uint64_t address_of(layout::StreamRange range) const {
    const mh::rma::RmaBuffer& target = operation_.target;
    if (target.layout == nullptr) return target.base.address + range.begin;
    std::array<iovec, 1> found{};
    layout::list_blocks(mh::rma::elements_there(target), range, found);
    return layout::address_of(found[0].iov_base);
  }

  Win& win_;
  const BoundOperation& operation_;
};

}  // namespace

// ---- Sending operations to targets of other nodes -----------------------------------------------

Status send_operation(Win& win, const BoundOperation& operation, const layout::LayoutPtr& result,
                      const void* compare) {
  if (operation.reducer.reduce != nullptr) return ElementwiseReduction(win, operation).run();
  if (compare != nullptr) {
    return send_piece(win, operation, OperationPiece(operation, 0, messages::kMost), result,
                      compare);
  }
  for (std::uint64_t begin = 0; begin < operation.what.bytes;) {
    const OperationPiece piece(operation, begin, messages::kMost);
    const Status sent = send_piece(win, operation, piece, result, nullptr);
    if (!sent) return sent;
    begin = piece.range().end;
  }
  return {};
}

// ---- Waiting for results, and for requests to be carried out ------------------------------------

namespace {

bool has_results(const RemoteRank& peer) {
  // acquire: pairs with the release in handle_result(), so this thread sees the result that the RMA
  // server (serving.hpp) has stored.
  return peer.awaited.load(std::memory_order_acquire) == 0;
}
bool is_done(const RemoteRank& peer) {
  // acquire: pairs with the release in handle_answer(), by which the RMA server (serving.hpp)
  // counts the requests that the target has reported as carried out.
  return peer.done.load(std::memory_order_acquire) >= peer.sent.load(std::memory_order_relaxed);
}

// Waits until is_over(peer), for the rank `target`, or for all ranks of the window if `target` is
// empty. Returns false if a request to such a rank has failed.
template <class IsOver>
bool await_peers(Win& win, std::optional<std::uint32_t> target, IsOver&& is_over) {
  bool fine = true;
  const std::uint32_t end = target ? *target + 1 : win.ranks();
  for (std::uint32_t rank = target.value_or(0); rank < end; ++rank) {
    RemoteRank& peer = win.internode->peers[rank];
    if (!is_over(peer)) wait_until([&] { return is_over(peer); });
    fine = !peer.failed.exchange(false, std::memory_order_acquire) && fine;
  }
  return fine;
}

}  // namespace

bool await_results(Win& win, std::optional<std::uint32_t> target) {
  return await_peers(win, target, has_results);
}

bool flush_targets(Win& win, std::optional<std::uint32_t> target) {
  return await_peers(win, target,
                     [](const RemoteRank& peer) { return has_results(peer) && is_done(peer); });
}

// ---- Locks, epochs and barriers over several nodes ----------------------------------------------

void lock_target(Win& win, std::uint32_t target, LockMode mode) {
  RemoteRank& peer = win.internode->peers[target];
  std::uint64_t number = 0;
  {
    const ThreadLock hold(win.mutex);
    number = ++peer.locks;
  }
  RmaMessage head = head_of(win, RmaMessageKind::lock);
  head.exclusive = mode == LockMode::exclusive;
  send_step(win, target, head);
  // acquire: pairs with the release in handle_answer(), in which the RMA server (serving.hpp) notes
  // that the target has granted the lock.
  wait_until([&] {
    return peer.granted.load(std::memory_order_acquire) >= number ||
           peer.failed.load(std::memory_order_relaxed);
  });
}

void unlock_target(Win& win, std::uint32_t target, LockMode mode) {
  RmaMessage head = head_of(win, RmaMessageKind::unlock);
  head.exclusive = mode == LockMode::exclusive;
  send_step(win, target, head);
}

void send_post(Win& win, std::uint32_t origin) {
  send_step(win, origin, head_of(win, RmaMessageKind::post));
}

void send_complete(Win& win, std::uint32_t target) {
  send_step(win, target, head_of(win, RmaMessageKind::complete));
}

// Dissemination barrier of the window's ranks: in round i each rank sends a message to the rank 2^i
// further on, and waits for the message of the rank 2^i before it.
void barrier(Win& win) {
  InternodeState& internode = *win.internode;
  const std::uint32_t me = win.window.me();
  const std::uint64_t count = ++internode.barriers;
  RmaMessage head = head_of(win, RmaMessageKind::barrier);
  for (std::uint64_t step = 1; step < win.ranks(); step *= 2, ++head.number) {
    send_step(win, static_cast<std::uint32_t>((me + step) % win.ranks()), head);
    const auto& arrived = internode.arrived[head.number];
    // acquire: pairs with the release in handle_step(), in which the RMA server (serving.hpp)
    // counts the messages of a round.
    wait_until([&] { return arrived.load(std::memory_order_acquire) >= count; });
  }
}

// ---- Start and end of windows over several nodes ------------------------------------------------

namespace {

enum Objection : int { kNone, kAlone, kUnwilling, kThreads };

Objection objection() {
  if (config.ranks == 1) return kAlone;
  if (!switches.active || !config.windows || !services.node->has_one_pid_namespace())
    return kUnwilling;
  return config.multiple ? kNone : kThreads;
}

const char* objection_text(int objection) {
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

void start_internode() {
  int size = 0;
  real.Comm_size(MPI_COMM_WORLD, &size);
  if (static_cast<std::uint32_t>(size) == config.ranks) return;  // the MPI job has one node
  const bool wanted = settings().enable && settings().windows == WindowScope::all;
  // All ranks exchange the maxima of two numbers. The first is 1 if a rank does not want windows
  // over several nodes. The second is the gravest objection of a rank (the enum is in this order).
  const int mine[2] = {wanted ? 0 : 1, wanted ? objection() : kNone};
  int all[2] = {};
  agreement::reduce(mine, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  if (all[0] != 0) return;
  if (all[1] != kNone) {
    if (config.world_rank == 0) {
      print_message("windows over several nodes stay with the MPI library: {}",
                    objection_text(all[1]));
    }
    return;
  }
  if (real.Comm_dup(MPI_COMM_WORLD, &mpi::detail::config.windows_comm) != MPI_SUCCESS) return;
  real.Comm_set_errhandler(config.windows_comm, MPI_ERRORS_RETURN);
  const bool made = start_server_thread();
  mpi::detail::config.internode_windows = agreement::all(made, config.windows_comm);
  if (config.internode_windows) return;
  if (made) stop_server_thread();
  real.Comm_free(&mpi::detail::config.windows_comm);
}

void stop_internode() {
  if (!config.internode_windows) return;
  rest_together(config.windows_comm, messages::free_sent_buffers);
  stop_server_thread();
  mpi::detail::config.internode_windows = false;
  real.Comm_free(&mpi::detail::config.windows_comm);
}

}  // namespace mh::mpi::rma::remote
