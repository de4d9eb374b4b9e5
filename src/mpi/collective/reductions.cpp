// SPDX-License-Identifier: BSD-3-Clause
// MPI_Reduce, MPI_Allreduce, MPI_Reduce_scatter_block, MPI_Scan and MPI_Exscan as rounds
// (direct.hpp).
#include <algorithm>
#include <cstring>

#include "mpi/collective/direct.hpp"
#include "mpi/collective/ordered_sums.hpp"
#include "mpi/collective/round.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/datatype/elements.hpp"
#include "mpi/datatype/predefined_ops.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/next.hpp"
#include "rma/reduce.hpp"

namespace mh::mpi::direct {
namespace {

using mh::rma::Op;
using mh::rma::ReduceKernel;
using mh::rma::Type;

// ---- Which reductions the ranks can carry out ---------------------------------------------------

bool is_signed(Type type) { return type >= Type::int8 && type <= Type::int64; }
bool is_integer(Type type) { return type >= Type::int8 && type <= Type::uint64; }
bool is_real(Type type) { return type == Type::float32 || type == Type::float64; }
bool is_complex(Type type) { return type == Type::complex64 || type == Type::complex128; }

// True if the bits of the MPI library's result do not depend on the order in which it combines the
// ranks' data. Maxima and minima of unsigned integers are left out, because MPICH 4.0 compares them
// as signed integers. Maxima and minima of floating-point numbers are left out, because they depend
// on the order where there are NaNs, or zeros of both signs.
bool has_one_result(Op op, Type type, int ranks) {
  switch (op) {
    case Op::sum:
      return is_integer(type) || (ranks == 2 && (is_real(type) || is_complex(type)));
    case Op::prod:
      return is_integer(type) || (ranks == 2 && is_real(type));
    case Op::max:
    case Op::min:
      return is_signed(type);
    case Op::land:
    case Op::lor:
    case Op::lxor:
      return is_integer(type);
    case Op::band:
    case Op::bor:
    case Op::bxor:
      return is_integer(type) || type == Type::byte8;
    default:
      return false;
  }
}

// True if the bits of the MPI library's result depend on nothing but the order in which it combines
// the ranks' data, which can be tested (ordered_sums.hpp).
bool has_a_result_by_order(Op op, Type type) {
  return (op == Op::sum && (is_real(type) || is_complex(type))) ||
         (op == Op::prod && is_real(type));
}

// The way of a reduction. `round`: the ranks carry it out. `library`: left to the MPI library.
// `ordered`: a round in MPI_Allreduce if the MPI library's order is known, else left to the
// library. `refused`: no round, because the MPI library may refuse the arguments on this rank
// alone.
enum class Eligible : std::uint8_t { round, ordered, library, refused };

struct Reduction {
  Eligible eligible = Eligible::library;
  ReduceKernel kernel = nullptr;
  Type type = Type::other;
  std::uint32_t terms = 0;
  std::uint64_t element_bytes = 1;
  std::uint64_t elements = 0;

