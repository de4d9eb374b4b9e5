// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/held_messages.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "mpi/handle_cache.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/rndv/posted_sends.hpp"
#include "mpi/tags.hpp"

namespace mh::mpi::rndv {

std::atomic<std::uint32_t> held_message_count{0};

namespace {

using Content = std::array<std::byte, p2p::kRtsBytes>;

// A message from this rank to itself. The content, the send buffer, lives until the send is
// complete. In some MPI libraries this is when the message has been received.
struct SelfSend {
  Content content;
  MPI_Request request = MPI_REQUEST_NULL;
};

// A bit of HeldMessages::steps: a thread is in an exclusive step (MatchingStep), or waits for one.
constexpr std::uint32_t kExclusive = 1U << 31U;

// The messages that this process holds: probes have taken them out of the MPI library, and the
// program has not received them yet.
struct HeldMessages {
  std::mutex mutex;  // guards the three containers
  std::list<SelfSend> self_sends;
  std::vector<HeldMessage> probed;                           // by MPI_Probe and MPI_Iprobe
  std::unordered_map<std::uint64_t, HeldMessage> by_handle;  // by MPI_Mprobe and MPI_Improbe

  std::atomic<std::uint32_t> steps{0};          // shared steps under way; bit kExclusive
  std::atomic<std::uint32_t> threads_probe{0};  // 1 from the first call of note_probe() on; relaxed
};
HeldMessages g_messages;

void count_held() {
  const std::uint32_t probes = g_messages.threads_probe.load(std::memory_order_relaxed);
  held_message_count.store(static_cast<std::uint32_t>(g_messages.probed.size()) + probes,
                           std::memory_order_relaxed);
}

void enter_shared() {
  // acquire: pairs with the release at the end of an exclusive step, in ~MatchingStep().
  while ((g_messages.steps.fetch_add(1, std::memory_order_acquire) & kExclusive) != 0) {
    g_messages.steps.fetch_sub(1, std::memory_order_relaxed);
    while ((g_messages.steps.load(std::memory_order_relaxed) & kExclusive) != 0) ::sched_yield();
  }
}

void enter_exclusive() {
  // acquire: pairs with the releases at the end of other threads' steps, in ~MatchingStep().
  while ((g_messages.steps.fetch_or(kExclusive, std::memory_order_acquire) & kExclusive) != 0)
    ::sched_yield();
  while (g_messages.steps.load(std::memory_order_acquire) != kExclusive) ::sched_yield();
}

std::vector<HeldMessage>::iterator find_held(int source, int tag, MPI_Comm handle) {
  const Comm* comm = comms::find(handle);
  return std::ranges::find_if(g_messages.probed, [&](const HeldMessage& held) {
    return held.comm.get() == comm &&
           (source == MPI_ANY_SOURCE || source == held.status.MPI_SOURCE) &&
           (tag == MPI_ANY_TAG || tag == held.status.MPI_TAG);
  });
}

// Writes the status of the held message, which a probe has taken out of the MPI library, to the
// program's `status`. MPI_ERROR stays unchanged, as after a probe of the MPI library.
void report(const HeldMessage& held, MPI_Status* status) {
  if (status == MPI_STATUS_IGNORE) return;
  const int error = status->MPI_ERROR;
  *status = held.status;
  status->MPI_ERROR = error;
}

void send_to_this_rank(const Content& content, int tag) {
  const std::lock_guard<std::mutex> hold(g_messages.mutex);
  g_messages.self_sends.remove_if([](SelfSend& send) {
    int flag = 0;
    real.Test(&send.request, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  });
  SelfSend& send = g_messages.self_sends.emplace_back(SelfSend{.content = content});
  real.Isend(send.content.data(), static_cast<int>(content.size()), MPI_BYTE, 0, tag,
             config.self_comm, &send.request);
}

// Repeats the call `test` of the MPI library until it sets its flag. Does not use the wait loop,
// which may run code of the program (tasks) while the calling thread is in an exclusive step,
// during which other threads can neither receive nor probe (MatchingStep).
template <class Test>
void spin_until(Test&& test) {
  for (int flag = 0; flag == 0;) {
    test(&flag);
    if (flag == 0) ::sched_yield();
  }
}

Content receive_content(MPI_Message* message) {
  Content content{};
  MPI_Request request = MPI_REQUEST_NULL;
  next.Imrecv(content.data(), static_cast<int>(content.size()), MPI_BYTE, message, &request);
  spin_until([&](int* flag) { real.Test(&request, flag, MPI_STATUS_IGNORE); });
  return content;
}

// Receives a held message, which a probe has taken out of the MPI library, and sends its content to
// this rank itself, so that the program can still receive it. Called for a message as long as an
// RTS header. If the content is an RTS header, the held status gets the size of the rendezvous
// message.
void renew(HeldMessage& held) {
  const Content content = receive_content(&held.message);
  static std::atomic<std::uint32_t> serial{0};
  const int tag =
      tags::kRenewed[serial.fetch_add(1, std::memory_order_relaxed) % tags::kRenewed.count];
  send_to_this_rank(content, tag);
  spin_until([&](int* flag) {
    real.Improbe(0, tag, config.self_comm, flag, &held.message, MPI_STATUS_IGNORE);
  });
  held.is_renewed = true;
  if (!p2p::opens_rts(content.data(), config.key)) return;
  p2p::RtsHeader header;
  std::memcpy(&header, content.data(), sizeof header);
  set_bytes(&held.status, header.bytes);
  if (header.from_world == 0) held.send = send_of(header);
}

HeldMessage hold(MPI_Comm comm, MPI_Message message, const MPI_Status& status) {
  HeldMessage held{.comm = comms::share(comms::find(comm)),
                   .message = message,
                   .status = status,
                   .is_renewed = false,
                   .send = {}};
  if (has_rts_size(status)) renew(held);
  return held;
}

// Takes the oldest message from `source` out of the MPI library and holds it for a receive of the
// program. False if the MPI library has no message from `source`.
bool hold_oldest(int source, MPI_Comm comm) {
  int flag = 0;
  MPI_Message message{};
  MPI_Status status{};
  next.Improbe(source, MPI_ANY_TAG, comm, &flag, &message, &status);
  if (flag == 0) return false;
  HeldMessage held = hold(comm, message, status);
  const std::lock_guard<std::mutex> lock(g_messages.mutex);
  g_messages.probed.push_back(std::move(held));
  count_held();
  return true;
}

}  // namespace

MatchingStep::MatchingStep(Kind kind) : entered_(kind == Kind::shared ? 1 : kExclusive) {
  if (g_messages.threads_probe.load(std::memory_order_relaxed) == 0) {
    entered_ = 0;
  } else if (kind == Kind::shared) {
    enter_shared();
  } else {
    enter_exclusive();
  }
}

MatchingStep::~MatchingStep() {
  if (entered_ != 0) g_messages.steps.fetch_sub(entered_, std::memory_order_release);
}

void note_probe() {
  if (!switches.threads || g_messages.threads_probe.load(std::memory_order_relaxed) != 0) return;
  const std::lock_guard<std::mutex> lock(g_messages.mutex);
  g_messages.threads_probe.store(1, std::memory_order_relaxed);
  count_held();
}

void hold_matched(MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  return_as_matched(hold(comm, *message, *status), message, status);
}

bool hold_probed(MPI_Comm comm, MPI_Status* seen) {
  const int source = seen->MPI_SOURCE;
  const int tag = seen->MPI_TAG;
  const MatchingStep step(MatchingStep::Kind::exclusive);
  if (report_held(source, tag, comm, seen)) return true;
  int flag = 0;
  next.Iprobe(source, tag, comm, &flag, MPI_STATUS_IGNORE);
  while (flag != 0 && hold_oldest(source, comm)) {
    if (report_held(source, tag, comm, seen)) return true;
  }
  return false;
}

bool report_held(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  if (!may_be_held()) return false;
  const std::lock_guard<std::mutex> lock(g_messages.mutex);
  const auto at = find_held(source, tag, comm);
  if (at == g_messages.probed.end()) return false;
  report(*at, status);
  return true;
}

std::optional<HeldMessage> take_held(int source, int tag, MPI_Comm comm) {
  if (!may_be_held()) return std::nullopt;
  const std::lock_guard<std::mutex> lock(g_messages.mutex);
  const auto at = find_held(source, tag, comm);
  if (at == g_messages.probed.end()) return std::nullopt;
  HeldMessage held = std::move(*at);
  g_messages.probed.erase(at);
  count_held();
  return held;
}

std::optional<HeldMessage> take_held(MPI_Message message) {
  const std::lock_guard<std::mutex> lock(g_messages.mutex);
  const auto at = g_messages.by_handle.find(bits_of(message));
  if (at == g_messages.by_handle.end()) return std::nullopt;
  HeldMessage held = std::move(at->second);
  g_messages.by_handle.erase(at);
  return held;
}

void return_as_matched(HeldMessage held, MPI_Message* message, MPI_Status* status) {
  *message = held.message;
  report(held, status);
  if (!held.is_renewed) return;
  const std::lock_guard<std::mutex> lock(g_messages.mutex);
  g_messages.by_handle.insert_or_assign(bits_of(*message), std::move(held));
}

std::vector<PostedSend> held_sends() {
  std::vector<PostedSend> found;
  const std::lock_guard<std::mutex> lock(g_messages.mutex);
  for (const HeldMessage& held : g_messages.probed) {
    if (held.send) found.push_back(*held.send);
  }
  for (const auto& [bits, held] : g_messages.by_handle) {
    if (held.send) found.push_back(*held.send);
  }
  return found;
}

}  // namespace mh::mpi::rndv
