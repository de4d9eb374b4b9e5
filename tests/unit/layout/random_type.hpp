// SPDX-License-Identifier: BSD-3-Clause
// Random nested datatypes, each as a layout and as a type of the reference (naive.hpp).
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "layout/layout.hpp"
#include "layout/naive.hpp"

namespace mh::layout {

struct Sample {
  LayoutPtr layout;
  naive::Type reference;
  std::string text;
};

class RandomTypes {
 public:
  explicit RandomTypes(std::uint64_t seed) : random_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }

  Sample next() {
    Sample sample = basic();
    const std::int64_t levels = between(0, 6);
    for (std::int64_t i = 0; i < levels && sample.reference.size() < kBytes; ++i) {
      sample = level(sample);
    }
    return sample;
  }

 private:
  static constexpr std::int64_t kBytes = 1200;

  static Sample made(Result<LayoutPtr> layout, naive::Type reference, std::string text) {
    EXPECT_TRUE(layout.ok()) << text;
    return {*layout, std::move(reference), std::move(text)};
  }

  Sample basic() {
    static constexpr std::int64_t kSizes[] = {1, 2, 4, 8, 8, 16, 3, 12, 40};
    const std::int64_t bytes = kSizes[between(0, 8)];
    const std::int64_t alignment = bytes % 8 == 0 ? 8 : bytes % 4 == 0 ? 4 : 1;
    naive::Type reference;
    reference.map = {{0, bytes, alignment}};
    return made(named(bytes, alignment), reference, std::to_string(bytes));
  }

  Sample level(const Sample& child) {
    switch (between(0, 9)) {
      case 0:
        return contiguous_of(child);
      case 1:
        return vector_of(child);
      case 2:
        return hvector_of(child);
      case 3:
        return indexed_of(child);
      case 4:
        return hindexed_of(child);
      case 5:
        return indexed_block_of(child);
      case 6:
        return structure_of(child);
      case 7:
        return resized_of(child);
      case 8:
        return subarray_of(child);
      default:
        return darray_of(child);
    }
  }

  std::vector<std::int64_t> numbers(std::size_t count, std::int64_t low, std::int64_t high) {
    std::vector<std::int64_t> made(count);
    for (std::int64_t& number : made) number = between(low, high);
    return made;
  }

  Sample contiguous_of(const Sample& child) {
    const std::int64_t count = between(0, 5);
    naive::Type reference;
    reference.append(child.reference, 0, count);
    return made(contiguous(count, *child.layout), reference,
                "contiguous " + std::to_string(count) + " (" + child.text + ")");
  }

  Sample vector_of(const Sample& child) {
    const std::int64_t count = between(0, 5);
    const std::int64_t length = between(0, 3);
    const std::int64_t stride = between(-4, 6);
    naive::Type reference;
    for (std::int64_t i = 0; i < count; ++i) {
      reference.append(child.reference, i * stride * child.reference.extent(), length);
    }
    return made(vector(count, length, stride, *child.layout), reference,
                "vector (" + child.text + ")");
  }

  Sample hvector_of(const Sample& child) {
    const std::int64_t count = between(1, 6);
    const std::int64_t length = between(1, 3);
    const std::int64_t stride = between(-90, 150);
    naive::Type reference;
    for (std::int64_t i = 0; i < count; ++i) {
      reference.append(child.reference, i * stride, length);
    }
    return made(hvector(count, length, stride, *child.layout), reference,
                "hvector (" + child.text + ")");
  }

  Sample indexed_of(const Sample& child) {
    const auto count = static_cast<std::size_t>(between(0, 6));
    const auto lengths = numbers(count, 0, 3);
    const auto places = numbers(count, -5, 12);
    naive::Type reference;
    for (std::size_t i = 0; i < count; ++i) {
      reference.append(child.reference, places[i] * child.reference.extent(), lengths[i]);
    }
    return made(indexed(lengths, places, *child.layout), reference, "indexed (" + child.text + ")");
  }

  // Makes an indexed type. Half of its lists are regular, so that the layout engine finds a stride
  // in them.
  Sample hindexed_of(const Sample& child) {
    const auto count = static_cast<std::size_t>(between(1, 9));
    auto places = numbers(count, -200, 300);
    auto lengths = numbers(count, 0, 3);
    if (between(0, 1) == 0) {
      const std::int64_t group = between(1, 4);
      const std::int64_t inner = between(-40, 90);
      const std::int64_t outer = between(-40, 300);
      for (std::size_t i = 0; i < count; ++i) {
        const auto k = static_cast<std::int64_t>(i);
        places[i] = k / group * outer + k % group * inner;
        lengths[i] = lengths[0];
      }
    }
    naive::Type reference;
    for (std::size_t i = 0; i < count; ++i) {
      reference.append(child.reference, places[i], lengths[i]);
    }
    return made(hindexed(lengths, places, *child.layout), reference,
                "hindexed (" + child.text + ")");
  }

