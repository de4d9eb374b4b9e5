// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/letters.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/protocol/landing.hpp"
#include "mpi/protocol/ledger.hpp"
#include "mpi/protocol/moving.hpp"

namespace mh::mpi::letters {

std::atomic<std::uint32_t> kept_count{0};

namespace {

std::mutex g_mutex;  // guards what follows
// Letters whose descriptors a probe has taken out of the library; some may be received by now.
std::vector<Letter> g_taken_out;
std::vector<Kept> g_kept;  // the oldest first

void count_kept() {
  kept_count.store(static_cast<std::uint32_t>(g_kept.size()), std::memory_order_relaxed);
}

bool contains(const std::vector<Letter>& letters, const Letter& letter) {
  return std::find(letters.begin(), letters.end(), letter) != letters.end();
}

p2p::SendSlot& slot_of(const Letter& letter) {
  return services.area(letter.sender).outbox.slots[letter.slot];
}

// Letters to this rank, still posted, that the library has matched already: to a receive that the
// program has not completed yet (their descriptors lie in its buffers) or to a probe that took them
// out.
std::vector<Letter> matched() {
  std::vector<Letter> found;
  ledger.select([&](MPI_Request, const Entry& entry) {
    if (!entry.receipt.landing) return false;
    if (const auto descriptor = letter_in(entry.receipt.landing)) found.push_back(of(*descriptor));
    return false;
  });
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_taken_out, [](const Letter& letter) {
    if (slot_of(letter).state_of(letter.says.generation) == p2p::SlotState::posted) return false;
    return std::none_of(g_kept.begin(), g_kept.end(),
                        [&](const Kept& kept) { return kept.letter == letter; });
  });
  found.insert(found.end(), g_taken_out.begin(), g_taken_out.end());
  return found;
}

}  // namespace

Letter of(const p2p::Descriptor& descriptor) {
  return {.sender = descriptor.sender,
          .slot = descriptor.slot,
          .says = {.generation = descriptor.generation,
                   .bytes = descriptor.bytes,
                   .communicator = 0,
                   .sequence = 0,
                   .tag = 0,
                   .to = config.me,
                   .ordered = 0}};
}

void note_taken_out(const Letter& letter) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_taken_out.push_back(letter);
}

std::vector<Letter> unmatched(std::uint32_t sender,
                              const std::function<bool(const p2p::Posted&)>& wanted) {
  const auto gone = matched();
  std::vector<Letter> found;
  for (std::uint32_t slot = 0; slot < p2p::SharedOutbox::kSlots; ++slot) {
    const auto says = services.area(sender).outbox.slots[slot].posted();
    if (!says || says->to != config.me || !wanted(*says)) continue;
    const Letter letter{.sender = sender, .slot = slot, .says = *says};
    if (!contains(gone, letter)) found.push_back(letter);
  }
  std::sort(found.begin(), found.end(),
            [](const Letter& a, const Letter& b) { return a.says.sequence < b.says.sequence; });
  return found;
}

std::optional<Letter> oldest(std::uint32_t sender, std::uint64_t communicator, int tag) {
  const auto found = unmatched(sender, [&](const p2p::Posted& says) {
    return says.tag == tag && says.communicator == communicator;
  });
  if (found.empty()) return std::nullopt;
  return found.front();
}

void release_unread(const Letter& letter) {
  p2p::SendSlot& slot = slot_of(letter);
  if (slot.take(letter.says.generation)) release_sender(slot, letter.sender);
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_kept, [&](const Kept& kept) { return kept.letter == letter; });
  count_kept();
}

// ---- Doubtful letters --------------------------------------------------------------------------

namespace {

void add(Kept kept) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::uint64_t bytes = 0;
  for (const Kept& one : g_kept) bytes += one.letter.says.bytes;
  while (!g_kept.empty() && bytes > kMostKept) {
    bytes -= g_kept.front().letter.says.bytes;
    g_kept.erase(g_kept.begin());
  }
  g_kept.push_back(std::move(kept));
  count_kept();
}

// Brings the message here. It is kept before its sender may post another in the slot, so that who
// finds the letter over finds the message.
void keep(const Letter& letter) {
  p2p::SendSlot& slot = slot_of(letter);
  if (!slot.take(letter.says.generation)) return;
  const std::uint64_t bytes = letter.says.bytes;
  Kept kept{.letter = letter,
            .data = std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[bytes])};
  if (kept.data) {
    const p2p::Descriptor descriptor{.key = {},
                                     .sender = letter.sender,
                                     .slot = letter.slot,
                                     .bytes = bytes,
                                     .generation = letter.says.generation,
                                     .from_world = 0,
                                     .to_world = 0,
                                     .piece = 0,
                                     .seal = {}};
    bring(descriptor, slot, end_at(kept.data.get()), bytes, config.order);
    add(std::move(kept));
  }
  release_sender(slot, letter.sender);
}

// Whether a receive on that communicator, null if not known, may have met this letter of `sender`.
bool may_be_cut(const p2p::Posted& says, std::uint32_t sender, const Comm* comm,
                const MPI_Status& status) {
  if (says.tag != status.MPI_TAG) return false;
  if (comm != nullptr && says.communicator != comm->key) return false;
  const Comm* sent_on = comm != nullptr ? comm : comms::find_key(says.communicator);
  return sent_on == nullptr ||
         sent_on->on_node(status.MPI_SOURCE) == static_cast<std::int32_t>(sender);
}

}  // namespace

void truncated(const Comm* comm, const MPI_Status& status) {
  if (!(config.reaching || config.carrying)) return;
  for (std::uint32_t sender = 0; sender < config.ranks; ++sender) {
    if (sender == config.me) continue;
    const auto doubtful = unmatched(
        sender, [&](const p2p::Posted& says) { return may_be_cut(says, sender, comm, status); });
    // Of one communicator the library matches the oldest first.
    std::vector<std::uint64_t> seen;
    for (const Letter& letter : doubtful) {
      const bool first =
          std::find(seen.begin(), seen.end(), letter.says.communicator) == seen.end();
      const bool ordered = letter.says.ordered != 0 && !switches.threads;
      if (first || !ordered) keep(letter);
      seen.push_back(letter.says.communicator);
    }
  }
}

bool is_kept(std::uint32_t sender, std::uint64_t communicator, int tag) {
  if (kept_count.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> hold(g_mutex);
  return std::any_of(g_kept.begin(), g_kept.end(), [&](const Kept& kept) {
    const Letter& letter = kept.letter;
    return letter.sender == sender && letter.says.communicator == communicator &&
           letter.says.tag == tag;
  });
}

std::optional<Kept> take_kept(const p2p::Descriptor& descriptor) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = std::find_if(g_kept.begin(), g_kept.end(),
                               [&](const Kept& kept) { return kept.letter == of(descriptor); });
  if (at == g_kept.end()) return std::nullopt;
  Kept found = std::move(*at);
  g_kept.erase(at);
  count_kept();
  return found;
}

void forget_before(std::uint32_t sender, const p2p::SendSlot& later) {
  if (kept_count.load(std::memory_order_relaxed) == 0) return;
  // One that lies in the buffer of a receive was matched before, and may be fetched later.
  if (switches.threads || later.ordered == 0 || ledger.any()) return;
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_kept, [&](const Kept& kept) {
    const p2p::Posted& says = kept.letter.says;
    return kept.letter.sender == sender && says.communicator == later.communicator &&
           says.tag == later.tag && says.sequence < later.sequence &&
           !contains(g_taken_out, kept.letter);
  });
  count_kept();
}

}  // namespace mh::mpi::letters
