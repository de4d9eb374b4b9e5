// SPDX-License-Identifier: BSD-3-Clause
// What a device needs of a network: packets to peers, puts into registered memory, and events.
// Implementations: memory shared by the ranks of a node (node.hpp), libfabric (fabric.hpp), and
// ranks of one process (loopback.hpp), for tests.
//
// Calls that send answer `ok`, `full` (take it back, try again later), `gone` (the peer is dead) or
// `system`. Only on `ok` does the transport keep what it was given; what it keeps comes back in an
// event. All calls from any thread, except that post() and poll() are called by one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lci/wire.hpp"
#include "manyhands/result.hpp"

namespace mh::lci::detail {

// The first part of everything that a transport keeps for a while.
struct NetContext {
  enum class Use : std::uint8_t { receive, send, put };
  void* reserved[8];  // the transport's own
  Use use;            // what it was last given for, set by the transport
};

struct Region {
  void* handle = nullptr;  // nullptr: none
  std::uint64_t address = 0;
  std::uint64_t key = 0;
  void* descriptor = nullptr;
};

struct Put {
  const std::byte* data;
  std::size_t size;
  void* descriptor;  // of the local region
  std::uint64_t address;
  std::uint64_t key;
  Header immediate;
  std::size_t moved;  // the transport's own; 0 at the start
};

struct NetEvent {
  enum class What : std::uint8_t {
    arrived,      // context: the posted packet; header, size
    sent,         // context: the packet, free again
    put_done,     // context: the put's; the peer's memory has it or will have it
    put_arrived,  // header: the immediate; the data are there
    failed,       // context: of a send or put, which has not arrived; code
    unposted,     // context: a posted packet, free again, without a message
    gone,         // header.rank has died; once
  };
  What what;
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
  // Near ranks and the others have posted packets of their own.
  [[nodiscard]] virtual bool is_near(int /*rank*/) const { return false; }
  // Bytes for messages that it has beside the packets, as far as they are known.
  [[nodiscard]] virtual std::size_t memory() const { return 0; }
  // Bytes that inject() takes.
  [[nodiscard]] virtual std::size_t inject_limit(int rank) const = 0;
  // Packets that can be posted at a time.
  [[nodiscard]] virtual std::size_t post_limit() const = 0;
  // All packets lie there; called once, before anything else.
  virtual Status attach(std::span<std::byte> packets) = 0;

  // Copies the data before it returns; no event follows.
  virtual Code inject(int rank, Header header, std::span<const std::byte> data) = 0;
  virtual Code send(int rank, Header header, std::span<const std::byte> payload,
                    NetContext& context) = 0;
  virtual Code post(std::span<std::byte> payload, NetContext& context, bool near) = 0;

  // Memory for puts from or to a rank; `writable`: that one puts into it. Without a handle nothing
  // has to be removed.
  virtual Result<Region> add(int rank, std::span<std::byte> memory, bool writable) = 0;
  virtual void remove(Region& region) = 0;
  virtual Code put(int rank, Put& put, NetContext& context) = 0;

  // How many events it wrote.
  virtual std::size_t poll(std::span<NetEvent> events) = 0;
};

}  // namespace mh::lci::detail
