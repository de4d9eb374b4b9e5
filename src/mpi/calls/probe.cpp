// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/calls/probe.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mpi/calls/completion.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/lost_descriptors.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/protocol/send_descriptors.hpp"
#include "mpi/tags.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {

std::atomic<std::uint32_t> set_aside_count{0};

namespace {

struct Kept {
  MPI_Comm comm;
  SetAside message;
  std::uint64_t bytes;  // its true size
};

std::mutex g_mutex;  // guards what follows
std::vector<Kept> g_kept;
std::unordered_map<std::uint64_t, Origin> g_origins;  // by message handle

bool matches(const Kept& kept, int source, int tag, MPI_Comm comm) {
  return kept.comm == comm &&
         (source == MPI_ANY_SOURCE || source == kept.message.envelope.source) &&
         (tag == MPI_ANY_TAG || tag == kept.message.envelope.tag);
}

bool shows_descriptor_size(const MPI_Status& status) {
  int bytes = 0;
  return real.Get_count(&status, MPI_BYTE, &bytes) == MPI_SUCCESS &&
         bytes == static_cast<int>(p2p::kDescriptorBytes);
}

struct Seen {
  Comm* comm;
  SendDescriptor send;  // the described message it must be, if it is not ambiguous
  bool ambiguous;       // it may as well be a short message, or another send descriptor; or is of
                        // another node
};

// What a probe saw, by its status; nothing if it is certainly an ordinary message.
std::optional<Seen> identify(MPI_Comm handle, const MPI_Status& status) {
  if (!config.describing || !shows_descriptor_size(status)) return std::nullopt;
  Comm* comm = comms::find(handle);
  if (comm == nullptr) return std::nullopt;
  const std::int32_t there = comm->on_node(status.MPI_SOURCE);
  if (there < 0 && config.internode && comm->is_elsewhere(status.MPI_SOURCE)) {
    return Seen{.comm = comm, .send = {}, .ambiguous = true};
  }
  if (there < 0 || there == static_cast<std::int32_t>(config.me)) return std::nullopt;
  const auto sender = static_cast<std::uint32_t>(there);
  if (send_descriptors::is_kept(sender, comm->key, status.MPI_TAG)) {
    return Seen{.comm = comm, .send = {}, .ambiguous = true};
  }
  const auto send = send_descriptors::oldest(sender, comm->key, status.MPI_TAG);
  if (!send) return std::nullopt;
  // With several threads another one may be receiving the oldest send descriptor just now, or may
  // have sent a later one before it.
  const bool shorts =
      services.area(sender).short_sent[config.me].load(std::memory_order_relaxed) != 0;
  const bool oldest_first = send->says.ordered != 0 && !switches.threads;
  return Seen{.comm = comm, .send = *send, .ambiguous = shorts || !oldest_first};
}

// The content of a message that this rank sends to itself lives until the send is complete, which
// in some libraries is when the message is received.
struct Parcel {
  std::array<std::byte, p2p::kDescriptorBytes> content;
  MPI_Request sending = MPI_REQUEST_NULL;
};
std::list<Parcel> g_parcels;  // guarded by g_mutex

void post_parcel(const std::array<std::byte, p2p::kDescriptorBytes>& content, int tag) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_parcels.remove_if([](Parcel& parcel) {
    int flag = 0;
    real.Test(&parcel.sending, &flag, MPI_STATUS_IGNORE);
    return flag != 0;
  });
  Parcel& parcel = g_parcels.emplace_back(Parcel{.content = content});
  real.Isend(parcel.content.data(), static_cast<int>(content.size()), MPI_BYTE, 0, tag,
             config.self_comm, &parcel.sending);
}

struct Renewed {
  std::uint64_t bytes;                 // its true size
  std::optional<SendDescriptor> send;  // if it is a descriptor's of this node
};

// Receives the message of descriptor size behind `message`, sees what it is, and makes it a message
// again, sent from this rank to itself.
Renewed renew(MPI_Message* message) {
  std::array<std::byte, p2p::kDescriptorBytes> content{};
  MPI_Request request = MPI_REQUEST_NULL;
  next.Imrecv(content.data(), static_cast<int>(content.size()), MPI_BYTE, message, &request);
  wait_request(&request, MPI_STATUS_IGNORE);

  static std::atomic<std::uint32_t> serial{0};
  const int tag =
      tags::kRenewed[serial.fetch_add(1, std::memory_order_relaxed) % tags::kRenewed.count];
  post_parcel(content, tag);
  int flag = 0;
  wait::until([&] {
    real.Improbe(0, tag, config.self_comm, &flag, message, MPI_STATUS_IGNORE);
    return flag != 0;
  });
  if (!p2p::opens_descriptor(content.data(), config.key)) {
    return {.bytes = p2p::kDescriptorBytes, .send = std::nullopt};
  }
  p2p::Descriptor descriptor;
  std::memcpy(&descriptor, content.data(), sizeof descriptor);
  if (descriptor.from_world != 0) return {.bytes = descriptor.bytes, .send = std::nullopt};
  const SendDescriptor send = send_descriptors::of(descriptor);
  send_descriptors::note_taken_out(send);
  return {.bytes = descriptor.bytes, .send = send};
}

