// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatypes.hpp"

#include <mutex>
#include <vector>

#include "mpi/ledger.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::datatypes {
namespace {

// How a datatype was made (MPI_Type_get_envelope).
struct Envelope {
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = MPI_COMBINER_NAMED;
  bool readable = false;  // false: made with large counts, which this inquiry does not cover
};

Envelope envelope_of(MPI_Datatype type) {
  Envelope found;
  if (real.Type_get_envelope_c != nullptr) {
    MPI_Count integers = 0;
    MPI_Count addresses = 0;
    MPI_Count counts = 0;
    MPI_Count types = 0;
    if (real.Type_get_envelope_c(type, &integers, &addresses, &counts, &types, &found.combiner) !=
            MPI_SUCCESS ||
        counts != 0) {
      return found;
    }
  }
  found.readable = real.Type_get_envelope(type, &found.integers, &found.addresses, &found.types,
                                          &found.combiner) == MPI_SUCCESS;
  return found;
}

// The constructor call behind a datatype and its arguments (MPI_Type_get_contents). Component types
// are freed with it where the standard asks for it.
class Contents {
 public:
  explicit Contents(MPI_Datatype type) : envelope_(envelope_of(type)) {
    if (!envelope_.readable || is_named()) return;
    integers_.resize(static_cast<std::size_t>(envelope_.integers));
    addresses_.resize(static_cast<std::size_t>(envelope_.addresses));
    types_.resize(static_cast<std::size_t>(envelope_.types));
    if (real.Type_get_contents(type, envelope_.integers, envelope_.addresses, envelope_.types,
                               integers_.data(), addresses_.data(), types_.data()) != MPI_SUCCESS) {
      types_.clear();
    }
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;
  ~Contents() {
    for (MPI_Datatype type : types_) {
      if (envelope_of(type).combiner != MPI_COMBINER_NAMED) real.Type_free(&type);
    }
  }

  [[nodiscard]] bool readable() const { return envelope_.readable; }
  [[nodiscard]] bool is_named() const { return envelope_.combiner == MPI_COMBINER_NAMED; }
  [[nodiscard]] int combiner() const { return envelope_.combiner; }
  [[nodiscard]] long long integer(std::size_t i) const { return integers_[i]; }
  [[nodiscard]] long long address(std::size_t i) const { return addresses_[i]; }
  [[nodiscard]] std::size_t types() const { return types_.size(); }
  [[nodiscard]] MPI_Datatype type(std::size_t i) const { return types_[i]; }

 private:
  Envelope envelope_;
  std::vector<int> integers_;
  std::vector<MPI_Aint> addresses_;
  std::vector<MPI_Datatype> types_;
};

std::uint64_t size_of(MPI_Datatype type) {
  MPI_Count size = 0;
  real.Type_size_x(type, &size);
  return size > 0 ? static_cast<std::uint64_t>(size) : 0;
}

// Elements repeated `count` times follow each other without gaps, and the first begins at the
// buffer.
bool tiles(MPI_Datatype type, std::uint64_t size) {
  MPI_Count lower = 0;
  MPI_Count extent = 0;
  MPI_Count true_lower = 0;
  MPI_Count true_extent = 0;
  real.Type_get_extent_x(type, &lower, &extent);
  real.Type_get_true_extent_x(type, &true_lower, &true_extent);
  const auto wanted = static_cast<MPI_Count>(size);
  return lower == 0 && true_lower == 0 && extent == wanted && true_extent == wanted;
}

bool dense(MPI_Datatype type);

// A tiling type can still hold its bytes in another order (an indexed type with swapped blocks), so
// the constructor is asked as well. Only those that keep the order by their nature are accepted;
// any other is not dense, which costs speed and never correctness.
bool keeps_order(MPI_Datatype type) {
  const Contents contents(type);
  if (!contents.readable()) return false;
  switch (contents.combiner()) {
    case MPI_COMBINER_NAMED:
      return true;
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_CONTIGUOUS:
    case MPI_COMBINER_RESIZED:
    case MPI_COMBINER_SUBARRAY:  // one that tiles is the whole array, in its order
      return contents.types() == 1 && dense(contents.type(0));
    case MPI_COMBINER_VECTOR:
      return contents.types() == 1 && dense(contents.type(0)) &&
             (contents.integer(0) <= 1 || contents.integer(1) == contents.integer(2));
    case MPI_COMBINER_HVECTOR:
      return contents.types() == 1 && dense(contents.type(0)) &&
             (contents.integer(0) <= 1 ||
              contents.address(0) ==
                  contents.integer(1) * static_cast<long long>(size_of(contents.type(0))));
    default:
      return false;
  }
}

bool dense(MPI_Datatype type) {
  const std::uint64_t size = size_of(type);
  return size != 0 && tiles(type, size) && keeps_order(type);
}

std::mutex g_parked_mutex;
std::vector<MPI_Datatype> g_parked;

}  // namespace

void park(MPI_Datatype type) {
  const std::lock_guard<std::mutex> hold(g_parked_mutex);
  g_parked.push_back(type);
}

void free_parked() {
  const std::lock_guard<std::mutex> hold(g_parked_mutex);
  std::erase_if(g_parked, [](MPI_Datatype type) {
    if (ledger.uses(type)) return false;
    forget(type);
    next.Type_free(&type);
    return true;
  });
}

Info detail::inspect(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return {0, false};
  const Info found{size_of(type), dense(type)};
  cache.fill(bits_of(type), pack(found));
  return found;
}

}  // namespace mh::mpi::datatypes
