// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/probe.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mpi/landing.hpp"
#include "mpi/ledger.hpp"
#include "mpi/message.hpp"
#include "mpi/outgoing.hpp"
#include "mpi/runtime.hpp"
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

// A use of a slot of some rank's outbox.
struct Letter {
  std::uint32_t sender;
  Slot slot;
  std::uint64_t generation;
  std::uint64_t sequence;
  std::uint64_t bytes;
  bool operator==(const Letter& other) const {
    return sender == other.sender && slot == other.slot && generation == other.generation;
  }
};
// Letters whose descriptors a probe has taken out of the library; some may be gone by now.
std::vector<Letter> g_taken_out;

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

Letter letter_of(const p2p::Descriptor& descriptor) {
  return {.sender = descriptor.sender,
          .slot = descriptor.slot,
          .generation = descriptor.generation,
          .sequence = 0,
          .bytes = descriptor.bytes};
}

// Letters to this rank, still posted, that the library has matched already: to a receive that the
// program has not completed yet (their descriptors lie in its buffers) or to a probe that took them
// out.
std::vector<Letter> matched_letters() {
  std::vector<Letter> found;
  ledger.select([&](MPI_Request, const Entry& entry) {
    if (!entry.receipt.landing) return false;
    if (const auto letter = letter_in(entry.receipt.landing)) found.push_back(letter_of(*letter));
    return false;
  });
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_taken_out, [](const Letter& letter) {
    const p2p::SendSlot& slot = g.area(letter.sender).outbox.slots[letter.slot];
    return slot.state_of(letter.generation) != p2p::SlotState::posted;
  });
  found.insert(found.end(), g_taken_out.begin(), g_taken_out.end());
  return found;
}

void note_taken_out(const Letter& letter) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_taken_out.push_back(letter);
}

// The oldest letter of `sender` to this rank with this tag that nothing has matched yet.
std::optional<Letter> oldest_letter(std::uint32_t sender, std::uint64_t comm_key, int tag) {
  const auto gone = matched_letters();
  std::optional<Letter> oldest;
  for (Slot slot = 0; slot < p2p::SharedOutbox::kSlots; ++slot) {
    p2p::SendSlot& letter = g.area(sender).outbox.slots[slot];
    // A posted letter to this rank changes only if its sender cancels it.
    if (letter.state() != p2p::SlotState::posted) continue;
    if (letter.to != g.me || letter.tag != tag || letter.communicator != comm_key) continue;
    const Letter found{.sender = sender,
                       .slot = slot,
                       .generation = letter.generation(),
                       .sequence = letter.sequence,
                       .bytes = letter.bytes};
    if (std::find(gone.begin(), gone.end(), found) != gone.end()) continue;
    if (!oldest || found.sequence < oldest->sequence) oldest = found;
  }
  return oldest;
}

struct Seen {
  Comm* comm;
  Letter letter;   // the described message it must be, if it is one
  bool ambiguous;  // it may as well be a short message, or another letter; or is of another node
};

// What a probe saw, by its status; nothing if it is certainly an ordinary message.
std::optional<Seen> identify(MPI_Comm handle, const MPI_Status& status) {
  if (!g.describing || !shows_descriptor_size(status)) return std::nullopt;
  Comm* comm = comms::find(handle);
  if (comm == nullptr) return std::nullopt;
  const std::int32_t there = comm->on_node(status.MPI_SOURCE);
  if (there < 0 && g.wiring && comm->is_elsewhere(status.MPI_SOURCE)) {
    return Seen{.comm = comm, .letter = {}, .ambiguous = true};
  }
  if (there < 0 || there == static_cast<std::int32_t>(g.me)) return std::nullopt;
  const auto sender = static_cast<std::uint32_t>(there);
  const auto letter = oldest_letter(sender, comm->key, status.MPI_TAG);
  if (!letter) return std::nullopt;
  // With several threads another one may be receiving the oldest letter just now.
  const bool shorts = g.area(sender).short_sent[g.me].load(std::memory_order_relaxed) != 0;
  return Seen{.comm = comm, .letter = *letter, .ambiguous = shorts || g.threads};
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
  real.Isend(parcel.content.data(), static_cast<int>(content.size()), MPI_BYTE, 0, tag, g.self_comm,
             &parcel.sending);
}

// Receives the message of descriptor size behind `message`, sees what it is, and makes it a message
// again, sent from this rank to itself. Returns its true size.
std::uint64_t renew(MPI_Message* message) {
  std::array<std::byte, p2p::kDescriptorBytes> content{};
  MPI_Request request = MPI_REQUEST_NULL;
  next.Imrecv(content.data(), static_cast<int>(content.size()), MPI_BYTE, message, &request);
  wait_request(&request, MPI_STATUS_IGNORE);

  static std::atomic<int> serial{0};
  const int tag = serial.fetch_add(1, std::memory_order_relaxed) & 0x3fff;
  post_parcel(content, tag);
  int flag = 0;
  wait::until([&] {
    real.Improbe(0, tag, g.self_comm, &flag, message, MPI_STATUS_IGNORE);
    return flag != 0;
  });
  if (!p2p::opens_descriptor(content.data(), g.key)) return p2p::kDescriptorBytes;
  p2p::Descriptor descriptor;
  std::memcpy(&descriptor, content.data(), sizeof descriptor);
  if (descriptor.from_world == 0) note_taken_out(letter_of(descriptor));
  return descriptor.bytes;
}

