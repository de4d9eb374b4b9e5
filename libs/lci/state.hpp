// SPDX-License-Identifier: BSD-3-Clause
// The data of a device, and the file that works on each type.
//
//   DeviceState    packets, records, peers, endpoints, matching table      device.cpp
//   EndpointState  a protocol: functions chosen when the endpoint opens    endpoint.cpp
//   Packet         a packet, in flight, posted, or with a message in it    arrival.cpp
//   LargeMessage   the record of a large message under way, at either end  large.cpp
//   Grant          this rank's buffer for a peer, and the peer's for us    grants.cpp
//   Peer           credits in both directions, and whether the peer lives  device.cpp, gone.cpp
//   Deferred       a step that could not be done yet: progress() repeats the step
//
// Flow control. Each rank has `credits` credits for each peer, and the peer has posted a packet for
// each credit. A message costs one credit. The peer returns the credit after it has consumed the
// message and posted another packet, and returns half of all credits at a time
// (PacketKind::credit). RTRs (answers to rendezvous requests), hellos (which open a connection) and
// credit messages cost no credit. A peer posts further packets for these: as many as large messages
// may be under way to one peer, plus kSpareReceives. Each message therefore finds a posted packet,
// and the transport's buffers are bounded.
//
// The memory of a device is fixed when the device is opened. Later allocations are lines of the
// matching table, up to a limit, and messages of endpoints with dynamic allocation.
//
// Thread-safety: the sections of DeviceState say which calls are for the thread in progress() only.
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
  bool (*again)(DeviceState& device, Deferred& step) = nullptr;  // true: the step is done
};

// A receive that a user posted. Until a message matches the receive, it waits in the matching
// table.
struct UserReceive : MatchNode {
  std::byte* buffer;
  std::size_t capacity;
  void* context;
  Synchronizer* done;  // contains this receive; nullptr: a PooledReceive
};
// A posted receive of an endpoint with a queue or a handler, from a pool of the device. If the
// receive fails, the completion that says so may have to wait for room in the queue (Deferred).
struct PooledReceive : UserReceive, Deferred {
  EndpointState* endpoint;
  std::int32_t rank;
  std::uint32_t tag;
};
// The notice of the death of `rank`, to be delivered to the queue or handler of an endpoint. The
// delivery may have to wait for room in the queue (Deferred).
struct Notice : Deferred {
  EndpointState* endpoint;
  std::int32_t rank;
};

struct LargeMessage;

struct alignas(kCacheLine) Packet : NetContext, MatchNode, Deferred {
  Header header;
  std::size_t size;  // of the message, also of a large one
  EndpointState* endpoint;
  UserReceive* receive;  // the matched receive; nullptr: none yet, or the endpoint posts none
  std::byte* place;      // where the message's bytes go; nullptr: not chosen yet

  [[nodiscard]] std::byte* payload() { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(Packet) == 192);

// Phases of the record of a large message. The thread that moves the record out of waiting_for()
// owns the record's next step.
inline constexpr std::uint64_t kIdle = 0;
inline constexpr std::uint64_t kPutting = 1;  // sender: the transport has the put
// The phase of a large message's record that waits: at the sender for the RTR (ready to receive) of
// `rank`, at the receiver for the put of `rank`.
constexpr std::uint64_t waiting_for(int rank, bool sends) {
  return static_cast<std::uint64_t>(rank) << 2U | (sends ? 3U : 2U);
}

struct alignas(kCacheLine) LargeMessage : NetContext, Deferred {
  // acq_rel: a thread that handles an arrival and one that handles the peer's death may both try to
  // end the record; the exchange of this word lets one of them do so.
  std::atomic<std::uint64_t> phase{kIdle};
  bool sends;
  std::int32_t rank;
  EndpointState* endpoint;
  Packet* packet;        // receiver: the packet of the RTS
  UserReceive* receive;  // receiver
  Synchronizer* done;    // of the send or the receive; nullptr: none
  Event event;           // delivered at the end; not `allocated` while the record is free
  Region region;
  Put put;
};

// The granted buffers of one endpoint and one peer, in both directions. A granted buffer takes one
// message of the peer by one put, without rendezvous.
struct alignas(kCacheLine) Grant : Deferred {
  // This rank's buffer for the peer. Its stages: granted, filled by a put, delivered, released,
  // granted again.
  Region region;
  Event event;  // of the message in the buffer; endpoint, data and rank are always set
  // The peer's buffer for this rank. `usable` is true from the arrival of the peer's grant until a
  // send takes the buffer. release: handle_grant(), after address and key; acquire: send_granted().
  std::atomic<bool> usable{false};
  std::uint64_t address;
  std::uint64_t key;
};

struct alignas(kCacheLine) Peer : Deferred {
  // The fields from here to `waiting` are for threads that send to the peer. The order is relaxed,
  // except where `awaited` needs more: credits and large messages are mere counts, and the network
  // orders the packets that they count.
  std::atomic<std::int32_t> credits{0};
  std::atomic<std::int32_t> large{0};  // messages by rendezvous that may still be started
  std::size_t inject_limit = 0;        // bytes; fixed when the device is opened
  bool is_near = false;                // fixed when the device is opened
  // True: the peer is dead. First handle_gone() sets `gone`, then it removes the peer's receives
  // from the matching table. relaxed: a receive that enters its bucket after the removal reads
  // `gone` after the lock of the same bucket.
  std::atomic<bool> gone{false};
  // True while tasks wait for a credit of this peer. seq_cst with `credits`: a waiter sets
  // `awaited`, then reads `credits`; give_credits() adds to `credits`, then reads `awaited`.
  std::atomic<bool> awaited{false};
  ult::SpinLock waiting_lock;  // guards `waiting`
  ult::detail::WaitQueue waiting;

