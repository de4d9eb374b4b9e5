// SPDX-License-Identifier: BSD-3-Clause
// Few bytes of a window, contiguous there and on this side: straight by loads and stores where
// these reach, else kept until an epoch or a flush (onesided/kept.hpp), else asked of the target.
// Also the words of all operations: arguments as calls give them, and what became of a call.
//
// Whoever calls has seen that the operation may be, now. Any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "mpi/abi.hpp"
#include "mpi/datatype/datatypes.hpp"
#include "mpi/onesided/windows.hpp"
#include "onesided/operation.hpp"

namespace mh::mpi::rma {

// A buffer as a call gives it.
struct Buffer {
  const void* address = nullptr;
  MPI_Count count = 0;
  MPI_Datatype type{};
};

struct Target {
  int rank;
  MPI_Aint displacement;
  MPI_Count count;
  MPI_Datatype type;
};

// What became of a call: an MPI error code, or nothing where the library must say what is wrong.
// One word: a std::optional<int> is put together in memory from two stores where calls are inlined,
// and the load that follows waits for both (6 ns of the 13 that a put takes).
class Outcome {
 public:
  constexpr Outcome(int code) : code_(code) {}
  constexpr Outcome(std::nullopt_t /*none*/) : code_(kNone) {}
  [[nodiscard]] constexpr explicit operator bool() const { return code_ != kNone; }
  [[nodiscard]] constexpr int operator*() const { return code_; }

 private:
  static constexpr int kNone = std::numeric_limits<int>::min();  // no error code
  int code_;
};

// What could not be done, for want of memory there or because the kernel refuses.
int failed(const Win& win, Status why = {Code::system, 0});
inline int outcome(const Win& win, Status done) { return done ? MPI_SUCCESS : failed(win, done); }

inline constexpr std::uint64_t kAtOnce = 16U << 10U;  // copied without further ado

struct Stretch {
  std::uint64_t offset = 0;  // in what the target has exposed
  std::uint64_t bytes = 0;
};

// False where the short ways are not to be gone. The rank of the target is one of the window.
inline bool is_stretch(const Win& win, const Buffer& buffer, const Target& target, Stretch& found) {
  const auto own = datatypes::known(buffer.count, buffer.type);
  const auto there = datatypes::known(target.count, target.type);
  if (!own.contiguous || !there.contiguous || own.bytes != there.bytes || own.bytes > kAtOnce) {
    return false;
  }
  const onesided::Exposed& exposed = win.window.exposed(static_cast<std::uint32_t>(target.rank));
  found = {static_cast<std::uint64_t>(target.displacement) * exposed.unit, own.bytes};
  return found.offset <= exposed.bytes && own.bytes <= exposed.bytes - found.offset;
}

// Where loads and stores reach a stretch; null where they do not.
inline std::byte* here(const Win& win, const Target& target, const Stretch& stretch) {
  std::byte* const base = win.window.exposed(static_cast<std::uint32_t>(target.rank)).here;
  return base == nullptr ? nullptr : base + stretch.offset;
}

// An operation without a result on created memory that only the kernel reaches: kept. False where
// it is not to be; else `outcome` is set. `what` without bytes and target.
bool keep(Win& win, const void* origin, const Target& target, const Stretch& at,
          onesided::Operation what, Outcome& outcome);
// The same with a result: the target does it, if it is in MPI. False where it has not.
bool ask(Win& win, const Buffer& origin, const Buffer& result, const Target& target,
         const Stretch& at, onesided::Operation what, Outcome& outcome);

// Carries out what was kept, for one rank or for all: before an epoch or a flush is over. False if
// something has failed.
bool complete_kept_slow(Win& win, std::optional<std::uint32_t> target);
[[nodiscard]] inline bool complete_kept(Win& win,
                                        std::optional<std::uint32_t> target = std::nullopt) {
  return !win.window.has_kept() || complete_kept_slow(win, target);
}

}  // namespace mh::mpi::rma
