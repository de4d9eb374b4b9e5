// SPDX-License-Identifier: BSD-3-Clause
// The data of a device, and which file works on them.
//
//   DeviceState    packets, records, peers, endpoints, matching table      device.cpp
//   EndpointState  a protocol: functions chosen when it was opened         endpoint.cpp
//   Packet         a packet, in flight, posted, or with a message in it    arrival.cpp
//   LargeMessage   a large message under way, at either end                large.cpp
//   Grant          a buffer for a peer, and one of the peer's             grants.cpp
//   Peer           credits in both directions, and whether it lives        device.cpp, gone.cpp
//   Deferred       a step that could not be done now (no room, no packet): progress() tries again
//
// Flow control. Each rank has, for each peer, `credits` packets of that peer to send into. A
// message costs one; it comes back when the peer has consumed the message and has posted another
// packet, half of them at a time (Wire::credit). Answers to rendezvous and the credits themselves
// have packets of their own: as many as large messages to one peer may be under way, and
// kSpareReceives. So a posted packet is there for whatever arrives, and the transport buffers
// nothing without bound.
//
// Memory is fixed when the device is opened; nothing is allocated later but lines of the matching
// table, up to a limit, and messages of endpoints with dynamic allocation, by their allocator.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/cacheline.hpp"
#include "lci/matching_table.hpp"
#include "lci/packet_pool.hpp"
#include "lci/transport.hpp"
#include "manyhands/lci/device.hpp"

namespace mh::lci::detail {

struct Deferred {
  Deferred* next_deferred = nullptr;
  bool (*again)(DeviceState& device, Deferred& step) = nullptr;  // true: done with
};

// A receive that a user posted.
struct UserReceive : MatchNode {
  std::byte* buffer;
  std::size_t capacity;
  void* context;
  Synchronizer* done;  // it lies in this; nullptr: it is a PooledReceive
};
// One of an endpoint with a queue or a handler. It may have to wait for room in the queue to fail.
struct PooledReceive : UserReceive, Deferred {
  EndpointState* endpoint;
  std::int32_t rank;
  std::uint32_t tag;
};
// Tells such an endpoint of a death.
struct Notice : Deferred {
  EndpointState* endpoint;
  std::int32_t rank;
};

struct LargeMessage;

struct alignas(kCacheLine) Packet : NetContext, MatchNode, Deferred {
  Header header;
  std::size_t size;  // of the message, also of a large one
  EndpointState* endpoint;
  UserReceive* receive;  // that it has met; nullptr: nobody posts here, or none yet
  std::byte* place;      // where the message is or goes to; nullptr: not decided yet

  [[nodiscard]] std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(Packet) == 192);

// States of a record. Whoever moves it out of waiting_for() ends it or goes on with it.
inline constexpr std::uint64_t kIdle = 0;
inline constexpr std::uint64_t kPutting = 1;  // sender: the transport has the put
// Sender: for the rtr of `rank`; receiver: for its put.
constexpr std::uint64_t waiting_for(int rank, bool sends) {
  return static_cast<std::uint64_t>(rank) << 2U | (sends ? 3U : 2U);
}

struct alignas(kCacheLine) LargeMessage : NetContext, Deferred {
  // acq_rel everywhere: partner is the other one who wants to end it (a death, an arrival).
  std::atomic<std::uint64_t> phase{kIdle};
  bool sends;
  std::int32_t rank;
  EndpointState* endpoint;
  Packet* packet;        // receiver: of the rts
  UserReceive* receive;  // receiver
  Synchronizer* done;    // sender
  Event event;           // to be delivered at the end
  Region region;
  Put put;
};

// Of one endpoint and one peer.
struct alignas(kCacheLine) Grant : Deferred {
  // For the peer: told, filled, delivered, released, told again; one step at a time.
  Region region;
  Event event;  // of the message in it; endpoint, data and rank always
  // The peer's, for us.
  std::atomic<bool> usable{false};
  std::uint64_t address;
  std::uint64_t key;
};

struct alignas(kCacheLine) Peer : Deferred {
  // Senders. relaxed: counts; what they stand for is ordered by the network.
  std::atomic<std::int32_t> credits{0};
  std::atomic<std::int32_t> large{0};  // messages by rendezvous that may still be started
  std::size_t inject_limit = 0;        // fixed when the device is opened
  bool is_near = false;                // fixed, too
  // Set by progress() before it takes the peer's receives out of the table. relaxed: a receive that
  // was put there too late to be taken out looks at it after the lock of the same bucket.
  std::atomic<bool> gone{false};
  // Tasks that wait for a credit. seq_cst with `credits`: who waits says so and then looks at the
  // credits, who gives one back looks for waiters after that.
  std::atomic<bool> awaited{false};
  ult::SpinLock waiting_lock;  // of the queue
  ult::detail::WaitQueue waiting;