  // The fields from here on are for threads that consume the peer's messages.
  alignas(kCacheLine) std::atomic<std::uint32_t> owed{0};  // credits to be returned to the peer
  std::atomic<bool> telling{false};                        // the Peer is on the deferred list
};

// Takes one from a count of credits or large messages. False: the count was not above zero, and
// nothing was taken; the count was one lower for a moment.
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
  const bool posts;  // the endpoint posts and matches receives

  // The endpoint's protocol, as two functions. place() chooses the memory of an arrived message
  // (Packet::place), deliver() delivers a completion. False: memory or room in the queue is
  // lacking; try again later.
  bool (*const place)(EndpointState& endpoint, Packet& packet);
  bool (*const deliver)(EndpointState& endpoint, const Event& event, Synchronizer* done);

  std::unique_ptr<Notice[]> notices;  // by rank; nullptr with synchronizers
  std::unique_ptr<Grant[]> grants;    // by rank; nullptr without grants
  std::unique_ptr<std::byte[], FreeLines> grant_memory;

  EndpointState(DeviceState& owner, const EndpointConfig& chosen, std::uint8_t number);

  Answer send(int rank, std::uint32_t tag, std::span<const std::byte> data, void* context,
              Synchronizer* done);
  Answer send_eager(int rank, std::uint32_t tag, std::span<const std::byte> data);
  LargeMessage* begin_send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                           void* context);
  void abandon(LargeMessage& record);  // returns what begin_send() took
  Answer send_large(int rank, std::uint32_t tag, std::span<const std::byte> data, void* context,
                    Synchronizer* done);
  // Granted buffers; these functions are in grants.cpp.
  Code make_grants();
  void send_grants();
  void renew_grant(int rank);  // after the release of the message in the buffer
  void end_grants();           // before the transport is destroyed
  [[nodiscard]] bool is_granted(int rank, std::size_t size) const;
  Answer send_granted(int rank, std::uint32_t tag, std::span<const std::byte> data, void* context);

  Answer receive(int rank, std::uint32_t tag, UserReceive& posted);
  Answer receive_pooled(int rank, std::uint32_t tag, std::span<std::byte> buffer, void* context);
  Answer receive_at(int rank, std::uint32_t tag, std::span<std::byte> buffer, Synchronizer& done);

  std::byte* allocate(std::size_t size) const;
  void free(std::byte* memory) const;
  void drain() const;  // removes this endpoint's events from the queue
  static bool push(EndpointState& endpoint, const Event& event, Synchronizer* done);
  static bool synchronize(EndpointState& endpoint, const Event& event, Synchronizer* done);
  static void complete(const Event& event, Synchronizer* done);
  static bool handle(EndpointState& endpoint, const Event& event, Synchronizer* done);
};

// The counters of a device for the threads of one lane (a group of threads that share counters,
// lane.hpp). relaxed: they are only read for reports.
struct alignas(kCacheLine) LaneCounts {
  std::atomic<std::uint64_t> eager_sent{0}, eager_received{0}, large_sent{0}, large_received{0};
  std::atomic<std::uint64_t> unexpected{0}, deferred{0};
  std::array<std::atomic<std::uint64_t>, kRetryReasons> retries{};
};

// Packets that this rank posts for the control messages of one peer, beyond the peer's RTRs (ready
// to receive): two credit messages, a hello (which opens the connection), and a spare.
inline constexpr std::size_t kSpareReceives = 4;

// The numbers of DeviceConfig (packets, large messages), divided among the peers.
struct Shares {
  std::size_t credits;                  // for each peer
  std::size_t large;                    // large messages under way, for each peer
  std::array<std::size_t, 2> receives;  // posted packets: [0] for far ranks, [1] for near ranks
  [[nodiscard]] std::size_t all_receives() const { return receives[0] + receives[1]; }
};
Shares shares_of(const DeviceConfig& config, const Transport& transport);

struct DeviceState {
  // Makes the state of a device over a transport. Errors: `misuse` (config), `full` (no memory),
  // `unsupported` (the transport posts too few packets), and those of Transport::attach().
  static Result<std::unique_ptr<DeviceState>> make(std::unique_ptr<Transport> transport,
                                                   const DeviceConfig& config);
  DeviceState(std::unique_ptr<Transport> network, const DeviceConfig& config);
  ~DeviceState();
  DeviceState(const DeviceState&) = delete;
  DeviceState& operator=(const DeviceState&) = delete;

