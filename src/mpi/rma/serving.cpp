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

using messages::Buffer;
using messages::Inbox;
using mh::rma::LockMode;
using mh::rma::Message;
using WinPtr = std::shared_ptr<Win>;

constexpr std::uint64_t kMostATurn = 64U << 10U;  // bytes: some 20 us
constexpr int kMostRequestsATurn = 16;

// A request that is being carried out.
struct Current {
  WinPtr win;
  Buffer request;
  Buffer answer;  // empty without a result
  std::optional<mh::rma::PieceRun> run;
  Watch watch;

  [[nodiscard]] const Message& head() const { return messages::head_of(request); }
};

// A rank of another node that wants this rank's lock.
struct Waiting {
  WinPtr win;
  std::uint32_t from;
  std::uint32_t number;
  LockMode mode;
};

struct Server {
  Inbox requests{tags::kRequests};
  Inbox answers{tags::kAnswers};
  std::unique_ptr<Current> current;
  std::vector<Waiting> waiting;
  std::vector<std::pair<WinPtr, std::uint32_t>> to_tell;  // of which something was carried out
  int requests_left = 0;
  std::uint64_t bytes_left = 0;
};

std::mutex g_serving;  // guards the server
// Never destroyed: a program may call exit() while messages are on their way.
Server& g_server = *new Server;
std::atomic<std::uint64_t> g_last_turn{0};  // relaxed, a hint

Peer& peer_of(const Win& win, std::uint32_t rank) { return win.spanning->peers[rank]; }

// ---- Answers to others --------------------------------------------------------------------------

void answer(const Win& win, std::uint32_t to, Message head, Buffer buffer) {
  head.from = win.window.me();
  head.window = win.spanning->id;
  std::memcpy(buffer.data(), &head, sizeof head);
  Peer& peer = peer_of(win, to);
  if (!messages::send(peer.world_rank, tags::kAnswers, std::move(buffer))) {
    peer.failed.store(true, std::memory_order_release);
  }
}

// False where memory is short.
bool answer(const Win& win, std::uint32_t to, const Message& head) {
  Buffer buffer(sizeof(Message));
  if (buffer.empty()) return false;
  answer(win, to, head, std::move(buffer));
  return true;
}

// Of each rank that knows less than was done.
void tell_what_is_done() {
  std::erase_if(g_server.to_tell, [](const auto& one) {
    const auto& [win, rank] = one;
    Peer& peer = peer_of(*win, rank);
    if (peer.told == peer.handled) return true;
    if (!answer(*win, rank, {.kind = Message::Kind::done, .number = peer.handled})) return false;
    peer.told = peer.handled;
    return true;
  });
}

void has_handled(const WinPtr& win, const Message& request, bool succeeded) {
  if (!request.is_counted()) return;
  Peer& peer = peer_of(*win, request.from);
  ++peer.handled;
  if (!succeeded) answer(*win, request.from, {.kind = Message::Kind::done, .failed = true});
  g_server.to_tell.emplace_back(win, request.from);
}

void grant_locks() {
  std::erase_if(g_server.waiting, [](const Waiting& one) {
    mh::rma::Window& window = one.win->window;
    Buffer buffer(sizeof(Message));
    if (buffer.empty()) return false;
    if (!window.control().part(window.me()).lock.enter(one.number, one.mode)) return false;
    answer(*one.win, one.from, {.kind = Message::Kind::granted}, std::move(buffer));
    return true;
  });
}

// ---- Requests of others -------------------------------------------------------------------------

bool reached_by_neighbours(const Buffer& buffer) {
  return buffer.empty() || config.reaching ||
         (config.mapping && heaps::hold(buffer.data(), buffer.bytes()));
}

