// SPDX-License-Identifier: BSD-3-Clause
// A window from the view of one of its ranks: the addresses of each rank's memory, and the choice
// of the rank that carries out an operation.
//
// The origin carries out an operation at the call. A large operation becomes a job in the origin's
// part of the window's shared memory; every waiting rank of the window on that node claims chunks
// of the job (help()), as of messages. Chunks of an atomic operation end where stripes (locks.hpp)
// of the target end, so that two ranks seldom want the same lock.
//
// Short operations on memory that only the kernel reaches are deferred in a list for each target
// (deferred.hpp). The origin carries the list out when it completes an epoch, flushes, or does any
// other operation on the target. A target on another node receives pieces of an operation
// (piece.hpp) and carries them out.
//
// This file knows no MPI and waits for nothing, except that ask_target() waits some microseconds.
// Thread-safe except where a comment says otherwise. Limits: kMaxRanks ranks; only an operation
// whose buffers are all contiguous or single grids (layout/compact.hpp) becomes a job.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "memory/reach.hpp"
#include "node/node.hpp"
#include "rma/control.hpp"
#include "rma/deferred.hpp"
#include "rma/epochs.hpp"
#include "rma/executor.hpp"
#include "rma/operation.hpp"
#include "steal/slots.hpp"
#include "steal/victims.hpp"

namespace mh::rma {

// The memory of a rank that the window opens to the one-sided operations of the other ranks.
struct Exposed {
  std::uint64_t base = 0;  // in the process of that rank
  std::uint64_t bytes = 0;
  std::uint64_t unit = 1;       // bytes of a displacement
  std::uint32_t node_rank = 0;  // the rank that has exposed the memory; may be kElsewhere
  pid_t pid = 0;
  std::byte* mapped = nullptr;  // address of `base` in this process; null: not mapped

  // The value of `node_rank` for a rank on another node.
  static constexpr std::uint32_t kElsewhere = ~std::uint32_t{0};
  [[nodiscard]] bool is_elsewhere() const { return node_rank == kElsewhere; }
};

// The bytes that a buffer covers: [low, high), relative to the buffer's address.
struct Extent {
  std::int64_t low = 0;
  std::int64_t high = 0;

  [[nodiscard]] std::uint64_t bytes() const { return static_cast<std::uint64_t>(high - low); }
};
// Returns the bytes from the lowest to the highest byte of `count` elements of a layout (MPI's true
// extent), or of `bytes` contiguous bytes if `layout` is null.
Extent extent_of(const layout::Layout* layout, std::uint64_t count, std::uint64_t bytes);

// The state that a thread needs to carry out one-sided operations, such as scratch buffers. Each
// thread has its own object.
class RmaContext {
 public:
  RmaContext(const node::Node& node, const memory::Reach& reach);

  [[nodiscard]] Executor& executor() { return executor_; }
  [[nodiscard]] const Liveness& liveness() const { return liveness_; }
  [[nodiscard]] const node::Node& node() const { return *node_; }

 private:
  friend class Window;
  // Returns a buffer of another rank's job, with the address at which this process reaches it.
  // `number`: 0 for the origin's buffer, 1 for the result's, 2 for the target's. The buffer's
  // layout is kept in known_[number] for the next chunk.
  RmaBuffer end_of(const SharedBuffer& shared, std::size_t number);

  const node::Node* node_;
  const memory::Reach* reach_;
  Liveness liveness_;
  Executor executor_;
  std::array<layout::LastLayout, 3> known_;  // layouts of origin, result and target of the last job
};

// Describes a chunk of another rank's operation that this rank has carried out, for its counters.
struct HelpedChunk {
  std::uint64_t bytes = 0;
  std::uint32_t owner = 0;  // rank on the node
};

class Window {
 public:
  // Makes this process's view of a window, in which it has rank `me`. The memory of `control` is
  // shared by all ranks of the node and outlives this object. `exposed`: the memory of each rank,
  // by rank in the window.
  Window(const Control& control, std::uint32_t me, std::vector<Exposed> exposed);

  [[nodiscard]] std::uint32_t me() const { return me_; }
  [[nodiscard]] std::uint32_t ranks() const { return control_.ranks(); }
  [[nodiscard]] const Control& control() const { return control_; }
  [[nodiscard]] const Exposed& exposed(std::uint32_t rank) const { return exposed_[rank]; }
  [[nodiscard]] Epochs& epochs() { return epochs_; }

  // Returns the target buffer at `address` in the process of the window's rank `rank`, or nothing
  // if part of the buffer lies outside the memory of that rank.
  [[nodiscard]] std::optional<RmaBuffer> target_buffer(std::uint32_t rank, std::uint64_t address,
                                                       const layout::Layout* layout,
                                                       std::uint64_t count, std::uint64_t bytes,
                                                       const memory::Reach& reach) const;