  // Consumers.
  alignas(kCacheLine) std::atomic<std::uint32_t> owed{0};  // packets consumed, not told yet
  std::atomic<bool> telling{false};                        // it is among the deferred
};

// Takes one of a count that must not go below zero.
inline bool take_one(std::atomic<std::int32_t>& count) {
  if (count.fetch_sub(1, std::memory_order_relaxed) > 0) return true;
  count.fetch_add(1, std::memory_order_relaxed);
  return false;
}

struct FreeLines {
  void operator()(std::byte* memory) const {
    ::operator delete[](memory, std::align_val_t{kCacheLine});
  }
};

struct EndpointState {
  DeviceState& device;
  const EndpointConfig config;
  const std::uint8_t id;
  const bool posts;  // receives are posted and matched

  // The protocol. False: not now.
  bool (*const place)(EndpointState& endpoint, Packet& packet);
  bool (*const deliver)(EndpointState& endpoint, const Event& event, Synchronizer* done);

  std::unique_ptr<Notice[]> notices;  // one for each rank; none with synchronizers
  std::unique_ptr<Grant[]> grants;    // one for each rank, or none
  std::unique_ptr<std::byte[], FreeLines> grant_memory;

  EndpointState(DeviceState& owner, const EndpointConfig& chosen, std::uint8_t number);

  Answer send(int rank, std::uint32_t tag, std::span<const std::byte> data, void* context,
              Synchronizer* done);
  Answer send_eager(int rank, std::uint32_t tag, std::span<const std::byte> data);
  LargeMessage* begin_send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                           void* context);
  void abandon(LargeMessage& record);  // what begin_send() took is free again
  Answer send_large(int rank, std::uint32_t tag, std::span<const std::byte> data, void* context,
                    Synchronizer* done);
  // grants.cpp
  Code make_grants();
  void tell_grants();
  void renew_grant(int rank);  // its message has been used
  void end_grants();           // before the transport goes
  [[nodiscard]] bool is_granted(int rank, std::size_t size) const;
  Answer send_granted(int rank, std::uint32_t tag, std::span<const std::byte> data, void* context);

  Answer receive(int rank, std::uint32_t tag, UserReceive& posted);
  Answer receive_pooled(int rank, std::uint32_t tag, std::span<std::byte> buffer, void* context);
  Answer receive_at(int rank, std::uint32_t tag, std::span<std::byte> buffer, Synchronizer& done);

  std::byte* allocate(std::size_t size) const;
  void free(std::byte* memory) const;
  void drain() const;  // the queue, of this endpoint's events
  static bool push(EndpointState& endpoint, const Event& event, Synchronizer* done);
  static bool synchronize(EndpointState& endpoint, const Event& event, Synchronizer* done);
  static void complete(const Event& event, Synchronizer* done);
  static bool handle(EndpointState& endpoint, const Event& event, Synchronizer* done);
};

// Counted on the line of the thread's lane. relaxed: read for reports only.
struct alignas(kCacheLine) LaneCounts {
  std::atomic<std::uint64_t> eager_sent{0}, eager_received{0}, large_sent{0}, large_received{0};
  std::atomic<std::uint64_t> unexpected{0}, deferred{0};
  std::array<std::atomic<std::uint64_t>, kRetryReasons> retries{};
};

// Packets for control messages of one peer beyond those of its rendezvous: two credits, a hello,
// and one more.
inline constexpr std::size_t kSpareReceives = 4;

// How the configured numbers are shared among peers.
struct Shares {
  std::size_t credits;                  // for each peer
  std::size_t large;                    // for each peer
  std::array<std::size_t, 2> receives;  // posted: to be filled by the far ranks, and by the near
  [[nodiscard]] std::size_t all_receives() const { return receives[0] + receives[1]; }
};
Shares shares_of(const DeviceConfig& config, const Transport& transport);

