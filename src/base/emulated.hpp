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

// Bytes of a rank of the node.
struct Place {
  std::uint32_t rank;
  std::uint64_t address;
};
inline constexpr Place kOwnPlace{UINT32_MAX, 0};  // memory of this rank, wherever

enum class Access : std::uint8_t { read, write };

#ifdef MH_EMULATE

// Reports that the calling thread moves these bytes from the leaf's construction to its
// destruction. The destructor returns after the model's time. A leaf within a leaf counts nothing.
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

// Called once, before touch(), when the calling rank has mapped the node segment.
void enter(std::uint32_t me, const std::byte* segment);
// Tells the emulator of an access to a cache line of the segment that other cores access, too. The
// model adds the time of the line's way between two cores.
void touch(const void* line, Access access);
// Tells the emulator that a message was matched. The model adds the time of the header's way.
void match();
// Tells the emulator that the caller hands its core to a helper. The model adds the time of a
// hand-over.
void hand_over();
// The pause between two polls of a waiting rank. False: there is no emulation.
bool pause();
// The CPU of the model that this rank is on, or `real`.
std::int32_t cpu(std::int32_t real);
// hwloc's description of the model's machine; null: none.
const char* topology();
inline double dilation = 1;

#else

struct Leaf {
  constexpr Leaf(Way /*way*/, Place /*to*/, Place /*from*/, std::uint64_t /*bytes*/) {}
  ~Leaf() {}  // NOLINT(modernize-use-equals-default): no warning of an unused variable
  Leaf(const Leaf&) = delete;
  Leaf& operator=(const Leaf&) = delete;
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
