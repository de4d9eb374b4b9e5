// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/collective/ordered_sums.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <new>

#include "mpi/collective/round.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::direct {
namespace {

// A test of the order in which the MPI library combines the ranks' data sums at least this many
// random elements. With 64 ranks, two orders that differ by an exchange of two ranks give the same
// bits for 92 of 100 elements. A test therefore takes the wrong order for the right one once in
// 10^9.
constexpr std::uint64_t kTestedElements = 256;
constexpr std::uint64_t kLeastTestCalls = 16;
// The most bytes of a sum that is tested. A test takes twice the sum's memory for a moment, and as
// much time as kLeastTestCalls calls.
constexpr std::uint64_t kMostTestedBytes = 16U << 20U;
// A bit of the `terms` of a Round, facts of the call that must be equal on all ranks. It
// distinguishes the round in which the ranks agree to test the MPI library from a round of the
// program's call.
constexpr std::uint32_t kTestTerm = 1U << 31U;

std::uint64_t test_calls(std::uint64_t elements) {
  return std::max((kTestedElements + elements - 1) / elements, kLeastTestCalls);
}

// The hash of Sebastiano Vigna's splitmix64: turns a seed into the bits of a random number that is
// the same on every rank.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ x >> 30U) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ x >> 27U) * 0x94d049bb133111ebULL;
  return x ^ x >> 31U;
}

// A random number of either sign from 1/8 to 16: even a sum of a few such numbers has to be
// rounded, and no product overflows.
double random_double(std::uint64_t bits) {
  const std::uint64_t exponent = 1023 - 3 + (bits >> 52U) % 7;
  return std::bit_cast<double>((bits & 0x800fffffffffffffULL) | exponent << 52U);
}
float random_float(std::uint64_t bits) {
  const std::uint32_t exponent = 127 - 3 + static_cast<std::uint32_t>(bits >> 40U) % 7;
  return std::bit_cast<float>((static_cast<std::uint32_t>(bits) & 0x807fffffU) | exponent << 23U);
}

bool is_single(mh::rma::Type type) {
  return type == mh::rma::Type::float32 || type == mh::rma::Type::complex64;
}

// A test of the order in which the MPI library sums, and its buffers. The data of each rank is one
// block of random numbers, repeated up to the length of the program's call. All segments into which
// the library may cut a long message are therefore tested. The expected result, by
// coll::DoublingOrder, is one block, repeated in the same way.
class OrderTest {
 public:
  OrderTest(const Comm& comm, const OrderedSum& sum)
      : comm_(comm),
        sum_(sum),
        block_(std::min(sum.elements, kTestedElements) * sum.width),
        bytes_(sum.elements * sum.width),
        blocks_(new (std::nothrow) std::byte[block_ * (static_cast<std::size_t>(comm.size) + 1)]),
        own_(new (std::nothrow) std::byte[bytes_]),
        result_(new (std::nothrow) std::byte[bytes_]) {}

  [[nodiscard]] bool has_memory() const { return blocks_ && own_ && result_; }

  // Makes the test calls of MPI_Allreduce. True if all of them have given the expected bits. The
  // loop goes on after a wrong result, so that every rank makes the same calls of the MPI library.
  [[nodiscard]] bool passes() const {
    bool same = true;
    for (std::uint32_t call = 0; call < test_calls(sum_.elements); ++call)
      same = is_same(call) && same;
    return same;
  }

 private:
  [[nodiscard]] std::byte* block_of(std::uint32_t rank) const {
    return blocks_.get() + block_ * rank;
  }

  void fill(std::byte* data, std::uint64_t seed) const {
    const std::size_t width = is_single(sum_.element) ? sizeof(float) : sizeof(double);
    for (std::uint64_t at = 0; at < block_; at += width) {
      const std::uint64_t bits = mixed(seed + at);
      const double wide = random_double(bits);
      const float narrow = random_float(bits);
      std::memcpy(data + at, width == sizeof wide ? static_cast<const void*>(&wide) : &narrow,
                  width);
    }
  }

  [[nodiscard]] bool is_same(std::uint32_t call) const {
    const auto ranks = static_cast<std::uint32_t>(comm_.size);
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      fill(block_of(rank), mixed(std::uint64_t{call} << 32U | rank));
    for_each_block([&](std::uint64_t at, std::uint64_t bytes) {
      std::memcpy(own_.get() + at, block_of(static_cast<std::uint32_t>(comm_.rank)), bytes);
      return true;
    });
    const int code =
        by_count::Allreduce(real, own_.get(), result_.get(), static_cast<MPI_Count>(sum_.elements),
                            sum_.type, sum_.op, comm_.handle);
    if (code != MPI_SUCCESS) return false;
    std::byte* const ours = block_of(ranks);
    coll::DoublingOrder(ranks).combine(ours, block_ / sum_.width, sum_.width, sum_.kernel,
                                       [this](std::uint32_t rank, std::uint64_t at, std::uint64_t) {
                                         return block_of(rank) + at;
                                       });
    return for_each_block([&](std::uint64_t at, std::uint64_t bytes) {
      return std::memcmp(result_.get() + at, ours, bytes) == 0;
    });
  }

  // Calls visit(at, bytes) for each block of a rank's data, at byte `at` and of `bytes` bytes. True
  // if all these calls returned true.
  template <class Visit>
  bool for_each_block(Visit&& visit) const {
    bool all = true;
    for (std::uint64_t at = 0; at < bytes_; at += block_)
      all = visit(at, std::min(block_, bytes_ - at)) && all;
    return all;
  }

  const Comm& comm_;
  const OrderedSum& sum_;
  std::uint64_t block_;                  // bytes
  std::uint64_t bytes_;                  // of a rank
  std::unique_ptr<std::byte[]> blocks_;  // of all ranks, then our result
  std::unique_ptr<std::byte[]> own_;
  std::unique_ptr<std::byte[]> result_;  // of the library's call
};

// Tests on all ranks in which order the MPI library combines their data; collective. True on all
// ranks if the library's bits were as expected on every rank. The answer is false without a test if
// help is off on a rank, a rank has no memory for the test, or the ranks' calls differ (an error of
// the program).
bool passes_on_all(Comm& comm, const OrderedSum& sum) {
  const OrderTest test(comm, sum);
  Round round(comm, RoundCall::allreduce, sum.elements * sum.width, sum.terms | kTestTerm);
  if (is_switched_on() && test.has_memory()) {
    round.publish_staged();  // no rank reads the data
  } else {
    round.publish_library();
  }
  if (!round.all_agree(coll::Route::staged)) return false;
  const int own = test.passes() ? 1 : 0;
  int all = 0;
  const int code = real.Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, comm.handle);
  return code == MPI_SUCCESS && all == 1;
}

}  // namespace

bool has_known_order(Comm& comm, const OrderedSum& sum) {
  using coll::SumKnowledge;
  static_assert(coll::DoublingOrder::kMostRanks >= node::kMaxRanks);
  if (sum.elements * sum.width > kMostTestedBytes) return false;
  coll::SumOrders::Sum* const known = comm.sums.find(sum.terms, sum.elements);
  if (known == nullptr) return false;
  if (known->knows == SumKnowledge::none && ++known->calls > 4 * test_calls(sum.elements))
    known->knows = passes_on_all(comm, sum) ? SumKnowledge::doubling : SumKnowledge::library;
  return known->knows == SumKnowledge::doubling;
}

}  // namespace mh::mpi::direct