// False where memory is short.
bool begin(const WinPtr& win, Buffer& request) {
  const Message& head = messages::head_of(request);
  const std::uint64_t bytes = head.what.bytes - head.what.begin;
  Buffer result;
  if (head.what.has_result) {
    result = Buffer(sizeof(Message) + bytes);
    if (result.empty()) return false;
  }
  const bool shared = reached_by_neighbours(request) && reached_by_neighbours(result);
  const std::uint32_t chunk = head.what.atomic ? static_cast<std::uint32_t>(mh::rma::kStripe)
                                               : services.chunking->chunk_for(bytes);
  auto current = std::make_unique<Current>();
  current->win = win;
  current->request = std::move(request);
  current->answer = std::move(result);
  std::byte* const into =
      current->answer.empty() ? nullptr : current->answer.data() + sizeof(Message);
  current->run.emplace(win->window, hands(), current->head(), into, chunk, shared);
  g_server.current = std::move(current);
  return true;
}

void finish_current() {
  const std::unique_ptr<Current> over = std::move(g_server.current);
  const Message& head = over->head();
  const bool succeeded = over->run->succeeded();
  over->run.reset();
  if (!over->answer.empty()) {
    answer(*over->win, head.from,
           {.kind = Message::Kind::result, .failed = !succeeded, .number = head.number},
           std::move(over->answer));
  }
  has_handled(over->win, head, succeeded);
}

// True when it is over.
bool continue_current() {
  Current& current = *g_server.current;
  const bool over = advance(*current.run, current.watch);
  if (over) finish_current();
  return over;
}

void take_lock_step(const WinPtr& win, const Message& head) {
  mh::rma::TargetLock& lock = win->window.control().part(win->window.me()).lock;
  const LockMode mode = head.exclusive ? LockMode::exclusive : LockMode::shared;
  if (head.kind == Message::Kind::unlock) {
    lock.leave(mode);
  } else {
    g_server.waiting.push_back({win, head.from, lock.draw(), mode});
  }
}

// A step of an epoch: the words that the ranks of this node share are changed here on behalf of
// one that is elsewhere.
void take_step(const WinPtr& win, const Message& head) {
  const mh::rma::Control& control = win->window.control();
  const std::uint32_t me = win->window.me();
  switch (head.kind) {
    case Message::Kind::post: {
      std::atomic<std::uint32_t>& posts = control.posts_to(me)[head.from];
      // release: pairs with the acquire in start(). Of that rank's words the server is the writer.
      posts.store(posts.load(std::memory_order_relaxed) + 1, std::memory_order_release);
      break;
    }
    case Message::Kind::complete:
      // release: pairs with the acquire in is_completed().
      control.part(me).completed.fetch_add(1, std::memory_order_release);
      break;
    case Message::Kind::barrier:
      // release: pairs with the acquire in barrier().
      win->spanning->arrived[head.number].fetch_add(1, std::memory_order_release);
      break;
    default:
      take_lock_step(win, head);
  }
}

Inbox::Taken take_request(Buffer& buffer) {
  if (g_server.requests_left == 0 || g_server.current != nullptr) return Inbox::Taken::stop;
  const Message head = messages::head_of(buffer);
  const WinPtr win = find_spanning(head.window);
  if (win == nullptr) return Inbox::Taken::not_now;  // this rank is still making it
  --g_server.requests_left;
  if (head.kind == Message::Kind::operation || head.kind == Message::Kind::swap) {
    if (!begin(win, buffer)) return Inbox::Taken::not_now;
    const std::uint64_t bytes = head.what.bytes - head.what.begin;
    if (bytes >= g_server.bytes_left) g_server.requests_left = 0;
    g_server.bytes_left -= std::min(bytes, g_server.bytes_left);
    continue_current();
  } else {
    take_step(win, head);
    has_handled(win, head, true);
  }
  return Inbox::Taken::yes;
}

// ---- Answers of others --------------------------------------------------------------------------

void take_result(Win& win, Peer& peer, const Buffer& buffer) {
  const Message& head = messages::head_of(buffer);
  AwaitedResult result;
  {
    const std::lock_guard<std::mutex> hold(win.spanning->mutex);
    const auto at = win.spanning->results.find(head.number);
    if (at == win.spanning->results.end()) return;
    result = std::move(at->second);
    win.spanning->results.erase(at);
  }
  if (!head.failed)
    mh::rma::unpack_here(result.place, result.range, buffer.data() + sizeof(Message));
  // release: pairs with the acquire of who waits for it.
  peer.awaited.fetch_sub(1, std::memory_order_release);
}