struct DeviceState {
  // nullptr: no memory, or the transport refused.
  static Result<std::unique_ptr<DeviceState>> make(std::unique_ptr<Transport> transport,
                                                   const DeviceConfig& config);
  DeviceState(std::unique_ptr<Transport> network, const DeviceConfig& config);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  Result<EndpointState*> open_endpoint(const EndpointConfig& config);
  std::size_t progress();
  [[nodiscard]] Counters counters() const;
  [[nodiscard]] std::size_t packet_bytes() const;  // of all packets, their heads included
  [[nodiscard]] bool has(int rank) const { return rank >= 0 && rank < transport->size(); }
  [[nodiscard]] bool is_gone(int rank) const {
    return peers[static_cast<std::size_t>(rank)].gone.load(std::memory_order_relaxed);
  }
  Peer& peer(int rank) { return peers[static_cast<std::size_t>(rank)]; }

  // --- any thread ---
  LaneCounts& count() { return counts[this_lane() & (kCountLanes - 1)]; }
  Answer retry(Retry reason);
  void defer(Deferred& step, bool (*again)(DeviceState&, Deferred&));
  void consume(Packet& packet);            // its message has been used, and its sender's credit
  void recycle(Packet& packet, int rank);  // it is to be posted again, for such as `rank`
  void give_credits(Peer& peer, std::int32_t count);
  void await_credit(int rank);  // returns when there may be one, or the peer is dead
  // arrival.cpp: a message that has met its receive, or needs none. False: try again.
  bool settle(Packet& packet);
  void settle_or_defer(Packet& packet);
  // large.cpp
  bool begin_transfer(Packet& packet);
  LargeMessage* take_record(int rank, EndpointState& endpoint, bool sends);
  void give_receive(UserReceive* receive);  // if it is of the pool
  PacketPool<LargeMessage>& free_records(bool sends) { return sends ? free_sends : free_arrivals; }
  void give_record(LargeMessage& record);
  bool put(LargeMessage& record);  // False: try again.
  void put_or_defer(LargeMessage& record);
  bool finish(LargeMessage& record);  // delivers its event. False: try again.
  void finish_or_defer(LargeMessage& record);

  // --- who makes progress ---
  void handle(const NetEvent& event);
  void handle_failure(const NetEvent& event);
  bool dispatch(Packet& packet);              // arrival.cpp
  void handle_credit(Packet& packet);         // device.cpp
  void handle_rtr(Packet& packet);            // large.cpp
  void handle_put(const Header& header);      // large.cpp
  void handle_grant(Packet& packet);          // grants.cpp
  void handle_granted(const Header& header);  // grants.cpp
  void put_done(LargeMessage& record, Code code);
  void handle_gone(int rank);  // gone.cpp
  void post_receives(bool near);
  void retry_deferred();

  static constexpr unsigned kCountLanes = 16;

  // Fixed when it is opened.
  std::unique_ptr<Transport> transport;
  const DeviceConfig config;
  const Shares shares;
  std::vector<Peer> peers;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> packet_memory;
  std::vector<LargeMessage> records;    // the first half for what is sent
  std::vector<PooledReceive> receives;  // of endpoints with a queue or a handler

  MatchingTable table;
  PacketPool<Packet> packets;
  // Apart: what is sent waits for the peers' records, and must not have taken those it is waited
  // for.
  PacketPool<LargeMessage> free_sends;
  PacketPool<LargeMessage> free_arrivals;
  PacketPool<PooledReceive> free_receives;
  std::array<LaneCounts, kCountLanes> counts;

  // Endpoints, in the order of their numbers. release: open_endpoint(); acquire: dispatch().
  std::array<std::atomic<EndpointState*>, kMaxEndpoints> endpoints{};

  alignas(kCacheLine) std::atomic<bool> progressing{false};  // acquire and release: a lock
  std::size_t greetings = 0;                                 // who makes progress: hellos
  // Receive packets to be posted, for far and for near ranks. Consumers add; release and acquire
  // with post_receives().
  alignas(kCacheLine) std::array<std::atomic<std::size_t>, 2> unposted{};

  alignas(kCacheLine) ult::SpinLock deferred_lock;  // of the list
  Deferred* first_deferred = nullptr;
  Deferred* last_deferred = nullptr;
  std::atomic<bool> any_deferred{false};  // relaxed: a look without the lock, seen sooner or later
};

}  // namespace mh::lci::detail
