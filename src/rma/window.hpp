// SPDX-License-Identifier: BSD-3-Clause
// A window as one of its ranks has it: whose memory lies where, and who carries out operations.
//
// An operation is carried out by its origin, at the call. A large one becomes a job in the origin's
// part of the window's shared memory; every rank of the window that waits takes chunks of it
// (help()), as of messages. Chunks of an atomic operation end where stripes of the target do, so
// two of them seldom want one lock.
//
// Short operations on memory that only the kernel reaches are kept, a list for each target
// (kept.hpp): whoever completes an epoch, flushes, or does anything else there carries them out
// first. A target on another node is sent the parts of an operation (piece.hpp), which it carries
// out likewise.
//
// Knows no MPI and waits for nothing. Limits: kMaxRanks ranks; jobs only where all three ends are
// regular (layout/compact.hpp), of others the origin does all.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/reach.hpp"
#include "node/node.hpp"
#include "rma/control.hpp"
#include "rma/epochs.hpp"
#include "rma/executor.hpp"
#include "rma/kept.hpp"
#include "rma/operation.hpp"
#include "steal/slots.hpp"

namespace mh::rma {

// The memory that a rank of the window has exposed.
struct Exposed {
  std::uint64_t base = 0;  // there
  std::uint64_t bytes = 0;
  std::uint64_t unit = 1;       // bytes of a displacement
  std::uint32_t node_rank = 0;  // whose it is
  pid_t pid = 0;
  std::byte* here = nullptr;  // `base`, where this process maps it; null if it does not

  static constexpr std::uint32_t kElsewhere = ~std::uint32_t{0};  // node_rank: on another node
  [[nodiscard]] bool is_elsewhere() const { return node_rank == kElsewhere; }
};

// Which bytes around an address an end covers.
struct Extent {
  std::int64_t low = 0;
  std::int64_t high = 0;

  [[nodiscard]] std::uint64_t bytes() const { return static_cast<std::uint64_t>(high - low); }
};
Extent extent_of(const layout::Layout* layout, std::uint64_t count, std::uint64_t bytes);

// What one thread works with.
class Hands {
 public:
  Hands(const node::Node& node, const memory::Reach& reach);

  [[nodiscard]] Executor& executor() { return executor_; }
  [[nodiscard]] const Liveness& liveness() const { return liveness_; }
  [[nodiscard]] const node::Node& node() const { return *node_; }

 private:
  friend class Window;
  // An end that its owner described, as this process reaches it.
  End end_of(const SharedEnd& shared, std::size_t number);

  const node::Node* node_;
  const memory::Reach* reach_;
  Liveness liveness_;
  Executor executor_;
  std::array<layout::LastLayout, 3> known_;  // of the ends of the last job
};

class Window {
 public:
  // `control`: the same memory for all ranks, which outlives this. `exposed` by rank in the window.
  Window(const Control& control, std::uint32_t me, std::vector<Exposed> exposed);

  [[nodiscard]] std::uint32_t me() const { return me_; }
  [[nodiscard]] std::uint32_t ranks() const { return control_.ranks(); }
  [[nodiscard]] const Control& control() const { return control_; }
  [[nodiscard]] const Exposed& exposed(std::uint32_t rank) const { return exposed_[rank]; }
  [[nodiscard]] Epochs& epochs() { return epochs_; }

  // The end of an operation at `address` of that rank. Nothing if it is not all in its window.
  [[nodiscard]] std::optional<End> target_end(std::uint32_t rank, std::uint64_t address,
                                              const layout::Layout* layout, std::uint64_t count,
                                              std::uint64_t bytes,
                                              const memory::Reach& reach) const;

  // Asks the target to carry out a small operation, contiguous at all ends, and waits a little.
  // Nothing if the target did not take it: it is not in MPI just now, and nothing was done.
  std::optional<Status> ask_target(const Hands& hands, const Task& task,
                                   const void* compare = nullptr);
  // Keeps a short operation without a result, contiguous at both ends. False where it is not to be
  // kept, or the list of its target has no room. One thread at a time, as carry_out_kept().
  bool keep(const Operation& what, std::uint64_t address, const void* origin);
  // relaxed: of what this thread has kept.
  [[nodiscard]] bool has_kept() const { return kept_lists_.load(std::memory_order_relaxed) != 0; }
  // What was kept for that rank.
  Status carry_out_kept(Hands& hands, std::uint32_t target);

  // Carries out what others have asked this rank for. Never blocks; a load where nobody has.
  void serve(Hands& hands);

  // One chunk of an operation of another rank that may_help(its rank on the node). False if there
  // was none. `helped` gets its bytes and whose operation it was.
  struct Helped {
    std::uint64_t bytes = 0;
    std::uint32_t owner = 0;  // rank on the node
  };
  bool help(Hands& hands, bool (*may_help)(std::uint32_t), Helped& helped);

 private:
  friend class Running;

  bool help_rank(Hands& hands, std::uint32_t rank, Helped& helped);
  Status run_shared(Hands& hands, const SharedJob& job, const steal::Chunk& chunk);
  template <class Fill, class Read>
  std::optional<Status> ask(const Hands& hands, std::uint32_t target, Fill&& fill, Read&& read);
  void serve_one(Hands& hands, std::uint32_t origin);
  Status carry_out(Hands& hands, ActiveMessage& message);

  Control control_;
  std::uint32_t me_;
  std::vector<Exposed> exposed_;
  Epochs epochs_;
  steal::SlotBits slots_;                       // of this rank's jobs
  std::atomic_flag asking_ = ATOMIC_FLAG_INIT;  // this rank's active message is in use
  std::vector<std::uint8_t> reluctance_;  // by target: how many of its next operations go straight
  std::vector<std::unique_ptr<KeptList>> kept_;  // by target; null where nothing ever was kept
  std::atomic<std::uint32_t> kept_lists_{0};     // of them not empty
};

// An operation under way. Belongs to the thread of the owner that began it.
class Running {
 public:
  // `shared`: others can reach all its ends. `chunk_bytes`: how much is done at a time.
  Running(Window& window, const Task& task, std::uint32_t chunk_bytes, bool shared);
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() { close(); }

  // Carries out one chunk, if one is left. True when all are done or one has failed.
  [[nodiscard]] bool step(Hands& hands);
  [[nodiscard]] bool all_claimed() const { return job_ != nullptr && !job_->job.has_work(); }
  // After step() said so.
  [[nodiscard]] bool succeeded() const {
    return succeeded_ && (job_ == nullptr || !job_->job.failed());
  }
  // Chunks are in dead hands: they will never be done.
  void give_up();

 private:
  void open(std::uint32_t chunk_bytes);
  [[nodiscard]] std::uint32_t slot() const;
  void close();

  Window& window_;
  const Task& task_;
  std::uint64_t lead_ = 0;  // bytes before the stream, so that chunks end at stripes
  SharedJob* job_ = nullptr;
  std::uint64_t done_;  // of the stream, without a job
  std::uint32_t chunk_bytes_;
  bool succeeded_ = true;
};

// Bytes before the stream in its first chunk: what lies of the target's stripe before it.
std::uint64_t lead_of(const Operation& what, std::uint64_t address, bool contiguous);
// The part of the stream that a chunk stands for.
layout::Range range_of(const Operation& what, std::uint64_t lead, const steal::Chunk& chunk);

}  // namespace mh::rma
