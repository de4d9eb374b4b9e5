// SPDX-License-Identifier: BSD-3-Clause
// The transport interface of a device: packets to peers, puts into registered memory, and events.
// Implementations: memory shared by the ranks of a node (node.hpp), libfabric (fabric.hpp), and
// ranks of one process (loopback.hpp), for tests.
//
// Calls that send return `ok`, `full` (the caller tries again later), `gone` (the peer is dead) or
// `system` (the network has failed). The transport keeps the caller's NetContext only after `ok`,
// and returns it in an event when the operation ends.
//
// Thread-safety: all calls from any thread, but post() and poll() from one thread at a time, the
// thread that makes progress.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lci/wire.hpp"
#include "manyhands/result.hpp"

namespace mh::lci::detail {

// The base of every packet and record that a transport keeps from the call of send(), put() or
// post() until the operation's event.
struct NetContext {
  enum class Use : std::uint8_t { receive, send, put };
  void* reserved[8];  // for the transport
  Use use;            // the last operation, set by the transport
};

// Memory that is registered with the transport, as the source or the target of a put.
struct Region {
  void* handle = nullptr;      // nullptr: remove() is not needed
  std::uint64_t address = 0;   // for the peer's put into the region
  std::uint64_t key = 0;       // for the peer's put into the region
  void* descriptor = nullptr;  // for this rank's put from the region
};

struct Put {
  const std::byte* data;
  std::size_t size;       // bytes
  void* descriptor;       // of the local region
  std::uint64_t address;  // of the peer's region
  std::uint64_t key;      // of the peer's region
  Header immediate;       // for the peer's event `put_arrived`
  std::size_t moved;      // bytes, for the transport; 0 at the start
};

struct NetEvent {
  enum class Kind : std::uint8_t {
    arrived,      // context: the posted packet; header, size
    sent,         // context: the packet, free again
    put_done,     // context: the put, whose data are in the peer's memory or soon will be
    put_arrived,  // header: the immediate; the data are in place
    failed,       // context: a send or put that has not arrived; code
    unposted,     // context: a posted packet, free again, without a message
    gone,         // header.rank has died; once for each rank
  };
  Kind kind;
  Code code;
  Header header;
  std::size_t size;
  NetContext* context;
};

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // True: the rank is near (on this node). Messages of near and of far ranks go to separate posted
  // packets.
  [[nodiscard]] virtual bool is_near(int /*rank*/) const { return false; }
  // Bytes of the buffers that the transport itself has for messages, beside the packets, as far as
  // the number is known.
  [[nodiscard]] virtual std::size_t memory() const { return 0; }
  // The most bytes of data in one inject() to `rank`.
  [[nodiscard]] virtual std::size_t inject_limit(int rank) const = 0;
  // The most packets that may be posted at a time.
  [[nodiscard]] virtual std::size_t post_limit() const = 0;
  // Tells the transport the memory of all packets, for registration. Called once, before the first
  // post and send.
  virtual Status attach(std::span<std::byte> packets) = 0;

  // Sends a short message. The call copies the data before it returns, so no event follows.
  virtual Code inject(int rank, Header header, std::span<const std::byte> data) = 0;
  // Sends a message from the payload of a packet. The event `sent`, from poll(), returns the packet
  // to the caller.
  virtual Code send(int rank, Header header, std::span<const std::byte> payload,
                    NetContext& context) = 0;
  // Posts a packet for the arrival of one message of any rank of this node (`near`), or of any rank
  // of another node.
  virtual Code post(std::span<std::byte> payload, NetContext& context, bool near) = 0;

  // Registers memory for puts to or from a rank; `writable`: `rank` puts into the memory. A region
  // without a handle needs no remove().
  virtual Result<Region> add(int rank, std::span<std::byte> memory, bool writable) = 0;
  virtual void remove(Region& region) = 0;
  virtual Code put(int rank, Put& put, NetContext& context) = 0;

  // Advances the network, writes the events of finished operations and arrived messages, and
  // returns their number.
  virtual std::size_t poll(std::span<NetEvent> events) = 0;
};

}  // namespace mh::lci::detail