  Result<EndpointState*> open_endpoint(const EndpointConfig& config);
  std::size_t progress();
  [[nodiscard]] Counters counters() const;
  [[nodiscard]] std::size_t packet_bytes() const;  // of all packets, with sizeof(Packet) each
  [[nodiscard]] bool has(int rank) const { return rank >= 0 && rank < transport->size(); }
  [[nodiscard]] bool is_gone(int rank) const {
    return peers[static_cast<std::size_t>(rank)].gone.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_served() const { return servers.load(std::memory_order_relaxed) != 0; }
  Peer& peer(int rank) { return peers[static_cast<std::size_t>(rank)]; }

  // --- any thread may call these functions ---
  LaneCounts& count() { return counts[this_lane() & (kCountLanes - 1)]; }
  Answer retry(Retry reason);
  void defer(Deferred& step, bool (*again)(DeviceState&, Deferred&));
  void consume(Packet& packet);            // recycles the packet and owes its sender a credit
  void recycle(Packet& packet, int rank);  // frees the packet and adds to `unposted` of `rank`
  void give_credits(Peer& peer, std::int32_t count);
  void await_credit(int rank);  // returns when a credit may be free, or the peer is dead
  // Places and delivers an arrived message that is matched, or needs no receive (arrival.cpp).
  // False: memory or room in a queue is lacking; try again.
  bool settle(Packet& packet);
  void settle_or_defer(Packet& packet);
  static bool settle_again(DeviceState& device, Deferred& step);
  // Large messages. These functions are in large.cpp, except give_receive(), which returns a
  // receive to its pool (device.cpp).
  bool begin_transfer(Packet& packet);
  LargeMessage* take_record(int rank, EndpointState& endpoint, bool sends);
  void give_receive(UserReceive* receive);  // a PooledReceive, or nullptr
  PacketPool<LargeMessage>& free_records(bool sends) { return sends ? free_sends : free_arrivals; }
  void give_record(LargeMessage& record);
  bool put(LargeMessage& record);  // False: try again.
  void put_or_defer(LargeMessage& record);
  bool finish(LargeMessage& record);  // delivers the record's event. False: try again.
  void finish_or_defer(LargeMessage& record);

  // --- only the thread in progress() calls these functions ---
  void handle(const NetEvent& event);
  void handle_failure(const NetEvent& event);
  bool dispatch(Packet& packet);                   // arrival.cpp
  void handle_credit(Packet& packet);              // device.cpp
  void handle_rtr(Packet& packet);                 // large.cpp
  void handle_put(const Header& header);           // large.cpp
  void handle_grant(Packet& packet);               // grants.cpp
  void handle_granted(const Header& header);       // grants.cpp
  void put_done(LargeMessage& record, Code code);  // on any thread if a put fails at once
  void handle_gone(int rank);                      // gone.cpp; as put_done()
  void post_receives(bool near);
  void retry_deferred();
  void free_undelivered();  // at the end

  static constexpr unsigned kCountLanes = 16;

  // The objects from here to `receives` are made when the device is opened, and not replaced later.
  std::unique_ptr<Transport> transport;
  const DeviceConfig config;
  const Shares shares;
  std::vector<Peer> peers;
  std::unique_ptr<std::byte[], void (*)(std::byte*)> packet_memory;
  std::vector<LargeMessage> records;    // the first half is for sends
  std::vector<PooledReceive> receives;  // of endpoints with a queue or a handler

  MatchingTable table;
  PacketPool<Packet> packets;
  // Separate pools of the records of large messages, for sends and for arrivals. A large send waits
  // until its receiver has a free record. Ranks that send to each other would wait for ever if
  // sends used up the records of arrivals.
  PacketPool<LargeMessage> free_sends;
  PacketPool<LargeMessage> free_arrivals;
  PacketPool<PooledReceive> free_receives;
  std::array<LaneCounts, kCountLanes> counts;

  // The endpoints by their numbers. release: open_endpoint(), which has made the endpoint; acquire:
  // dispatch(), for an arrived packet.
  std::array<std::atomic<EndpointState*>, kMaxEndpoints> endpoints{};

  alignas(kCacheLine) std::atomic<bool> progressing{false};  // acquire and release: a lock
  // The number of threads and tasks in serve(). relaxed, a hint: a task that sees a server too late
  // makes progress itself a little longer.
  std::atomic<std::uint32_t> servers{0};
  std::size_t greetings = 0;  // hellos received; for the thread in progress()
  // The number of packets that progress() still has to post as receives: [0] for far ranks, [1] for
  // near ranks (of this node). release: recycle(); acquire: post_receives().
  alignas(kCacheLine) std::array<std::atomic<std::size_t>, 2> unposted{};

  alignas(kCacheLine) ult::SpinLock deferred_lock;  // guards the two pointers below
  Deferred* first_deferred = nullptr;
  Deferred* last_deferred = nullptr;
  std::atomic<bool> any_deferred{false};  // relaxed: a hint; a late read delays the step only
};

}  // namespace mh::lci::detail