  [[nodiscard]] std::uint64_t bytes() const { return elements * element_bytes; }
  // The result for a reduction that is no round: the caller then makes the MPI library's call.
  [[nodiscard]] CallResult no_round() const {
    return eligible == Eligible::refused ? CallResult::refused() : CallResult(std::nullopt);
  }
};

// Decides whether a reduction can be a round. An operation that the standard does not define for
// the type counts as refused, because the MPI library may report an error.
Reduction reduction_of(MPI_Op handle, MPI_Datatype type, MPI_Count count, const Comm& comm) {
  constexpr Reduction kRefused{.eligible = Eligible::refused};
  if (count < 0 || type == MPI_DATATYPE_NULL || handle == MPI_OP_NULL) return kRefused;
  const std::optional<Op> op = elements::op_of(handle);
  if (!op || count == 0) return datatypes::is_usable(type) ? Reduction{} : kRefused;
  const elements::Element element = elements::of(type);
  const bool basic = element.uniform && element.named;
  const ReduceKernel kernel = basic ? mh::rma::kernel_of(*op, element.type) : nullptr;
  if (kernel == nullptr) return kRefused;
  const bool one_result = has_one_result(*op, element.type, comm.size);
  if (element.padded || !(one_result || has_a_result_by_order(*op, element.type))) return {};
  return {.eligible = one_result ? Eligible::round : Eligible::ordered,
          .kernel = kernel,
          .type = element.type,
          .terms = static_cast<std::uint32_t>(*op) << 8U | static_cast<std::uint32_t>(element.type),
          .element_bytes = element.bytes,
          .elements = static_cast<std::uint64_t>(count)};
}

OrderedSum ordered_sum(const Reduction& reduction, MPI_Op op, MPI_Datatype type) {
  return {.op = op,
          .type = type,
          .element = reduction.type,
          .kernel = reduction.kernel,
          .elements = reduction.elements,
          .width = reduction.element_bytes,
          .terms = reduction.terms};
}

// True if the MPI library may reject the buffers `in` and `out`, on this rank alone. Called for
// reductions in which every rank has a buffer for its result. `call` makes the library's call with
// one number, among this rank alone, which tells whether one buffer may be both (Open MPI).
template <class Call>
bool are_refused(const void* in, const void* out, Call&& call) {
  if (in == nullptr || out == nullptr || out == MPI_IN_PLACE) return true;
  if (in != out) return false;
  static const bool accepts_one_buffer = [&] {
    int data = 0;
    return call(&data) == MPI_SUCCESS;
  }();
  return !accepts_one_buffer;
}

// ---- Reductions of staged data ------------------------------------------------------------------

void stage(Round& round, const void* data, std::uint64_t bytes) {
  std::memcpy(round.stage(), data, bytes);
  round.publish_staged();
}

// Combines `reduction.elements` elements of the staged data of all ranks into `out`. `offset`: the
// distance in bytes from the begin of each rank's staged data to these elements. `source`: this
// rank's own elements, which are read there and not from its staged data.
void combine_staged(const Round& round, const Reduction& reduction, const Comm& comm, void* out,
                    const void* source, std::uint64_t offset = 0) {
  if (out != source) std::memmove(out, source, reduction.bytes());
  for (int rank = 0; rank < comm.size; ++rank) {
    if (rank != comm.rank)
      reduction.kernel(out, round.staged_by(rank) + offset, reduction.elements);
  }
}

// Combines the staged data of all ranks into `out`, in the order of recursive doubling.
void combine_in_order(const Round& round, const Reduction& reduction, const Comm& comm, void* out) {
  coll::DoublingOrder(static_cast<std::uint32_t>(comm.size))
      .combine(static_cast<std::byte*>(out), reduction.elements, reduction.element_bytes,
               reduction.kernel, [&](std::uint32_t rank, std::uint64_t at, std::uint64_t) {
                 return round.staged_by(static_cast<int>(rank)) + at;
               });
}

CallResult allreduce_staged(Round& round, const Reduction& reduction, const Comm& comm,
                            const void* source, void* out) {
  if (is_switched_on()) {
    stage(round, source, reduction.bytes());
  } else {
    round.publish_library();
  }
  if (!round.all_agree(coll::Route::staged)) return std::nullopt;
  if (reduction.eligible == Eligible::ordered) {
    combine_in_order(round, reduction, comm, out);
  } else {
    combine_staged(round, reduction, comm, out, source);
  }
  return MPI_SUCCESS;
}

// ---- Reductions of data in mapped buffers -------------------------------------------------------

// Computes elements of a reduction whose ranks map each other's buffers, in pieces that fit into
// the first-level cache.
class PieceReduction {
 public:
  PieceReduction(Round& round, const Reduction& reduction, const Comm& comm)
      : round_(round), reduction_(reduction), comm_(comm) {}

  // Computes the elements of `slice` piece by piece. The result of a piece is written to the
  // address accumulator(at); then deliver(at, piece, bytes) is called with that address. `at` is
  // the piece's offset in bytes from element 0 of the reduction. `offset` is the offset in bytes of
  // element 0 in each rank's source, its mapped send buffer.
  template <class Accumulator, class Deliver>
  Status run(coll::Slice slice, std::uint64_t offset, Accumulator&& accumulator,
             Deliver&& deliver) {
    const std::uint64_t width = reduction_.element_bytes;
    const std::uint64_t step = kPiece / width;
    for (std::uint64_t at = slice.begin; at < slice.end; at += step) {
      const std::uint64_t elements = std::min<std::uint64_t>(step, slice.end - at);
      std::byte* to = accumulator(at * width);
      const Status done = reduce(to, offset + at * width, elements);
      if (!done) return done;
      const Status delivered = deliver(at * width, to, elements * width);
      if (!delivered) return delivered;
    }
    return {};
  }
  template <class Accumulator>
  Status run(coll::Slice slice, std::uint64_t offset, Accumulator&& accumulator) {
    return run(slice, offset, accumulator,
               [](std::uint64_t, const std::byte*, std::uint64_t) { return Status{}; });
  }

 private:
  static constexpr std::uint64_t kPiece = coll::kStagedBytes / 2;