// An ambiguous message seen by a probe that leaves it in the library: taken out and set aside.
std::optional<std::uint64_t> set_aside(MPI_Comm comm, const MPI_Status& seen) {
  MPI_Message message{};
  int flag = 0;
  MPI_Status status{};
  next.Improbe(seen.MPI_SOURCE, seen.MPI_TAG, comm, &flag, &message, &status);
  if (flag == 0) return std::nullopt;  // another thread was faster
  const std::uint64_t bytes = renew(&message);
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_kept.push_back({.comm = comm,
                    .message = {.message = message,
                                .envelope = {.source = seen.MPI_SOURCE, .tag = seen.MPI_TAG}},
                    .bytes = bytes});
  set_aside_count.store(static_cast<std::uint32_t>(g_kept.size()), std::memory_order_relaxed);
  return bytes;
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

int look(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* users) {
  if (peek_set_aside(source, tag, comm, users)) {
    *flag = 1;
    return MPI_SUCCESS;
  }
  StatusOrOwn status(users);
  const int code = next.Iprobe(source, tag, comm, flag, status.get());
  if (code != MPI_SUCCESS || *flag == 0) return code;
  const auto seen = identify(comm, *status.get());
  if (!seen) return code;
  std::uint64_t bytes = seen->letter.bytes;
  if (seen->ambiguous) {
    const auto kept = set_aside(comm, *status.get());
    if (!kept) {
      *flag = 0;
      return MPI_SUCCESS;
    }
    bytes = *kept;
  }
  set_bytes(status.get(), bytes);
  return code;
}

void remember_origin(MPI_Message message, const Origin& origin) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_origins[bits_of(message)] = origin;
}

// A message of a probe that takes it out: its true size into the status, its origin remembered.
int take_look(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
              MPI_Status* users) {
  if (peek_set_aside(source, tag, comm, users)) {
    const auto kept = take_set_aside(source, tag, comm);
    *message = kept->message;
    *flag = 1;
    remember_origin(*message,
                    {.comm = comms::find(comm), .envelope = kept->envelope, .substitute = true});
    return MPI_SUCCESS;
  }
  StatusOrOwn status(users);
  const int code = next.Improbe(source, tag, comm, flag, message, status.get());
  if (code != MPI_SUCCESS || *flag == 0) return code;
  const auto seen = identify(comm, *status.get());
  if (!seen) return code;
  Origin origin{.comm = seen->comm,
                .envelope = {.source = status.get()->MPI_SOURCE, .tag = status.get()->MPI_TAG},
                .substitute = false};
  std::uint64_t bytes = seen->letter.bytes;
  if (seen->ambiguous) {
    bytes = renew(message);
    origin.substitute = true;
  } else {
    note_taken_out(seen->letter);
  }
  remember_origin(*message, origin);
  set_bytes(status.get(), bytes);
  return code;
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

void truncated(Comm* comm, const MPI_Status& status) {
  if (!g.describing) return;
  for (std::uint32_t sender = 0; sender < g.ranks; ++sender) {
    if (sender == g.me) continue;
    if (comm != nullptr && comm->on_node(status.MPI_SOURCE) != static_cast<std::int32_t>(sender)) {
      continue;
    }
    for (Slot slot = 0; slot < p2p::SharedOutbox::kSlots && comm == nullptr; ++slot) {
      // Without the communicator of the receive the letter's own is the only clue.
      const p2p::SendSlot& letter = g.area(sender).outbox.slots[slot];
      if (letter.state() != p2p::SlotState::posted) continue;
      if (letter.to != g.me || letter.tag != status.MPI_TAG) continue;
      release_unread(sender, slot, letter.generation());
      return;
    }
    if (comm == nullptr) continue;
    if (const auto letter = oldest_letter(sender, comm->key, status.MPI_TAG)) {
      release_unread(sender, letter->slot, letter->generation);
      return;
    }
  }
}

namespace wrap {

int Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  if (!g.active) return next.Iprobe(source, tag, comm, flag, status);
  const int code = look(source, tag, comm, flag, status);
  if (code == MPI_SUCCESS && *flag == 0) wait::polled_in_vain();
  return code;
}

int Probe(int source, int tag, MPI_Comm comm, MPI_Status* status) {
  if (!g.active) return next.Probe(source, tag, comm, status);
  int flag = 0;
  int code = MPI_SUCCESS;
  wait::until([&] {
    code = look(source, tag, comm, &flag, status);
    return flag != 0 || code != MPI_SUCCESS;
  });
  return code;
}

int Improbe(int source, int tag, MPI_Comm comm, int* flag, MPI_Message* message,
            MPI_Status* status) {
  if (!g.active) return next.Improbe(source, tag, comm, flag, message, status);
  const int code = take_look(source, tag, comm, flag, message, status);
  if (code == MPI_SUCCESS && *flag == 0) wait::polled_in_vain();
  return code;
}

int Mprobe(int source, int tag, MPI_Comm comm, MPI_Message* message, MPI_Status* status) {
  if (!g.active) return next.Mprobe(source, tag, comm, message, status);
  int flag = 0;
  int code = MPI_SUCCESS;
  wait::until([&] {
    code = take_look(source, tag, comm, &flag, message, status);
    return flag != 0 || code != MPI_SUCCESS;
  });
  return code;
}

}  // namespace wrap
}  // namespace mh::mpi