// An ambiguous message seen by a probe that leaves it in the library: taken out and set aside.
std::optional<std::uint64_t> set_aside(MPI_Comm comm, const MPI_Status& seen) {
  MPI_Message message{};
  int flag = 0;
  MPI_Status status{};
  next.Improbe(seen.MPI_SOURCE, seen.MPI_TAG, comm, &flag, &message, &status);
  if (flag == 0) return std::nullopt;  // another thread was faster
  const Renewed renewed = renew(&message);
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_kept.push_back({.comm = comm,
                    .message = {.message = message,
                                .envelope = {.source = seen.MPI_SOURCE, .tag = seen.MPI_TAG},
                                .send = renewed.send},
                    .bytes = renewed.bytes});
  set_aside_count.store(static_cast<std::uint32_t>(g_kept.size()), std::memory_order_relaxed);
  return renewed.bytes;
}

// A probe that finds a message set aside reports it without a look into the library.
bool peek_set_aside(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  if (set_aside_count.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> hold(g_mutex);
  for (const Kept& kept : g_kept) {
    if (!matches(kept, source, tag, comm)) continue;
    if (status != MPI_STATUS_IGNORE) {
      set_envelope(status, kept.message.envelope);
      set_bytes(status, kept.bytes);
      real.Status_set_cancelled(status, 0);
    }
    return true;
  }
  return false;
}

// A probe: what it asks for, and what its last look found.
struct Probing {
  int source;
  int tag;
  MPI_Comm comm;
  MPI_Status* users;
  MPI_Message* message;  // null for a probe that leaves its message where it is
  StatusOrOwn status{users};
  bool is_set_aside = false;
  int flag = 0;
  int code = MPI_SUCCESS;
};

// The part of a look that another thread may do for the one that probes. True if there is a
// message, or an error.
bool sees(Probing& probing) {
  auto& [source, tag, comm, users, message, status, is_set_aside, flag, code] = probing;
  is_set_aside = peek_set_aside(source, tag, comm, users);
  if (is_set_aside) {
    flag = 1;
    return true;
  }
  code = message == nullptr ? next.Iprobe(source, tag, comm, &flag, status.get())
                            : next.Improbe(source, tag, comm, &flag, message, status.get());
  return flag != 0 || code != MPI_SUCCESS;
}

// What was seen gets its true size. Another thread may have taken it: then nothing was seen.
void tell(Probing& probing) {
  if (probing.is_set_aside || probing.code != MPI_SUCCESS) return;
  const auto seen = identify(probing.comm, *probing.status.get());
  if (!seen) return;
  std::uint64_t bytes = seen->send.says.bytes;
  if (seen->ambiguous) {
    const auto kept = set_aside(probing.comm, *probing.status.get());
    if (!kept) {
      probing.flag = 0;
      return;
    }
    bytes = *kept;
  }
  set_bytes(probing.status.get(), bytes);
}

void remember_origin(MPI_Message message, const Origin& origin) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_origins[bits_of(message)] = origin;
}

void take_kept(Probing& probing) {
  const auto kept = take_set_aside(probing.source, probing.tag, probing.comm);
  if (!kept) {
    probing.flag = 0;
    return;
  }
  *probing.message = kept->message;
  remember_origin(*probing.message, {.comm = comms::share(comms::find(probing.comm)),
                                     .envelope = kept->envelope,
                                     .substitute = true,
                                     .send = kept->send});
}

// A message of a probe that takes it out: its true size into the status, its origin remembered.
void take(Probing& probing) {
  if (probing.code != MPI_SUCCESS) return;
  if (probing.is_set_aside) return take_kept(probing);
  MPI_Status* status = probing.status.get();
  const auto seen = identify(probing.comm, *status);
  if (!seen) return;
  Origin origin{.comm = comms::share(seen->comm),
                .envelope = {.source = status->MPI_SOURCE, .tag = status->MPI_TAG},
                .substitute = false,
                .send = seen->send};
  std::uint64_t bytes = seen->send.says.bytes;
  if (seen->ambiguous) {
    const Renewed renewed = renew(probing.message);
    bytes = renewed.bytes;
    origin.substitute = true;
    origin.send = renewed.send;
  } else {
    send_descriptors::note_taken_out(seen->send);
  }
  remember_origin(*probing.message, origin);
  set_bytes(status, bytes);
}

// Once. `settle`: tell or take.
int probe_once(Probing&& probing, void (*settle)(Probing&), int* flag) {
  if (sees(probing)) settle(probing);
  *flag = probing.flag;
  if (probing.code == MPI_SUCCESS && probing.flag == 0) looked_in_vain();
  return probing.code;
}

int probe_until_seen(Probing&& probing, void (*settle)(Probing&)) {
  do {
    wait::until_shared([&] { return sees(probing); });
    settle(probing);
  } while (probing.code == MPI_SUCCESS && probing.flag == 0);
  return probing.code;
}

}  // namespace

std::optional<SetAside> take_set_aside(int source, int tag, MPI_Comm comm) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = std::find_if(g_kept.begin(), g_kept.end(),
                               [&](const Kept& kept) { return matches(kept, source, tag, comm); });
  if (at == g_kept.end()) return std::nullopt;
  const SetAside found = at->message;
  g_kept.erase(at);
  set_aside_count.store(static_cast<std::uint32_t>(g_kept.size()), std::memory_order_relaxed);
  return found;
}

std::optional<Origin> take_origin(MPI_Message message) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = g_origins.find(bits_of(message));
  if (at == g_origins.end()) return std::nullopt;
  const Origin origin = at->second;
  g_origins.erase(at);
  return origin;
}

}  // namespace mh::mpi

// The wrappers, generated from calls.json.
#include "mpi/calls/probe.inc"
