// SPDX-License-Identifier: BSD-3-Clause
// The transport of node.hpp: byte rings in shared memory to and from the ranks of this node.
#include "lci/node.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "lci/job_state.hpp"
#include "manyhands/ult/sync.hpp"

namespace mh::lci::detail {
namespace {

// While polls of the node's rings return events, only every kPollsBetween-th poll also polls the
// network: with most providers a poll of the network is a system call.
constexpr unsigned kPollsBetween = 8;

constexpr std::size_t kNobody = ~std::size_t{0};

}  // namespace

class NodeTransport final : public Transport {
 public:
  NodeTransport(JobState& job, Neighbours neighbours, std::unique_ptr<Transport> far)
      : job_(job),
        far_(std::move(far)),
        own_(std::move(neighbours.all[neighbours.self].inbox)),
        index_(static_cast<std::size_t>(job.size()), kNobody),
        targets_(neighbours.all.size()),
        sources_(neighbours.all.size()) {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      Neighbours::One& one = neighbours.all[i];
      index_[static_cast<std::size_t>(one.rank)] = i;
      Target& target = targets_[i];
      target.pid = one.pid;
      target.inbox = std::move(one.inbox);
      const Inbox& inbox = i == neighbours.self ? own_ : target.inbox;
      target.ring = RingSender(inbox.ring(neighbours.self), inbox.ring_bytes());
      sources_[i].rank = one.rank;
      sources_[i].ring = RingReceiver(own_.ring(i), own_.ring_bytes());
    }
  }

  [[nodiscard]] int rank() const override { return job_.rank(); }
  [[nodiscard]] int size() const override { return job_.size(); }
  [[nodiscard]] bool is_near(int rank) const override { return index_of(rank) != kNobody; }
  [[nodiscard]] std::size_t memory() const override {
    return own_.bytes() + (far_ == nullptr ? 0 : far_->memory());
  }
  [[nodiscard]] std::size_t inject_limit(int rank) const override {
    const std::size_t i = index_of(rank);
    return i == kNobody ? far_->inject_limit(rank) : targets_[i].ring.most_payload();
  }
  [[nodiscard]] std::size_t post_limit() const override {
    return far_ == nullptr ? kNobody : far_->post_limit();
  }
  Status attach(std::span<std::byte> packets) override {
    return far_ == nullptr ? Status{} : far_->attach(packets);
  }

  Code inject(int rank, Header header, std::span<const std::byte> data) override {
    const std::size_t i = index_of(rank);
    if (i == kNobody) return far_->inject(rank, header, data);
    if (!job_.alive(rank)) return Code::gone;
    Target& target = targets_[i];
    const std::lock_guard guard(target.lock);
    return target.ring.send(header.pack(), data) ? Code::ok : Code::full;
  }

  Code send(int rank, Header header, std::span<const std::byte> payload,
            NetContext& context) override {
    if (!is_near(rank)) return far_->send(rank, header, payload, context);
    context.use = NetContext::Use::send;
    const Code code = inject(rank, header, payload);
    if (code == Code::ok) tell(context);
    return code;
  }

  Code post(std::span<std::byte> payload, NetContext& context, bool near) override {
    if (!near) return far_->post(payload, context, near);
    context.use = NetContext::Use::receive;
    posted_.push_back({payload, &context});
    return Code::ok;
  }

  Result<Region> add(int rank, std::span<std::byte> memory, bool writable) override {
    if (!is_near(rank)) return far_->add(rank, memory, writable);
    return Region{nullptr, reinterpret_cast<std::uint64_t>(memory.data()), 0, nullptr};
  }
  void remove(Region& region) override { far_->remove(region); }  // near regions have no handle

  Code put(int rank, Put& put, NetContext& context) override {
    const std::size_t i = index_of(rank);
    if (i == kNobody) return far_->put(rank, put, context);
    if (!job_.alive(rank)) return Code::gone;
    Target& target = targets_[i];
    context.use = NetContext::Use::put;
    if (const Code code = move(target, put); code != Code::ok) return code;
    // The header word of a ring record has the payload's size where `immediate` has `rank`, so
    // `rank` does not arrive. In a put to a granted buffer, `rank` holds the buffer's index and the
    // put's size instead (granted_place()). That number therefore travels as payload.
    const auto place = std::as_bytes(std::span(&put.immediate.rank, 1));
    const bool granted = put.immediate.kind == PacketKind::granted;
    const Code code = inject(rank, put.immediate, granted ? place : std::span<const std::byte>{});
    if (code == Code::ok) tell(context);
    return code;
  }

