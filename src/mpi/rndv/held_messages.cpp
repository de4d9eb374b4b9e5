// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/held_messages.hpp"

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
#include "mpi/rndv/posted_sends.hpp"
#include "mpi/tags.hpp"

namespace mh::mpi::rndv {

std::atomic<std::uint32_t> held_message_count{0};

namespace {

using Content = std::array<std::byte, p2p::kRtsBytes>;

// The content of a message to this rank itself lives until its send is complete, which in some
// libraries is when the message is received.
struct SelfSend {
  Content content;
  MPI_Request request = MPI_REQUEST_NULL;
};

std::mutex g_mutex;  // guards what follows
std::list<SelfSend> g_self_sends;
std::vector<HeldMessage> g_held;                                  // by MPI_Probe and MPI_Iprobe
std::unordered_map<std::uint64_t, HeldMessage> g_held_by_handle;  // by MPI_Mprobe and MPI_Improbe

void count_held() {
  held_message_count.store(static_cast<std::uint32_t>(g_held.size()), std::memory_order_relaxed);
}

bool matches(const HeldMessage& held, int source, int tag, MPI_Comm comm) {
  return held.comm != nullptr && held.comm->handle == comm &&
         (source == MPI_ANY_SOURCE || source == held.envelope.source) &&
         (tag == MPI_ANY_TAG || tag == held.envelope.tag);
}

void send_to_this_rank(const Content& content, int tag) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_self_sends.remove_if([](SelfSend& send) {
    int flag = 0;
    real.Test(&send.request, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  });
  SelfSend& send = g_self_sends.emplace_back(SelfSend{.content = content});
  real.Isend(send.content.data(), static_cast<int>(content.size()), MPI_BYTE, 0, tag,
             config.self_comm, &send.request);
}

Content receive_content(MPI_Message* message) {
  Content content{};
  MPI_Request request = MPI_REQUEST_NULL;
  next.Imrecv(content.data(), static_cast<int>(content.size()), MPI_BYTE, message, &request);
  wait_request(&request, MPI_STATUS_IGNORE);
  return content;
}

// The message behind `*message` is received, read, and sent to this rank itself.
HeldMessage hold(MPI_Comm comm, MPI_Message* message, const Envelope& envelope) {
  const Content content = receive_content(message);
  static std::atomic<std::uint32_t> serial{0};
  const int tag =
      tags::kRenewed[serial.fetch_add(1, std::memory_order_relaxed) % tags::kRenewed.count];
  send_to_this_rank(content, tag);
  int flag = 0;
  wait::until([&] {
    real.Improbe(0, tag, config.self_comm, &flag, message, MPI_STATUS_IGNORE);
    return flag != 0;
  });
  HeldMessage held{.comm = comms::share(comms::find(comm)),
                   .message = *message,
                   .envelope = envelope,
                   .bytes = p2p::kRtsBytes,
                   .header = {}};
  if (!p2p::opens_rts(content.data(), config.key)) return held;
  p2p::RtsHeader header;
  std::memcpy(&header, content.data(), sizeof header);
  held.bytes = header.bytes;
  if (header.from_world == 0) held.header = header;
  return held;
}

}  // namespace

std::uint64_t hold_matched(MPI_Comm comm, MPI_Message* message, const Envelope& envelope) {
  HeldMessage held = hold(comm, message, envelope);
  const std::uint64_t bytes = held.bytes;
  return_as_matched(std::move(held), message);
  return bytes;
}

std::optional<std::uint64_t> hold_probed(MPI_Comm comm, const MPI_Status& seen) {
  MPI_Message message{};
  int flag = 0;
  MPI_Status status{};
  next.Improbe(seen.MPI_SOURCE, seen.MPI_TAG, comm, &flag, &message, &status);
  if (flag == 0) return std::nullopt;
  if (!has_rts_size(status)) return std::nullopt;
  const Envelope envelope{.source = seen.MPI_SOURCE, .tag = seen.MPI_TAG};
  HeldMessage held = hold(comm, &message, envelope);
  const std::uint64_t bytes = held.bytes;
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_held.push_back(std::move(held));
  count_held();
  return bytes;
}

bool report_held(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  if (held_message_count.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto at = std::ranges::find_if(
      g_held, [&](const HeldMessage& held) { return matches(held, source, tag, comm); });
  if (at == g_held.end()) return false;
  if (status == MPI_STATUS_IGNORE) return true;
  set_envelope(status, at->envelope);
  set_bytes(status, at->bytes);
  real.Status_set_cancelled(status, 0);
  return true;
}

std::optional<HeldMessage> take_held(int source, int tag, MPI_Comm comm) {
  if (held_message_count.load(std::memory_order_relaxed) == 0) return std::nullopt;
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto at = std::ranges::find_if(
      g_held, [&](const HeldMessage& held) { return matches(held, source, tag, comm); });
  if (at == g_held.end()) return std::nullopt;
  HeldMessage held = std::move(*at);
  g_held.erase(at);
  count_held();
  return held;
}

std::optional<HeldMessage> take_held(MPI_Message message) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto at = g_held_by_handle.find(bits_of(message));
  if (at == g_held_by_handle.end()) return std::nullopt;
  HeldMessage held = std::move(at->second);
  g_held_by_handle.erase(at);
  return held;
}

void return_as_matched(HeldMessage held, MPI_Message* message) {
  *message = held.message;
  const std::lock_guard<std::mutex> lock(g_mutex);
  g_held_by_handle.insert_or_assign(bits_of(*message), std::move(held));
}

std::vector<PostedSend> held_sends() {
  std::vector<PostedSend> found;
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (const HeldMessage& held : g_held) {
    if (held.header) found.push_back(send_of(*held.header));
  }
  for (const auto& [bits, held] : g_held_by_handle) {
    if (held.header) found.push_back(send_of(*held.header));
  }
  return found;
}

}  // namespace mh::mpi::rndv
