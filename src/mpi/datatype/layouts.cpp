// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/datatype/layouts.hpp"

#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpi/datatype/contents.hpp"
#include "mpi/datatype/signature.hpp"
#include "mpi/handle_cache.hpp"
#include "p2p/rts_header.hpp"

namespace mh::mpi::layouts {
namespace {

using layout::LayoutPtr;

constexpr Status kUnknown{Code::unsupported};

// The treatment of a basic type with a gap inside (MPI_SHORT_INT). unknown: a datatype with such
// elements has no layout. filled: the gap counts as data.
enum class Gaps : bool { unknown, filled };

Result<LayoutPtr> read_layout(MPI_Datatype type, int depth, Gaps gaps);

Result<LayoutPtr> basic_layout(MPI_Datatype type, Gaps gaps) {
  const auto size = static_cast<MPI_Count>(size_of(type));
  const auto [lower, extent] = bounds_of(type);
  if (lower != 0 || extent < size) return kUnknown;
  if (extent != size && gaps == Gaps::unknown) return kUnknown;
  return layout::named(extent, 1);
}

layout::ArrayOrder order_of(int order) {
  return order == MPI_ORDER_C ? layout::ArrayOrder::c : layout::ArrayOrder::fortran;
}

layout::Distribution distribution_of(int distribution) {
  if (distribution == MPI_DISTRIBUTE_BLOCK) return layout::Distribution::block;
  return distribution == MPI_DISTRIBUTE_CYCLIC ? layout::Distribution::cyclic
                                               : layout::Distribution::none;
}

Result<LayoutPtr> subarray_layout(const Contents& made, const layout::Layout& child) {
  const auto dims = static_cast<std::size_t>(made.int_argument(0));
  const auto numbers = [&](std::size_t part) {
    return made.numbers_after_ints(1, part * dims, dims);
  };
  return layout::subarray(numbers(0), numbers(1), numbers(2),
                          order_of(made.int_after_counts(1, 3 * dims)), child);
}

Result<LayoutPtr> darray_layout(const Contents& made, const layout::Layout& child) {
  const auto dims = static_cast<std::size_t>(made.int_argument(2));
  const std::vector<std::int64_t> sizes = made.numbers_after_ints(3, 0, dims);
  const auto integer = [&](std::size_t part, std::size_t d) {
    return made.int_after_counts(3 + part * dims + d, dims);
  };
  std::vector<layout::Distributed> distributed;
  for (std::size_t d = 0; d < dims; ++d) {
    const int argument = integer(1, d);
    distributed.push_back(
        {.size = sizes[d],
         .how = distribution_of(integer(0, d)),
         .argument = argument == MPI_DISTRIBUTE_DFLT_DARG ? layout::kDefaultArgument : argument,
         .processes = integer(2, d)});
  }
  return layout::darray(made.int_argument(1), distributed, order_of(integer(3, 0)), child);
}

Result<LayoutPtr> structure_layout(const Contents& made, int depth, Gaps gaps) {
  const auto count = static_cast<std::size_t>(made.number(0));
  std::vector<LayoutPtr> children;
  for (std::size_t i = 0; i < made.types(); ++i) {
    // A structure often has many members of one type, so a type that equals that of the member
    // before is not read again.
    const bool again = i > 0 && made.type(i) == made.type(i - 1);
    Result<LayoutPtr> child =
        again ? Result<LayoutPtr>(children.back()) : read_layout(made.type(i), depth + 1, gaps);
    if (!child) return child;
    children.push_back(*child);
  }
  return layout::structure(made.numbers(1, count), made.displacements(count, 1 + count), children);
}

// Builds the layout of a type made by a constructor with one component type, whose layout is
// `part`.
Result<LayoutPtr> composed_layout(const Contents& made, const LayoutPtr& part) {
  const layout::Layout& child = *part;
  const auto listed = [&] { return static_cast<std::size_t>(made.number(0)); };
  switch (made.combiner()) {
    case MPI_COMBINER_DUP:
      return part;
    case MPI_COMBINER_CONTIGUOUS:
      return layout::contiguous(made.number(0), child);
    case MPI_COMBINER_VECTOR:
      return layout::vector(made.number(0), made.number(1), made.number(2), child);
    case MPI_COMBINER_HVECTOR:
      return layout::hvector(made.number(0), made.number(1), made.displacement(0, 2), child);
    case MPI_COMBINER_INDEXED:
      return layout::indexed(made.numbers(1, listed()), made.numbers(1 + listed(), listed()),
                             child);
    case MPI_COMBINER_HINDEXED:
      return layout::hindexed(made.numbers(1, listed()), made.displacements(listed(), 1 + listed()),
                              child);
    case MPI_COMBINER_INDEXED_BLOCK:
      return layout::indexed_block(made.number(1), made.numbers(2, listed()), child);
    case MPI_COMBINER_HINDEXED_BLOCK:
      return layout::hindexed_block(made.number(1), made.displacements(listed(), 2), child);
    case MPI_COMBINER_SUBARRAY:
      return subarray_layout(made, child);
    case MPI_COMBINER_DARRAY:
      return darray_layout(made, child);
    case MPI_COMBINER_RESIZED:
      return layout::resized(made.displacement(0, 0), made.displacement(1, 0), child);
    default:
      return kUnknown;
  }
}

// Gives the layout the bounds that the library reports for the type. The standard leaves libraries
// a choice, such as the padding at the end of a structure.
Result<LayoutPtr> with_bounds_of(MPI_Datatype type, const LayoutPtr& layout) {
  const auto [lower, extent] = bounds_of(type);
  if (lower == layout->lower() && extent == layout->extent()) return layout;
  return layout::resized(lower, extent, *layout);
}

Result<LayoutPtr> read_layout(MPI_Datatype type, int depth, Gaps gaps) {
  const Contents made(type);
  if (!made.is_readable() || depth > kDeepestType) return kUnknown;
  if (made.is_predefined()) return basic_layout(type, gaps);
  Result<LayoutPtr> layout = kUnknown;
  if (made.combiner() == MPI_COMBINER_STRUCT) {
    layout = structure_layout(made, depth, gaps);
  } else if (made.types() == 1) {
    Result<LayoutPtr> child = read_layout(made.type(0), depth + 1, gaps);
    if (!child) return child;
    layout = composed_layout(made, *child);
  }
  return layout ? with_bounds_of(type, *layout) : layout;
}

bool agrees_with_library(MPI_Datatype type, const layout::Layout& layout) {
  if (size_of(type) != layout.size()) return false;
  if (layout.size() == 0) return true;  // libraries differ in the bounds of an empty type
  const auto [lower, extent] = true_bounds_of(type);
  return lower == layout.true_lower() && lower + extent == layout.true_upper();
}

// The result of reading a type, cached until MPI_Type_free.
struct CachedLayout {
  LayoutPtr layout;               // null if there is none
  bool holds_rts_header = false;  // an RTS header can be received with this type
};

CachedLayout inspect(MPI_Datatype type) {
  const Result<LayoutPtr> layout = read_layout(type, 0, Gaps::unknown);
  if (!layout || !agrees_with_library(type, **layout)) return {};
  return {.layout = *layout, .holds_rts_header = ends_element(type, p2p::kRtsBytes)};
}

struct LayoutCache {
  std::mutex mutex;
  std::unordered_map<std::uint64_t, CachedLayout> by_type;
};
LayoutCache g_layouts;

CachedLayout cached_layout(MPI_Datatype type) {
  if (type == MPI_DATATYPE_NULL) return {};
  {
    const std::lock_guard<std::mutex> hold(g_layouts.mutex);
    const auto at = g_layouts.by_type.find(bits_of(type));
    if (at != g_layouts.by_type.end()) return at->second;
  }
  // Reads the type without holding the cache's lock, because a long list of blocks takes
  // milliseconds. Two threads may read the same type at once; both then use the result that is
  // stored first.
  CachedLayout found = inspect(type);
  const std::lock_guard<std::mutex> hold(g_layouts.mutex);
  return g_layouts.by_type.emplace(bits_of(type), std::move(found)).first->second;
}

}  // namespace

LayoutPtr of(MPI_Datatype type) { return cached_layout(type).layout; }

LayoutPtr of_rendezvous(MPI_Datatype type) {
  const CachedLayout found = cached_layout(type);
  return found.holds_rts_header ? found.layout : nullptr;
}

LayoutPtr padded_of(MPI_Datatype type) {
  Result<LayoutPtr> layout = read_layout(type, 0, Gaps::filled);
  return layout ? std::move(*layout) : nullptr;
}

void forget_type(MPI_Datatype type) {
  const std::lock_guard<std::mutex> hold(g_layouts.mutex);
  g_layouts.by_type.erase(bits_of(type));
}

}  // namespace mh::mpi::layouts