  // Returns the address of `bytes` bytes at `offset` in the source of `rank` (its mapped send
  // buffer), or of a copy of them. The address is valid until the next call of find(). Null if this
  // process cannot read the bytes.
  const std::byte* find(int rank, std::uint64_t offset, std::uint64_t bytes) {
    return round_.find(rank, round_.source_address(rank) + offset, bytes,
                       round_.scratch() + kPiece);
  }

  Status reduce(std::byte* to, std::uint64_t offset, std::uint64_t elements) {
    return reduction_.eligible == Eligible::ordered ? reduce_in_order(to, offset, elements)
                                                    : reduce_from_own(to, offset, elements);
  }

  // Combines `elements` elements, at byte `offset` in the source of each rank (its mapped send
  // buffer), in the order of recursive doubling, and writes the result to `to`.
  Status reduce_in_order(std::byte* to, std::uint64_t offset, std::uint64_t elements) {
    bool readable = true;
    coll::DoublingOrder(static_cast<std::uint32_t>(comm_.size))
        .combine(to, elements, reduction_.element_bytes, reduction_.kernel,
                 [&](std::uint32_t rank, std::uint64_t at, std::uint64_t bytes) {
                   const std::byte* from = find(static_cast<int>(rank), offset + at, bytes);
                   readable = readable && from != nullptr;
                   return from != nullptr ? from : round_.scratch();
                 });
    return readable ? Status{} : Status{Code::fault, 0};
  }

  // Combines `elements` elements, at byte `offset` in the source of each rank (its mapped send
  // buffer), in the cyclic order of the ranks that begins with this rank. Writes the result to
  // `to`.
  Status reduce_from_own(std::byte* to, std::uint64_t offset, std::uint64_t elements) {
    const std::uint64_t bytes = elements * reduction_.element_bytes;
    for (int i = 0; i < comm_.size; ++i) {
      const int rank = (comm_.rank + i) % comm_.size;
      const std::byte* from = find(rank, offset, bytes);
      if (from == nullptr) return {Code::fault, 0};
      if (i != 0) {
        reduction_.kernel(to, from, elements);
      } else if (to != from) {
        std::memcpy(to, from, bytes);
      }
    }
    return {};
  }