  // Lets the target carry out a small operation, contiguous in all buffers, by an active message,
  // and waits some microseconds for the answer. Returns nothing if the operation was not carried
  // out, so that the caller has to do it. Reasons: the target is not in MPI and does not take the
  // message, has not taken a recent message, or another thread of this rank uses the message. If
  // `compare` is not null, the operation is MPI_Compare_and_swap with this value.
  std::optional<Status> ask_target(const RmaContext& context, const BoundOperation& operation,
                                   const void* compare = nullptr);
  // Defers a short operation without a result, contiguous in both buffers. Returns false for any
  // other operation, and if the list of the target is full. One thread at a time may call defer()
  // or carry_out_deferred().
  bool defer(const Operation& what, std::uint64_t address, const void* origin);
  // True if this rank has deferred operations on some target. relaxed: each thread sees its own
  // deferred operations.
  [[nodiscard]] bool has_deferred() const {
    return deferred_lists_.load(std::memory_order_relaxed) != 0;
  }
  // Carries out this rank's deferred operations on the window's rank `target`.
  Status carry_out_deferred(RmaContext& context, std::uint32_t target);

  // Carries out the active messages that other ranks have posted for this rank. Never blocks; costs
  // a few loads if there are none.
  void serve(RmaContext& context);

  // Carries out one chunk of an operation of another rank: of a random rank on this rank's NUMA
  // node, else of a random rank elsewhere on the node. Only a rank for which may_help(rank on the
  // node) is true gets help. Returns false if no chunk was found. One thread at a time may call
  // this function.
  bool help(RmaContext& context, bool (*may_help)(std::uint32_t), HelpedChunk& helped);

 private:
  friend class OperationRun;

  bool help_rank(RmaContext& context, std::uint32_t rank, HelpedChunk& helped);
  Status run_shared(RmaContext& context, const SharedJob& job, const steal::Chunk& chunk);
  template <class Fill, class Read>
  std::optional<Status> ask(const RmaContext& context, std::uint32_t target, Fill&& fill,
                            Read&& read);
  void serve_one(RmaContext& context, std::uint32_t origin);
  Status carry_out(RmaContext& context, ActiveMessage& message);

  Control control_;
  std::uint32_t me_;
  std::vector<Exposed> exposed_;
  Epochs epochs_;
  steal::SlotBits slots_;                       // which of this rank's jobs are in use
  std::atomic_flag asking_ = ATOMIC_FLAG_INIT;  // this rank's active message is in use
  // For each target: how many of this rank's next operations on it are carried out without an
  // active message, because the target did not take the last one.
  std::vector<std::uint8_t> skips_left_;
  std::vector<std::unique_ptr<DeferredList>>
      deferred_;                                  // by target; null until an operation is deferred
  std::atomic<std::uint32_t> deferred_lists_{0};  // number of lists that are not empty
  steal::CopyVictimPicker victims_;               // used by help()
};

// An operation that its owner carries out chunk by chunk, as a job if other ranks can help. Belongs
// to the thread that has made the object.
class OperationRun {
 public:
  // Makes the object, and opens a job if the operation has several chunks. `shared`: the other
  // ranks of the node can reach all buffers. `chunk_bytes`: the bytes of one step.
  OperationRun(Window& window, const BoundOperation& operation, std::uint32_t chunk_bytes,
               bool shared);
  OperationRun(const OperationRun&) = delete;
  OperationRun& operator=(const OperationRun&) = delete;
  ~OperationRun() { close(); }

  // Carries out one chunk of the operation, if one is left. Returns true when all chunks are done
  // or one has failed.
  [[nodiscard]] bool step(RmaContext& context);
  [[nodiscard]] bool all_claimed() const { return job_ != nullptr && !job_->job.has_work(); }
  // True if the whole operation has been carried out. Precondition: step() has returned true.
  [[nodiscard]] bool succeeded() const {
    return succeeded_ && (job_ == nullptr || !job_->job.failed());
  }
  // Gives up the chunks that dead ranks have claimed: the operation has failed. Precondition:
  // all_claimed().
  void give_up();

 private:
  void open(std::uint32_t chunk_bytes);
  [[nodiscard]] std::uint32_t slot() const;
  void close();

  Window& window_;
  const BoundOperation& operation_;
  std::uint64_t lead_ = 0;  // bytes before the stream, so that chunks end at stripes
  SharedJob* job_ = nullptr;
  std::uint64_t done_;  // without a job: this thread has carried out the stream up to this byte
  std::uint32_t chunk_bytes_;
  bool succeeded_ = true;
};

// Returns how many bytes of the target's stripe (locks.hpp) lie before the operation's first byte.
// The job counts these bytes as part of its first chunk, so that chunks end where stripes end. 0
// unless the operation is atomic and the target buffer contiguous.
std::uint64_t lead_of(const Operation& what, std::uint64_t address, bool contiguous);
// Returns the range of the operation's stream that a chunk covers. `lead`: the result of lead_of().
layout::StreamRange range_of(const Operation& what, std::uint64_t lead, const steal::Chunk& chunk);

}  // namespace mh::rma