Inbox::Taken take_answer(Buffer& buffer) {
  const Message& head = messages::head_of(buffer);
  const WinPtr win = find_spanning(head.window);
  if (win == nullptr) return Inbox::Taken::yes;
  Peer& peer = peer_of(*win, head.from);
  // release, all: pair with the acquires of callers that wait.
  if (head.failed) peer.failed.store(true, std::memory_order_release);
  switch (head.kind) {
    case Message::Kind::result:
      take_result(*win, peer, buffer);
      break;
    case Message::Kind::granted:
      peer.granted.fetch_add(1, std::memory_order_release);
      break;
    default:
      if (!head.failed) peer.done.store(head.number, std::memory_order_release);
  }
  return Inbox::Taken::yes;
}

}  // namespace

bool serve_other_nodes() {
  if (!any_spanning()) return false;
  const std::unique_lock<std::mutex> hold(g_serving, std::try_to_lock);
  if (!hold) return false;
  messages::reap();
  bool busy = g_server.answers.look();
  g_server.answers.for_each(take_answer);
  g_server.requests_left = kMostRequestsATurn;
  g_server.bytes_left = kMostATurn;
  busy = g_server.requests.look() || busy || g_server.current != nullptr;
  if (g_server.current == nullptr || continue_current()) g_server.requests.for_each(take_request);
  grant_locks();
  tell_what_is_done();
  g_last_turn.store(ticks(), std::memory_order_relaxed);
  return busy;
}

// ---- The thread ---------------------------------------------------------------------------------

namespace {

// By whoever ends the thread, read by it; seq_cst with `inside`: either it sees that it shall end,
// or the other sees that it is inside.
std::atomic<bool> g_ending{false};
std::atomic<bool> g_inside{false};  // by the thread: it may be in a call of the library
pthread_t g_thread;
pid_t g_owner = 0;  // the process that has the thread; a child of it has none

void nap(std::int64_t ns) {
  const timespec time{.tv_sec = 0, .tv_nsec = ns};
  ::nanosleep(&time, nullptr);
}

// Somebody else has served so lately that there is no need to.
bool is_served() {
  const std::uint64_t last = g_last_turn.load(std::memory_order_relaxed);
  return ticks() - last < ticks_from_ns(static_cast<double>(tuning::kShortNapNs));
}

bool serve_if_not_ending() {
  g_inside.store(true);
  const bool busy = !g_ending.load() && serve_other_nodes();
  g_inside.store(false);
  return busy;
}

void* live(void* /*nothing*/) {
  std::int64_t length = tuning::kLongNapNs;
  bool busy = false;
  while (!g_ending.load()) {
    // While there is something to do the last turn was this thread's.
    busy = (busy || !is_served()) && serve_if_not_ending();
    length = busy ? tuning::kShortNapNs : std::min(2 * length, tuning::kLongNapNs);
    if (!busy) nap(length);
  }
  return nullptr;
}

// A program that ends without MPI_Finalize: the library's own end must not meet the thread in a
// call. Where it waits there for a thread that is ending the process, nothing is waited for.
void leave_library() {
  constexpr std::int64_t kLookNs = 1'000'000;
  constexpr int kLooks = 100;
  if (g_owner != ::getpid()) return;
  g_ending.store(true);
  for (int i = 0; i < kLooks && g_inside.load(); ++i) nap(kLookNs);
}

}  // namespace

bool start_server_thread() {
  const lend::SignalsBlocked guard;
  g_ending.store(false);
  if (::pthread_create(&g_thread, nullptr, live, nullptr) != 0) return false;
  ::pthread_setname_np(g_thread, "mh-server");
  g_owner = ::getpid();
  std::atexit(leave_library);
  return true;
}

void stop_server_thread() {
  g_ending.store(true);
  ::pthread_join(g_thread, nullptr);
  g_owner = 0;
}

}  // namespace mh::mpi::rma
