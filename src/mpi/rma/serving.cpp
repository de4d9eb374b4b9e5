// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rma/serving.hpp"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/tuning.hpp"
#include "lend/threads.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/heaps.hpp"
#include "mpi/job/services.hpp"
#include "mpi/rma/messages.hpp"
#include "mpi/rma/windows.hpp"
#include "rma/piece.hpp"

namespace mh::mpi::rma {
namespace {

using messages::MessageBuffer;
using messages::MessageInbox;
using mh::rma::LockMode;
using mh::rma::RmaMessage;
using mh::rma::RmaMessageKind;
using WinPtr = std::shared_ptr<Win>;

// The most bytes that a thread moves in one call of serve_other_nodes(), a turn: about 20 us, after
// which a waiting thread tests its own condition again.
constexpr std::uint64_t kMostATurn = 64U << 10U;
constexpr int kMostRequestsATurn = 16;

// The request of a rank on another node that this rank is carrying out, chunk by chunk.
struct CurrentRequest {
  WinPtr win;
  MessageBuffer request;
  MessageBuffer answer;  // empty without a result
  std::optional<mh::rma::PieceRun> run;
  ThiefWatch watch;

  [[nodiscard]] const RmaMessage& head() const { return messages::head_of(request); }
};

// A rank of another node that waits for the lock of this rank's memory (MPI_Win_lock).
struct LockRequest {
  WinPtr win;
  std::uint32_t from;
  std::uint32_t number;
  LockMode mode;
};

struct TargetServer {
  std::atomic<std::uint64_t> last_turn{0};  // ticks. relaxed: a hint
  std::mutex mutex;                         // guards the members below
  MessageInbox requests{tags::kRequests};
  MessageInbox answers{tags::kAnswers};
  std::unique_ptr<CurrentRequest> current;
  std::vector<LockRequest> waiting;
  std::vector<std::pair<WinPtr, std::uint32_t>> to_report;  // ranks to which a `done` may be due
  int requests_left = 0;                                    // that this turn may still begin
  std::uint64_t bytes_left = 0;                             // that this turn may still move
};

// Never destroyed: a program may call exit() while messages from other nodes are under way.
TargetServer& g_server = *new TargetServer;

RemoteRank& peer_of(const Win& win, std::uint32_t rank) { return win.internode->peers[rank]; }

// ---- Answers to peers ---------------------------------------------------------------------------

void send_answer(const Win& win, std::uint32_t to, RmaMessage head, MessageBuffer buffer) {
  head.from = win.window.me();
  head.window = win.internode->id;
  std::memcpy(buffer.data(), &head, sizeof head);
  RemoteRank& peer = peer_of(win, to);
  if (!messages::send_message(peer.world_rank, tags::kAnswers, std::move(buffer))) {
    peer.failed.store(true, std::memory_order_release);
  }
}

// Sends an answer without data to the window's rank `to`. Returns false if memory is short.
bool send_answer(const Win& win, std::uint32_t to, const RmaMessage& head) {
  MessageBuffer buffer(sizeof(RmaMessage));
  if (buffer.empty()) return false;
  send_answer(win, to, head, std::move(buffer));
  return true;
}

// Reports to each rank on another node how many of its requests this rank has carried out (an
// answer of kind `done`), if the number is higher than the last one reported. The other rank waits
// for the report in flush_targets().
void report_done_requests() {
  std::erase_if(g_server.to_report, [](const auto& one) {
    const auto& [win, rank] = one;
    RemoteRank& peer = peer_of(*win, rank);
    if (peer.reported == peer.carried_out) return true;
    const RmaMessage report{
        .kind = RmaMessageKind::done, .failed = peer.has_failed, .number = peer.carried_out};
    if (!send_answer(*win, rank, report)) return false;
    peer.reported = peer.carried_out;
    peer.has_failed = false;
    return true;
  });
}

void count_carried_out(const WinPtr& win, const RmaMessage& request, bool succeeded) {
  if (!request.is_counted()) return;
  RemoteRank& peer = peer_of(*win, request.from);
  ++peer.carried_out;
  peer.has_failed = peer.has_failed || !succeeded;
  g_server.to_report.emplace_back(win, request.from);
}

void grant_locks() {
  std::erase_if(g_server.waiting, [](const LockRequest& one) {
    mh::rma::Window& window = one.win->window;
    MessageBuffer buffer(sizeof(RmaMessage));
    if (buffer.empty()) return false;
    if (!window.control().part(window.me()).lock.enter(one.number, one.mode)) return false;
    send_answer(*one.win, one.from, {.kind = RmaMessageKind::granted}, std::move(buffer));
    return true;
  });
}

// ---- Requests of peers --------------------------------------------------------------------------

// True if the other ranks of this node reach the buffer of a message, so that they can claim chunks
// of its operation.
bool is_reached_by_neighbours(const MessageBuffer& buffer) {
  return buffer.empty() || config.single_copy ||
         (config.heaps_mapped && heaps::contain(buffer.data(), buffer.bytes()));
}

// Begins to carry out the operation of a request, as g_server.current. Returns false if memory for
// the result is short.
bool begin_operation(const WinPtr& win, MessageBuffer& request) {
  const RmaMessage& head = messages::head_of(request);
  const std::uint64_t bytes = head.what.bytes - head.what.begin;
  MessageBuffer result;
  if (head.what.has_result) {
    result = MessageBuffer(sizeof(RmaMessage) + bytes);
    if (result.empty()) return false;
  }
  const bool shared = is_reached_by_neighbours(request) && is_reached_by_neighbours(result);
  const std::uint32_t chunk = head.what.atomic ? static_cast<std::uint32_t>(mh::rma::kStripe)
                                               : services.chunking->chunk_for(bytes);
  auto current = std::make_unique<CurrentRequest>();
  current->win = win;
  current->request = std::move(request);
  current->answer = std::move(result);
  std::byte* const into =
      current->answer.empty() ? nullptr : current->answer.data() + sizeof(RmaMessage);
  current->run.emplace(win->window, thread_context(), current->head(), into, chunk, shared);
  g_server.current = std::move(current);
  return true;
}

void finish_current() {
  const std::unique_ptr<CurrentRequest> over = std::move(g_server.current);
  const RmaMessage& head = over->head();
  const bool succeeded = over->run->succeeded();
  over->run.reset();
  if (!over->answer.empty()) {
    send_answer(*over->win, head.from,
                {.kind = RmaMessageKind::result, .failed = !succeeded, .number = head.number},
                std::move(over->answer));
  }
  count_carried_out(over->win, head, succeeded);
}

// Carries out a chunk of the request in g_server.current. Returns true when the request is over.
bool continue_current() {
  CurrentRequest& current = *g_server.current;
  const bool over = advance_run(*current.run, current.watch);
  if (over) finish_current();
  return over;
}

void handle_lock_step(const WinPtr& win, const RmaMessage& head) {
  mh::rma::TargetLock& lock = win->window.control().part(win->window.me()).lock;
  const LockMode mode = head.exclusive ? LockMode::exclusive : LockMode::shared;
  if (head.kind == RmaMessageKind::unlock) {
    lock.leave(mode);
  } else {
    g_server.waiting.push_back({win, head.from, lock.draw(), mode});
  }
}

// Handles a message that reports a step of an epoch by a rank on another node. On behalf of that
// rank, this thread changes the same words in shared memory that a rank of this node would change
// itself.
void handle_step(const WinPtr& win, const RmaMessage& head) {
  const mh::rma::Control& control = win->window.control();
  const std::uint32_t me = win->window.me();
  switch (head.kind) {
    case RmaMessageKind::post: {
      std::atomic<std::uint32_t>& posts = control.posts_to(me)[head.from];
      // release: pairs with the acquire in start() (calls/epochs.cpp), in which this rank waits for
      // the post. Only the thread that holds g_server.mutex writes this word, so it needs no atomic
      // addition.
      posts.store(posts.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      break;
    }
    case RmaMessageKind::complete:
      // release: pairs with the acquire in is_completed() (calls/epochs.cpp), which then sees the
      // origin's updates.
      control.part(me).completed.fetch_add(1, std::memory_order_release);
      break;
    case RmaMessageKind::barrier:
      // release: pairs with the acquire in barrier() (remote.cpp), in which this rank waits for the
      // round.
      win->internode->arrived[head.number].fetch_add(1, std::memory_order_release);
      break;
    default:
      handle_lock_step(win, head);
  }
}

MessageInbox::Acceptance handle_request(MessageBuffer& buffer) {
  if (g_server.requests_left == 0 || g_server.current != nullptr)
    return MessageInbox::Acceptance::stop;
  const RmaMessage head = messages::head_of(buffer);
  const WinPtr win = find_internode(head.window);
  if (win == nullptr)
    return MessageInbox::Acceptance::not_now;  // this rank is still making the window
  --g_server.requests_left;
  if (head.kind == RmaMessageKind::operation || head.kind == RmaMessageKind::swap) {
    if (!begin_operation(win, buffer)) return MessageInbox::Acceptance::not_now;
    const std::uint64_t bytes = head.what.bytes - head.what.begin;
    if (bytes >= g_server.bytes_left) g_server.requests_left = 0;
    g_server.bytes_left -= std::min(bytes, g_server.bytes_left);
    continue_current();
  } else {
    handle_step(win, head);
    count_carried_out(win, head, true);
  }
  return MessageInbox::Acceptance::accepted;
}

// ---- Answers of peers ---------------------------------------------------------------------------

void handle_result(Win& win, RemoteRank& peer, const MessageBuffer& buffer) {
  const RmaMessage& head = messages::head_of(buffer);
  AwaitedResult result;
  {
    const std::lock_guard<std::mutex> hold(win.internode->mutex);
    const auto at = win.internode->results.find(head.number);
    if (at == win.internode->results.end()) return;
    result = std::move(at->second);
    win.internode->results.erase(at);
  }
  if (!head.failed)
    mh::rma::unpack_here(result.buffer, result.range, buffer.data() + sizeof(RmaMessage));
  // release: pairs with the acquire in has_results() (remote.cpp), whose caller then reads the
  // result.
  peer.awaited.fetch_sub(1, std::memory_order_release);
}

MessageInbox::Acceptance handle_answer(MessageBuffer& buffer) {
  const RmaMessage& head = messages::head_of(buffer);
  const WinPtr win = find_internode(head.window);
  if (win == nullptr) return MessageInbox::Acceptance::accepted;
  RemoteRank& peer = peer_of(*win, head.from);
  // release, here and in every branch below: pairs with the acquires of threads that wait in
  // remote.cpp.
  if (head.failed) peer.failed.store(true, std::memory_order_release);
  switch (head.kind) {
    case RmaMessageKind::result:
      handle_result(*win, peer, buffer);
      break;
    case RmaMessageKind::granted:
      peer.granted.fetch_add(1, std::memory_order_release);
      break;
    default:
      peer.done.store(head.number, std::memory_order_release);
  }
  return MessageInbox::Acceptance::accepted;
}

}  // namespace

bool serve_other_nodes() {
  if (!has_internode_windows()) return false;
  const std::unique_lock<std::mutex> hold(g_server.mutex, std::try_to_lock);
  if (!hold) return false;
  messages::free_sent_buffers();
  bool busy = g_server.answers.start_receives();
  g_server.answers.for_each(handle_answer);
  g_server.requests_left = kMostRequestsATurn;
  g_server.bytes_left = kMostATurn;
  busy = g_server.requests.start_receives() || busy || g_server.current != nullptr;
  if (g_server.current == nullptr || continue_current()) g_server.requests.for_each(handle_request);
  grant_locks();
  report_done_requests();
  g_server.last_turn.store(ticks(), std::memory_order_relaxed);
  return busy;
}

// ---- The server thread --------------------------------------------------------------------------

namespace {

struct ServerThread {
  // `ending` is set by the thread that ends the RMA server thread, and read by the RMA server
  // thread before a call of the library. The RMA server thread sets `inside` while it may be in
  // such a call. seq_cst: either it sees `ending`, or the ending thread sees `inside`.
  std::atomic<bool> ending{false};
  std::atomic<bool> inside{false};
  pthread_t handle{};
  pid_t process = 0;  // the process that has the thread; a forked child has none
};
ServerThread g_thread;

void sleep_ns(std::int64_t ns) {
  const timespec time{.tv_sec = 0, .tv_nsec = ns};
  ::nanosleep(&time, nullptr);
}

// True if a thread of this rank has handled messages from other nodes within the last kShortNapNs.
bool is_served() {
  const std::uint64_t last = g_server.last_turn.load(std::memory_order_relaxed);
  return ticks() - last < ticks_from_ns(static_cast<double>(tuning::kShortNapNs));
}

bool serve_if_not_ending() {
  g_thread.inside.store(true);
  const bool busy = !g_thread.ending.load() && serve_other_nodes();
  g_thread.inside.store(false);
  return busy;
}

void* run_server_thread(void* /*nothing*/) {
  std::int64_t length = tuning::kLongNapNs;
  bool busy = false;
  while (!g_thread.ending.load()) {
    // If the last turn (handling of messages from other nodes) was this thread's own and found
    // work, its time does not tell whether another thread serves as well. This thread then serves
    // again.
    busy = (busy || !is_served()) && serve_if_not_ending();
    length = busy ? tuning::kShortNapNs : std::min(2 * length, tuning::kLongNapNs);
    if (!busy) sleep_ns(length);
  }
  return nullptr;
}

// Exit handler for a program that ends without MPI_Finalize: the MPI library must not shut down
// while the RMA server thread is in a call of the library, so this function waits. Gives up after
// 100 ms, since that call may wait for the thread that ends the process.
void leave_library() {
  constexpr std::int64_t kLookNs = 1'000'000;
  constexpr int kLooks = 100;
  if (g_thread.process != ::getpid()) return;
  g_thread.ending.store(true);
  for (int i = 0; i < kLooks && g_thread.inside.load(); ++i) sleep_ns(kLookNs);
}

}  // namespace

bool start_server_thread() {
  const lend::SignalsBlocked guard;
  g_thread.ending.store(false);
  if (::pthread_create(&g_thread.handle, nullptr, run_server_thread, nullptr) != 0) return false;
  ::pthread_setname_np(g_thread.handle, "mh-server");
  g_thread.process = ::getpid();
  std::atexit(leave_library);
  return true;
}

void stop_server_thread() {
  g_thread.ending.store(true);
  ::pthread_join(g_thread.handle, nullptr);
  g_thread.process = 0;
}

}  // namespace mh::mpi::rma
