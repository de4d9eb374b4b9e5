// SPDX-License-Identifier: BSD-3-Clause
#include "p2p/carrier.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "base/clock.hpp"

namespace mh::p2p {
namespace {

constexpr std::size_t kScratchBytes = 64U << 10U;  // in and out of L2
// Blocks of this size are moved from or to their places by the kernel: a second copy of them would
// cost more than the kernel's look at each.
constexpr std::uint64_t kLongBlock = 2048;
constexpr std::size_t kBlocks = 64;  // a call of the kernel

memory::View at(const memory::View& view, std::uint64_t offset) {
  return {.address = view.address + offset, .pid = view.pid, .rank = view.rank};
}

std::byte* scratch() {
  thread_local const auto bytes = std::make_unique_for_overwrite<std::byte[]>(kScratchBytes);
  return bytes.get();
}

layout::Elements elements(const End& end) {
  return {.layout = end.layout, .count = end.count, .base = end.base};
}

void* contiguous(const End& end, std::uint64_t offset) {
  return reinterpret_cast<void*>(end.base + offset);
}

void pack(const End& from, layout::Range range, std::byte* to) {
  if (from.layout == nullptr) {
    std::memcpy(to, contiguous(from, range.begin), range.end - range.begin);
  } else {
    layout::pack(elements(from), range, to);
  }
}

void unpack(const End& to, layout::Range range, const std::byte* from) {
  if (to.layout == nullptr) {
    std::memcpy(contiguous(to, range.begin), from, range.end - range.begin);
  } else {
    layout::unpack(elements(to), range, from);
  }
}

bool has_long_blocks(const layout::Layout& layout) {
  return layout.size() / kLongBlock >= layout.blocks();
}

// Calls move(range, view) for pieces of a stretch, in order, until one fails.
template <class Move>
bool in_pieces(const Stretch& stretch, const memory::View& there, Move&& move) {
  const std::uint64_t end = stretch.offset + stretch.bytes;
  for (std::uint64_t begin = stretch.offset; begin < end; begin += kScratchBytes) {
    const layout::Range range{begin, std::min(begin + kScratchBytes, end)};
    if (!move(range, at(there, begin)).ok()) return false;
  }
  return true;
}

// Calls move(blocks, view) for the blocks of a stretch, as many at a time as one call takes.
template <class Move>
bool in_blocks(const End& here, const Stretch& stretch, const memory::View& there, Move&& move) {
  std::array<iovec, kBlocks> room;
  const std::uint64_t end = stretch.offset + stretch.bytes;
  for (std::uint64_t begin = stretch.offset; begin < end;) {
    const layout::Blocks found = layout::blocks(elements(here), {begin, end}, room);
    if (found.bytes == 0) return false;
    if (!move(std::span(room).first(found.used), at(there, begin)).ok()) return false;
    begin += found.bytes;
  }
  return true;
}

bool push_stretch(const End& from, const Stretch& stretch, const memory::View& there) {
  if (has_long_blocks(*from.layout)) {
    return in_blocks(from, stretch, there, [](std::span<iovec> blocks, const memory::View& to) {
      return memory::write(to, blocks);
    });
  }
  std::byte* const packed = scratch();
  return in_pieces(stretch, there, [&](layout::Range range, const memory::View& to) {
    pack(from, range, packed);
    return memory::write(to, packed, range.end - range.begin);
  });
}

bool pull_stretch(const End& to, const Stretch& stretch, const memory::View& there) {
  if (has_long_blocks(*to.layout)) {
    return in_blocks(to, stretch, there, [](std::span<iovec> blocks, const memory::View& from) {
      return memory::read(blocks, from);
    });
  }
  std::byte* const packed = scratch();
  return in_pieces(stretch, there, [&](layout::Range range, const memory::View& from) {
    const Status read = memory::read(packed, from, range.end - range.begin);
    if (read.ok()) unpack(to, range, packed);
    return read;
  });
}

layout::Range range_of(const Stretch& stretch) {
  return {stretch.offset, stretch.offset + stretch.bytes};
}

// So many chunks are worth a core that is lent for them.
constexpr std::uint32_t kWorthLending = 2;

}  // namespace

Carrier::Carrier(const node::Node& node, const Offsets& offsets, observe::Counters& counters,
                 lend::Pool& pool)
    : node_(node),
      offsets_(offsets),
      counters_(counters),
      pool_(pool),
      cell_bytes_(cell_bytes(node.ranks())) {}

Carrier::~Carrier() {
  if (exposed_.test(std::memory_order_relaxed)) pool_.withdraw(lend::Kind::belts);
}

// Belts offer nothing to whoever has a core: the other end of a message knows when to lend one.
void Carrier::let_helpers_in() {
  if (exposed_.test(std::memory_order_relaxed)) return;
  if (exposed_.test_and_set(std::memory_order_relaxed)) return;
  // Without helpers each side does its own part.
  static_cast<void>(pool_.expose(lend::Kind::belts, *this, 0));
}

Belts& Carrier::belts_of(std::uint32_t rank) const {
  return *reinterpret_cast<Belts*>(node_.area(rank) + offsets_.belts);
}

SharedOutbox& Carrier::outbox() const {
  return *reinterpret_cast<SharedOutbox*>(node_.area(node_.me()) + offsets_.outbox);
}

Belt& Carrier::belt_of(const OnBelt& on) const { return belts_of(on.receiver).belts[on.belt]; }

std::byte* Carrier::cell_of(const OnBelt& on, const Stretch& stretch) const {
  const std::size_t cell = std::size_t{on.belt} * Belt::kCells + Belt::cell_of(stretch);
  return node_.area(on.receiver) + offsets_.cells + cell * cell_bytes_;
}

void Carrier::count_moved(bool ok, std::uint64_t bytes, bool sent) {
  if (!ok) return;
  if (lend::guest() != lend::Guest::no) {
    counters_.lent_chunks.add_shared(1);
    counters_.lent_bytes.add_shared(bytes);
    return;
  }
  (sent ? counters_.own_chunks_sent : counters_.own_chunks_received).add(1);
  (sent ? counters_.own_bytes_sent : counters_.own_bytes_received).add(bytes);
}

// ---- Sender
// ----------------------------------------------------------------------------------------

void Carrier::announce(std::uint32_t slot, const End& from) {
  let_helpers_in();
  from_[slot] = from;
  announced_[slot / 64].fetch_or(1ULL << (slot % 64), std::memory_order_relaxed);
}

void Carrier::withdraw(std::uint32_t slot) {
  announced_[slot / 64].fetch_and(~(1ULL << (slot % 64)), std::memory_order_relaxed);
}

bool Carrier::fill(std::uint32_t slot) {
  const SendSlot& letter = outbox().slots[slot];
  // acquire: pairs with the receiver's claimed; `job` is of this letter or a later one, and a claim
  // for what it names decides.
  if (letter.state() != SlotState::claimed) return false;
  const std::uint64_t job = letter.job.load(std::memory_order_relaxed);
  if (!OnBelt::is(job)) return false;
  const OnBelt on = OnBelt::of(job);
  switch (on.how) {
    case Carriage::cells:
      return fill_cell(on, from_[slot]);
    case Carriage::push:
      return push(on, from_[slot]);
    case Carriage::pull:
      break;
  }
  return false;
}

bool Carrier::fill_cell(const OnBelt& on, const End& from) {
  Belt& belt = belt_of(on);
  Stretch stretch{};
  if (!belt.claim_fill(on.use, stretch)) return false;
  pack(from, range_of(stretch), cell_of(on, stretch));
  belt.filled(stretch);
  return true;
}

bool Carrier::push(const OnBelt& on, const End& from) {
  Belt& belt = belt_of(on);
  Stretch stretch{};
  if (!belt.claim_whole(on.use, stretch)) return false;
  const bool ok = push_stretch(from, stretch, belt.load().there);
  belt.finish(ok);
  count_moved(ok, stretch.bytes, true);
  return true;
}

// ---- Receiver
// --------------------------------------------------------------------------------------

std::optional<std::uint32_t> Carrier::begin(SendSlot& letter, std::uint32_t sender, const End& to,
                                            const Load& load) {
  std::uint32_t taken = taken_.load(std::memory_order_relaxed);
  std::uint32_t index = 0;
  do {
    index = static_cast<std::uint32_t>(std::countr_one(taken));
    if (index == kBelts) return std::nullopt;
    // acquire: pairs with the release in finish(); the thread that had the belt is done with it.
  } while (!taken_.compare_exchange_weak(taken, taken | 1U << index, std::memory_order_acquire,
                                         std::memory_order_relaxed));
  let_helpers_in();
  to_[index] = to;
  const OnBelt on{.receiver = node_.me(),
                  .belt = index,
                  .how = load.how,
                  .use = mine().belts[index].open(load)};
  senders_[index].store(sender, std::memory_order_relaxed);
  uses_[index].store(on.word(), std::memory_order_release);
  // Relaxed, then release: the sender's acquire of `claimed` sees where its message is.
  letter.job.store(on.word(), std::memory_order_relaxed);
  letter.change(SlotState::claimed);
  return index;
}

bool Carrier::finish(std::uint32_t belt) {
  const bool complete = !mine().belts[belt].failed();
  uses_[belt].store(0, std::memory_order_relaxed);
  taken_.fetch_and(~(1U << belt), std::memory_order_release);
  return complete;
}

bool Carrier::drain(std::uint32_t belt) {
  const std::uint64_t use = uses_[belt].load(std::memory_order_acquire);
  if (use == 0) return false;
  const OnBelt on = OnBelt::of(use);
  switch (on.how) {
    case Carriage::cells:
      return drain_cell(on);
    case Carriage::pull:
      return pull(on);
    case Carriage::push:
      break;
  }
  return false;
}

bool Carrier::drain_cell(const OnBelt& on) {
  Belt& belt = belt_of(on);
  Stretch stretch{};
  if (!belt.claim_drain(on.use, stretch)) return false;
  unpack(to_[on.belt], range_of(stretch), cell_of(on, stretch));
  belt.drained(stretch);
  count_moved(true, stretch.bytes, false);
  return true;
}

bool Carrier::pull(const OnBelt& on) {
  Belt& belt = belt_of(on);
  Stretch stretch{};
  if (!belt.claim_whole(on.use, stretch)) return false;
  const bool ok = pull_stretch(to_[on.belt], stretch, belt.load().there);
  belt.finish(ok);
  count_moved(ok, stretch.bytes, false);
  return true;
}

// ---- Either
// ----------------------------------------------------------------------------------------

bool Carrier::move_one() {
  for (std::uint32_t belt = 0; belt < kBelts; ++belt) {
    if (drain(belt)) return true;
  }
  return fill_any();
}

bool Carrier::fill_any() {
  for (std::uint64_t word = 0; word < kWords; ++word) {
    // relaxed: a hint, as in unit().
    std::uint64_t bits = announced_[word].load(std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1) {
      if (fill(static_cast<std::uint32_t>(word * 64) +
               static_cast<std::uint32_t>(std::countr_zero(bits)))) {
        return true;
      }
    }
  }
  return false;
}

std::optional<std::uint32_t> Carrier::late_sender() const {
  for (std::uint32_t index = 0; index < kBelts; ++index) {
    const std::uint64_t use = uses_[index].load(std::memory_order_acquire);
    if (use == 0) continue;
    const OnBelt on = OnBelt::of(use);
    if (on.how == Carriage::pull) continue;
    const Belt& belt = belt_of(on);
    const std::uint32_t left =
        on.how == Carriage::push ? belt.to_move(on.use) : belt.to_fill(on.use);
    if (left >= kWorthLending) return senders_[index].load(std::memory_order_relaxed);
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Carrier::late_receiver() const {
  for (std::uint64_t word = 0; word < kWords; ++word) {
    std::uint64_t bits = announced_[word].load(std::memory_order_relaxed);
    for (; bits != 0; bits &= bits - 1) {
      const auto slot = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
      const SendSlot& letter = outbox().slots[slot];
      if (letter.state() != SlotState::claimed) continue;
      const std::uint64_t job = letter.job.load(std::memory_order_relaxed);
      if (!OnBelt::is(job)) continue;
      const OnBelt on = OnBelt::of(job);
      if (on.how == Carriage::push) continue;
      const Belt& belt = belt_of(on);
      const std::uint32_t left =
          on.how == Carriage::pull ? belt.to_move(on.use) : belt.to_drain(on.use);
      if (left >= kWorthLending) return on.receiver;
    }
  }
  return std::nullopt;
}

std::optional<std::uint32_t> Carrier::who_is_late() const {
  const auto sender = late_sender();
  return sender ? sender : late_receiver();
}

bool Carrier::wanted() noexcept {
  // relaxed: a hint.
  if (taken_.load(std::memory_order_relaxed) != 0) return true;
  return std::any_of(announced_.begin(), announced_.end(),
                     [](const auto& word) { return word.load(std::memory_order_relaxed) != 0; });
}

void Carrier::unit(std::uint32_t /*helper*/, std::uint64_t deadline) noexcept {
  while (ticks() < deadline && move_one()) {
  }
}

}  // namespace mh::p2p