  Round& round_;
  const Reduction& reduction_;
  const Comm& comm_;
};

coll::Slice own_slice(const Reduction& reduction, const Comm& comm) {
  return coll::slice_of(reduction.elements, reduction.element_bytes,
                        static_cast<std::uint32_t>(comm.size),
                        static_cast<std::uint32_t>(comm.rank));
}

CallResult allreduce_mapped(Round& round, const Reduction& reduction, const Comm& comm,
                            const void* source, void* out) {
  round.publish_mapped(source, reduction.bytes(), out, reduction.bytes());
  if (!round.all_agree(coll::Route::mapped)) return std::nullopt;
  auto* own = static_cast<std::byte*>(out);
  const auto to_all_others = [&](std::uint64_t at, const std::byte* piece,
                                 std::uint64_t bytes) -> Status {
    for (int i = 1; i < comm.size; ++i) {
      const Status written = round.write((comm.rank + i) % comm.size, at, piece, bytes);
      if (!written) return written;
    }
    return {};
  };
  const Status done = PieceReduction(round, reduction, comm)
                          .run(
                              own_slice(reduction, comm), 0,
                              [&](std::uint64_t at) { return own + at; }, to_all_others);
  return round.end(done);
}

CallResult reduce_mapped(Round& round, const Reduction& reduction, const Comm& comm,
                         const void* source, void* out, int root) {
  const bool at_root = root == comm.rank;
  round.publish_mapped(source, reduction.bytes(), at_root ? out : nullptr, reduction.bytes());
  if (!round.all_agree(coll::Route::mapped)) return std::nullopt;
  auto* own = static_cast<std::byte*>(out);
  const Status done =
      PieceReduction(round, reduction, comm)
          .run(
              own_slice(reduction, comm), 0,
              [&](std::uint64_t at) { return at_root ? own + at : round.scratch(); },
              [&](std::uint64_t at, const std::byte* piece, std::uint64_t bytes) {
                return at_root ? Status{} : round.write(root, at, piece, bytes);
              });
  return round.end(done);
}

// ---- MPI_Reduce_scatter_block -------------------------------------------------------------------

// Stages this rank's data, combines the block for this rank from the staged data of all ranks, and
// writes the result to `out`.
CallResult scatter_staged(Round& round, const Reduction& block, const Comm& comm,
                          const std::byte* source, void* out) {
  const std::uint64_t offset = static_cast<std::uint64_t>(comm.rank) * block.bytes();
  stage(round, source, block.bytes() * static_cast<std::uint64_t>(comm.size));
  if (!round.all_agree(coll::Route::staged)) return std::nullopt;
  combine_staged(round, block, comm, out, source + offset, offset);
  return MPI_SUCCESS;
}

CallResult scatter_mapped(Round& round, const Reduction& block, const Comm& comm,
                          const std::byte* source, void* out) {
  const std::uint64_t offset = static_cast<std::uint64_t>(comm.rank) * block.bytes();
  if (source == out) {
    round.publish_library();  // the result would overwrite data that the peers read
  } else {
    round.publish_mapped(source, block.bytes() * static_cast<std::uint64_t>(comm.size), nullptr, 0);
  }
  if (!round.all_agree(coll::Route::mapped)) return std::nullopt;
  const Status done =
      PieceReduction(round, block, comm).run({0, block.elements}, offset, [&](std::uint64_t at) {
        return static_cast<std::byte*>(out) + at;
      });
  return round.end(done);
}

// ---- MPI_Scan and MPI_Exscan --------------------------------------------------------------------

// Combines the staged data of the ranks below this one into `out`. `has_own`: `out` already has
// this rank's own data; otherwise `out` is undefined.
int combine_lower(Round& round, const Reduction& reduction, const Comm& comm, void* out,
                  bool has_own) {
  bool agree = true;
  for (int rank = 0; rank < comm.rank; ++rank) {
    agree = round.has_terms(round.await(rank)) && agree;
    if (rank == 0 && !has_own) {
      std::memcpy(out, round.staged_by(rank), reduction.bytes());
    } else {
      reduction.kernel(out, round.staged_by(rank), reduction.elements);
    }
  }
  return agree ? MPI_SUCCESS : raise(comm.handle, MPI_ERR_TRUNCATE);
}

// True if the MPI library may reject the buffers of MPI_Exscan on this rank alone. Rank 0 gets no
// result, and some libraries accept anything as its receive buffer. The library is then asked by
// the same call among this rank alone, which is rank 0 there.
bool are_refused_in_exscan(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                           const Comm& comm) {
  if (comm.rank != 0 || in == nullptr || in == MPI_IN_PLACE) {
    return are_refused(in, out, [](void* data) {
      return real.Exscan(data, data, 1, MPI_INT, MPI_SUM, config.self_comm);
    });
  }
  const bool usual = out != nullptr && out != MPI_IN_PLACE && out != in;
  return !usual &&
         by_count::Exscan(real, in, out, count, type, op, config.self_comm) != MPI_SUCCESS;
}

// Carries out MPI_Scan or MPI_Exscan as a round. The caller has checked the arguments. `has_own`:
// the result includes this rank's own data (MPI_Scan).
CallResult scan_staged(RoundCall call, const void* in, void* out, const Reduction& reduction,
                       Comm& comm, bool has_own) {
  if (!is_staged(reduction.bytes(), comm)) return std::nullopt;
  const void* source = in == MPI_IN_PLACE ? out : in;
  Round round(comm, call, reduction.bytes(), reduction.terms);
  stage(round, source, reduction.bytes());
  if (has_own && source != out) std::memcpy(out, source, reduction.bytes());
  return combine_lower(round, reduction, comm, out, has_own);
}

// ---- MPI_Reduce ---------------------------------------------------------------------------------

// True if the MPI library accepts that the root of MPI_Reduce has one buffer as send buffer and as
// receive buffer. Found out by an MPI_Reduce with these arguments among this rank alone
// (config.self_comm).
bool accepts_aliases(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op) {
  return by_count::Reduce(real, in, out, count, type, op, 0, config.self_comm) == MPI_SUCCESS;
}

// Combines the staged data of all ranks into `out`. Called at the root of MPI_Reduce. The other
// ranks do not wait for the root, so if their calls differ from the root's, only the root's call
// fails.
int reduce_staged_at_root(Round& round, const Reduction& reduction, const Comm& comm,
                          const void* source, void* out) {
  bool agree = true;
  for (int rank = 0; rank < comm.size; ++rank) agree = round.has_terms(round.await(rank)) && agree;
  if (!agree) return raise(comm.handle, MPI_ERR_TRUNCATE);
  combine_staged(round, reduction, comm, out, source);
  return MPI_SUCCESS;
}

}  // namespace

CallResult reduce_scatter_block(const void* in, void* out, MPI_Count count, MPI_Datatype type,
                                MPI_Op op, MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  if (comm == nullptr) return std::nullopt;
  const Reduction block = reduction_of(op, type, count, *comm);
  if (block.eligible != Eligible::round) return block.no_round();
  const auto among_one = [](void* data) {
    return real.Reduce_scatter_block(data, data, 1, MPI_INT, MPI_SUM, config.self_comm);
  };
  if (are_refused(in, out, among_one)) return CallResult::refused();
  const std::uint64_t all = block.bytes() * static_cast<std::uint64_t>(comm->size);
  const bool in_place = in == MPI_IN_PLACE;
  const auto* source = static_cast<const std::byte*>(in_place ? out : in);
  const bool stages = is_staged(all, *comm);
  // A round on mapped buffers is not possible with MPI_IN_PLACE: this rank would write its result
  // to the buffer from which its peers read its data.
  if (!stages && (in_place || !config.heaps_mapped)) return std::nullopt;
  Round round(*comm, RoundCall::reduce_scatter_block, all, block.terms);
  return stages ? scatter_staged(round, block, *comm, source, out)
                : scatter_mapped(round, block, *comm, source, out);
}

CallResult scan(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  if (comm == nullptr) return std::nullopt;
  const Reduction reduction = reduction_of(op, type, count, *comm);
  if (reduction.eligible != Eligible::round) return reduction.no_round();
  const auto among_one = [](void* data) {
    return real.Scan(data, data, 1, MPI_INT, MPI_SUM, config.self_comm);
  };
  if (are_refused(in, out, among_one)) return CallResult::refused();
  return scan_staged(RoundCall::scan, in, out, reduction, *comm, true);
}

CallResult exscan(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  if (comm == nullptr) return std::nullopt;
  const Reduction reduction = reduction_of(op, type, count, *comm);
  if (reduction.eligible != Eligible::round) return reduction.no_round();
  if (are_refused_in_exscan(in, out, count, type, op, *comm)) return CallResult::refused();
  return scan_staged(RoundCall::exscan, in, out, reduction, *comm, false);
}

CallResult allreduce(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                     MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  if (comm == nullptr) return std::nullopt;
  const Reduction reduction = reduction_of(op, type, count, *comm);
  const bool ordered = reduction.eligible == Eligible::ordered;
  if (!ordered && reduction.eligible != Eligible::round) return reduction.no_round();
  const auto among_one = [](void* data) {
    return real.Allreduce(data, data, 1, MPI_INT, MPI_SUM, config.self_comm);
  };
  // Open MPI accepts one buffer only for one element, and raises the error on MPI_COMM_WORLD.
  if ((in == out && count > 1) || are_refused(in, out, among_one)) return CallResult::refused();
  const void* source = in == MPI_IN_PLACE ? out : in;
  const bool stages = is_staged(reduction.bytes(), *comm);
  if (!stages && !config.heaps_mapped) return std::nullopt;
  if (ordered && !has_known_order(*comm, ordered_sum(reduction, op, type))) return std::nullopt;
  Round round(*comm, RoundCall::allreduce, reduction.bytes(), reduction.terms);
  return stages ? allreduce_staged(round, reduction, *comm, source, out)
                : allreduce_mapped(round, reduction, *comm, source, out);
}

CallResult reduce(const void* in, void* out, MPI_Count count, MPI_Datatype type, MPI_Op op,
                  int root, MPI_Comm handle) {
  Comm* comm = comm_with_boards(handle);
  if (comm == nullptr) return std::nullopt;
  const Reduction reduction = reduction_of(op, type, count, *comm);
  if (reduction.eligible != Eligible::round) return reduction.no_round();
  const bool at_root = root == comm->rank;
  const bool in_place = in == MPI_IN_PLACE;
  if (root < 0 || root >= comm->size || in == nullptr) return CallResult::refused();
  if (at_root ? out == nullptr || out == MPI_IN_PLACE : in_place) return CallResult::refused();
  if (at_root && in == out && !accepts_aliases(in, out, count, type, op))
    return CallResult::refused();
  const std::uint64_t bytes = reduction.bytes();
  const bool stages = is_staged(bytes, *comm);
  if (!stages && !config.heaps_mapped) return std::nullopt;
  const void* source = in_place ? out : in;
  Round round(*comm, RoundCall::reduce, bytes,
              reduction.terms | static_cast<std::uint32_t>(root) << 16U);
  if (!stages) return reduce_mapped(round, reduction, *comm, source, out, root);
  stage(round, source, bytes);
  if (!at_root) return MPI_SUCCESS;
  return reduce_staged_at_root(round, reduction, *comm, source, out);
}

}  // namespace mh::mpi::direct