  std::size_t poll(std::span<NetEvent> events) override {
    std::size_t count = take_told(events);
    count += take_arrived(events.subspan(count));
    if (far_ != nullptr && (count == 0 || ++polls_ % kPollsBetween == 0)) {
      count += poll_far(events.subspan(count));
    }
    if (count == 0 && job_.deaths() != deaths_) return report_death(events[0]) ? 1 : 0;
    return count;
  }

 private:
  // A rank of this node, as the receiver of this rank's messages. Each Target has a cache line of
  // its own, since sending threads contend for `lock`.
  struct alignas(kCacheLine) Target {
    ult::SpinLock lock;  // guards `ring`
    // False after the kernel has refused process_vm_writev; puts to the target then go through the
    // ring. relaxed: a hint.
    std::atomic<bool> may_write{true};
    int pid = 0;
    RingSender ring;
    Inbox inbox;
  };
  struct Source {
    int rank = 0;
    enum class Life : std::uint8_t { alive, dying, dead } life = Life::alive;
    RingReceiver ring;
  };
  struct NodePacket {
    std::span<std::byte> payload;
    NetContext* context;
  };

  [[nodiscard]] std::size_t index_of(int rank) const {
    return index_[static_cast<std::size_t>(rank)];
  }

  // Queues the event of a finished send or put; poll() returns the event. release: partner is the
  // acquire in take_told(), which reads the context's link to the next one and its `use`.
  void tell(NetContext& context) {
    NetContext* next = told_.load(std::memory_order_relaxed);
    do {
      context.reserved[0] = next;
    } while (!told_.compare_exchange_weak(next, &context, std::memory_order_release,
                                          std::memory_order_relaxed));
  }
  std::size_t take_told(std::span<NetEvent> events) {
    if (taken_ == nullptr && told_.load(std::memory_order_relaxed) != nullptr) {
      taken_ = told_.exchange(nullptr, std::memory_order_acquire);
    }
    std::size_t count = 0;
    for (; taken_ != nullptr && count < events.size(); ++count) {
      NetContext& context = *taken_;
      taken_ = static_cast<NetContext*>(context.reserved[0]);
      const bool is_send = context.use == NetContext::Use::send;
      const auto kind = is_send ? NetEvent::Kind::sent : NetEvent::Kind::put_done;
      events[count] = {kind, Code::ok, {}, 0, &context};
    }
    return count;
  }

  // --- arrivals: messages in this rank's rings ------------------------------------------------

  // Reads this rank's rings from all ranks of the node. Each call starts at another ring, so no
  // sender is preferred.
  std::size_t take_arrived(std::span<NetEvent> events) {
    std::size_t count = 0;
    if (++first_ >= sources_.size()) first_ = 0;
    for (std::size_t step = 0; step < sources_.size(); ++step) {
      const std::size_t i = first_ + step;
      Source& source = sources_[i < sources_.size() ? i : i - sources_.size()];
      if (source.life != Source::Life::dead) count += take_from(source, events.subspan(count));
    }
    return count;
  }

  std::size_t take_from(Source& source, std::span<NetEvent> events) {
    std::size_t count = 0;
    while (count < events.size()) {
      const RingReceiver::RingRecord record = source.ring.next();
      if (record.word == 0) break;
      Header header = Header::unpack(record.word);
      header.rank = source.rank;
      const bool granted = header.kind == PacketKind::granted;
      if (granted) std::memcpy(&header.rank, record.payload.data(), sizeof header.rank);
      if (header.kind == PacketKind::chunk) {
        land(record.payload);
      } else if (header.kind == PacketKind::put || granted) {
        events[count++] = {NetEvent::Kind::put_arrived, Code::ok, header, 0, nullptr};
      } else {
        if (posted_.empty()) break;
        events[count++] = arrive(header, record.payload);
      }
      source.ring.done(record);
    }
    return count;
  }

