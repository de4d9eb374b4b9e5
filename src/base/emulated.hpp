// SPDX-License-Identifier: BSD-3-Clause
// The interface to emulated nodes: the library reports the work that it does and the cache lines
// that it touches.
//
// In the shipped library every function here is empty and inline. A build with the CMake option
// MH_EMULATE gets the functions of bench/emulate in their place, and runs a node of many cores on
// few. A thread does its work, and then sleeps until a model's time for the work has passed. All
// times of the model are stretched by a dilation, and so are the durations that the library
// computes from nanoseconds (clock.hpp). Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mh::emulated {

// The ways to move bytes that a model has rates for. `copy`: loads and stores of mapped memory.
// `kernel`: a single copy by the kernel. `twice`: two such copies through a scratch buffer.
// `blocks`: loads and stores of data with gaps. `reduce`: loads and stores that combine elements.
enum class Way : std::uint8_t { copy, kernel, twice, blocks, reduce };

// The place of bytes that are moved: the rank that has them, and their address in its process.
struct Place {
  std::uint32_t rank;
  std::uint64_t address;
};
inline constexpr Place kOwnPlace{UINT32_MAX, 0};  // memory of this rank, at any address

enum class Access : std::uint8_t { read, write };

#ifdef MH_EMULATE

// Tells the emulator that the calling thread moves these bytes between the construction and the
// destruction of this object. The destructor returns once the model's time for them has passed. A
// Leaf that lives inside another on the same thread counts nothing, so no byte counts twice.
class Leaf {
 public:
  Leaf(Way way, Place to, Place from, std::uint64_t bytes);
  ~Leaf();
  Leaf(const Leaf&) = delete;
  Leaf& operator=(const Leaf&) = delete;

 private:
  Way way_;
  Place to_;
  Place from_;
  std::uint64_t bytes_;
  std::int64_t begin_ = 0;
};

// Tells the emulator that the calling thread, a helper, runs on the core of rank `lender` between
// the construction and the destruction of this object.
class LentCore {
 public:
  explicit LentCore(std::uint32_t lender);
  ~LentCore();
  LentCore(const LentCore&) = delete;
  LentCore& operator=(const LentCore&) = delete;
};

// Tells the emulator the calling rank's number on the node, and the address at which the rank has
// mapped the node segment. Called once, before touch().
void enter(std::uint32_t me, const std::byte* segment);
// Tells the emulator of an access to a cache line of the segment that other cores access, too. The
// model adds the time of the line's way between two cores.
void touch(const void* line, Access access);
// Tells the emulator that the MPI library has matched an RTS header. The model adds the time that
// the header takes from sender to receiver.
void match();
// Tells the emulator that the caller hands its core to a helper. The model adds the time of a
// hand-over.
void hand_over();
// Sleeps between two polls of a waiting rank, which would otherwise spin on a core that emulated
// ranks share. False: nothing is emulated, and the caller spins.
bool pause();
// The CPU of the model's machine that the calling rank is on; without emulation the argument, which
// is the CPU of the real machine.
std::int32_t cpu(std::int32_t real);
// The model's machine as a synthetic topology of hwloc ("numa:2 core:18 pu:1"); null: nothing is
// emulated.
const char* topology();
inline double dilation = 1;

#else

struct Leaf {
  constexpr Leaf(Way /*way*/, Place /*to*/, Place /*from*/, std::uint64_t /*bytes*/) {}
  ~Leaf() {}  // NOLINT(modernize-use-equals-default): no warning of an unused variable
  Leaf(const Leaf&) = delete;
  Leaf& operator=(const Leaf&) = delete;
};
struct LentCore {
  constexpr explicit LentCore(std::uint32_t /*lender*/) {}
  ~LentCore() {}  // NOLINT(modernize-use-equals-default): no warning of an unused variable
  LentCore(const LentCore&) = delete;
  LentCore& operator=(const LentCore&) = delete;
};
constexpr void enter(std::uint32_t /*me*/, const std::byte* /*segment*/) {}
constexpr void touch(const void* /*line*/, Access /*access*/) {}
constexpr void match() {}
constexpr void hand_over() {}
constexpr bool pause() { return false; }
constexpr std::int32_t cpu(std::int32_t real) { return real; }
constexpr const char* topology() { return nullptr; }
inline constexpr double dilation = 1;

#endif

}  // namespace mh::emulated