  Sample indexed_block_of(const Sample& child) {
    const auto count = static_cast<std::size_t>(between(0, 7));
    const std::int64_t length = between(0, 3);
    const bool bytes = between(0, 1) == 0;
    const auto places = numbers(count, bytes ? -100 : -5, bytes ? 200 : 10);
    naive::Type reference;
    for (const std::int64_t place : places) {
      reference.append(child.reference, place * (bytes ? 1 : child.reference.extent()), length);
    }
    return made(bytes ? hindexed_block(length, places, *child.layout)
                      : indexed_block(length, places, *child.layout),
                reference, "indexed_block (" + child.text + ")");
  }

  Sample structure_of(const Sample& child) {
    std::vector<Sample> members = {child, basic()};
    if (between(0, 1) == 0) members.push_back(level(basic()));
    if (between(0, 1) == 0) std::swap(members[0], members[1]);
    const auto lengths = numbers(members.size(), 0, 3);
    auto places = numbers(members.size(), -100, 200);
    std::int64_t behind = 0;
    const bool packed = between(0, 2) == 0;
    std::vector<LayoutPtr> layouts;
    naive::Type reference;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (packed) places[i] = behind;
      reference.append(members[i].reference, places[i], lengths[i]);
      behind += lengths[i] * members[i].reference.extent();
      layouts.push_back(members[i].layout);
    }
    return made(structure(lengths, places, layouts), reference, "struct (" + child.text + ")");
  }

  Sample resized_of(const Sample& child) {
    const std::int64_t lower = between(-64, 32);
    const std::int64_t extent = between(0, 3) == 0 ? between(-60, 200) : child.reference.size();
    return made(resized(lower, extent, *child.layout),
                naive::resized(child.reference, lower, extent), "resized (" + child.text + ")");
  }

  Sample subarray_of(const Sample& child) {
    const auto dims = static_cast<std::size_t>(between(1, 3));
    const auto sizes = numbers(dims, 1, 5);
    std::vector<std::int64_t> parts;
    std::vector<std::int64_t> starts;
    for (const std::int64_t size : sizes) {
      parts.push_back(between(size > 1 ? 1 : 0, size));
      starts.push_back(between(0, size - parts.back()));
    }
    const ArrayOrder order = between(0, 1) == 0 ? ArrayOrder::c : ArrayOrder::fortran;
    const auto mine = [&](const std::vector<std::int64_t>& index) {
      for (std::size_t d = 0; d < dims; ++d) {
        if (index[d] < starts[d] || index[d] >= starts[d] + parts[d]) return false;
      }
      return true;
    };
    return made(subarray(sizes, parts, starts, order, *child.layout),
                naive::part_of_array(sizes, order, child.reference, mine),
                "subarray (" + child.text + ")");
  }

  Distributed distributed() {
    Distributed dim{between(1, 9), Distribution::none, kDefaultArgument, 1};
    const std::int64_t how = between(0, 2);
    if (how == 0) return dim;
    dim.processes = between(1, 3);
    dim.how = how == 1 ? Distribution::block : Distribution::cyclic;
    if (between(0, 1) == 0) {
      const std::int64_t least = (dim.size + dim.processes - 1) / dim.processes;
      dim.argument = how == 1 ? between(least, least + 2) : between(1, 4);
    }
    return dim;
  }

  static bool owns(const Distributed& dim, std::int64_t coordinate, std::int64_t index) {
    if (dim.how == Distribution::none) return true;
    std::int64_t length = dim.argument;
    if (length == kDefaultArgument) {
      length = dim.how == Distribution::cyclic ? 1 : (dim.size + dim.processes - 1) / dim.processes;
    }
    return index / length % dim.processes == coordinate;
  }

  Sample darray_of(const Sample& child) {
    const auto count = static_cast<std::size_t>(between(1, 3));
    std::vector<Distributed> dims;
    std::vector<std::int64_t> sizes;
    std::vector<std::int64_t> place;
    std::int64_t rank = 0;
    for (std::size_t d = 0; d < count; ++d) {
      dims.push_back(distributed());
      if (count == 3) dims[d].size = std::min<std::int64_t>(dims[d].size, dims[d].processes + 2);
      if (count == 3) dims[d].argument = kDefaultArgument;
      sizes.push_back(dims[d].size);
      place.push_back(between(0, dims[d].processes - 1));
      rank = rank * dims[d].processes + place[d];
    }
    const ArrayOrder order = between(0, 1) == 0 ? ArrayOrder::c : ArrayOrder::fortran;
    const auto mine = [&](const std::vector<std::int64_t>& index) {
      for (std::size_t d = 0; d < count; ++d) {
        if (!owns(dims[d], place[d], index[d])) return false;
      }
      return true;
    };
    return made(darray(rank, dims, order, *child.layout),
                naive::part_of_array(sizes, order, child.reference, mine),
                "darray (" + child.text + ")");
  }

  std::mt19937_64 random_;
};

}  // namespace mh::layout