  NetEvent arrive(const Header& header, std::span<const std::byte> data) {
    const NodePacket posted = posted_.back();  // the last posted may still be in the cache
    posted_.pop_back();
    const std::size_t size = std::min(data.size(), posted.payload.size());
    if (size != 0) std::memcpy(posted.payload.data(), data.data(), size);
    return {NetEvent::Kind::arrived, Code::ok, header, size, posted.context};
  }

  // Copies a part of a put that came through the ring to its destination, the address in front of
  // that part's bytes.
  static void land(std::span<const std::byte> payload) {
    std::uint64_t address = 0;
    std::memcpy(&address, payload.data(), sizeof address);
    const auto data = payload.subspan(sizeof address);
    std::memcpy(reinterpret_cast<void*>(address), data.data(), data.size());
  }

  std::size_t poll_far(std::span<NetEvent> events) {
    if (events.empty()) return 0;
    const std::size_t count = far_->poll(events);
    const bool is_ours =
        count == 1 && events[0].kind == NetEvent::Kind::gone && is_near(events[0].header.rank);
    return is_ours ? 0 : count;  // report_death() waits until the ring is empty
  }

  // Reports the death of a neighbour (a rank of this node) once, after a poll without events. The
  // neighbour may have sent messages after that poll read its ring. Its death is therefore reported
  // only after a second poll without events.
  bool report_death(NetEvent& event) {
    for (Source& source : sources_) {
      if (source.life == Source::Life::dead || job_.alive(source.rank)) continue;
      if (source.life == Source::Life::alive) {
        source.life = Source::Life::dying;
        continue;
      }
      source.life = Source::Life::dead;
      ++deaths_;
      event = {
          NetEvent::Kind::gone, Code::gone, {PacketKind::eager, 0, source.rank, 0}, 0, nullptr};
      return true;
    }
    return false;
  }

  // --- puts into the memory of a rank of this node --------------------------------------------

  // Copies to the target those bytes of a put that earlier calls have not copied. `full`: the ring
  // is full, and a part remains for a later call.
  static Code move(Target& target, Put& put) {
    if (put.moved < put.size && target.may_write.load(std::memory_order_relaxed)) {
      const Code code = write(target, put);
      if (code != Code::refused) return code;
      target.may_write.store(false, std::memory_order_relaxed);
    }
    const std::lock_guard guard(target.lock);
    while (put.moved < put.size) {
      const std::uint64_t address = put.address + put.moved;
      const std::size_t most = target.ring.most_payload() - sizeof address;
      const std::span chunk(put.data + put.moved, std::min(most, put.size - put.moved));
      const Header header{PacketKind::chunk, 0, 0, 0};
      if (!target.ring.send(header.pack(), std::as_bytes(std::span(&address, 1)), chunk)) {
        return Code::full;
      }
      put.moved += chunk.size();
    }
    return Code::ok;
  }

  static Code write(const Target& target, Put& put) {
    while (put.moved < put.size) {
      const iovec local{const_cast<std::byte*>(put.data) + put.moved, put.size - put.moved};
      const iovec remote{reinterpret_cast<void*>(put.address + put.moved), local.iov_len};
      const ssize_t done = ::process_vm_writev(target.pid, &local, 1, &remote, 1, 0);
      if (done <= 0) {
        const Code code = from_errno(errno).code;
        return code == Code::unsupported ? Code::refused : code;
      }
      put.moved += static_cast<std::size_t>(done);
    }
    return Code::ok;
  }

  JobState& job_;
  const std::unique_ptr<Transport> far_;
  const Inbox own_;
  std::vector<std::size_t> index_;  // of each rank among the neighbours, or kNobody
  std::vector<Target> targets_;

  // Finished sends and puts that poll() has not reported yet: a list of their contexts, the latest
  // first. release: tell(); acquire: take_told().
  alignas(kCacheLine) std::atomic<NetContext*> told_{nullptr};

  // The fields from here on are for the thread in poll() only.
  alignas(kCacheLine) NetContext* taken_ = nullptr;  // taken from told_, without an event yet
  std::vector<Source> sources_;
  std::vector<NodePacket> posted_;
  std::size_t first_ = 0;
  unsigned polls_ = 0;
  unsigned deaths_ = 0;
};

std::unique_ptr<Transport> join_node(Job& job, Neighbours neighbours,
                                     std::unique_ptr<Transport> far) {
  return std::make_unique<NodeTransport>(job.state(), std::move(neighbours), std::move(far));
}

}  // namespace mh::lci::detail
