// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/onesided/by_elements.hpp"

#include <sys/uio.h>

#include <array>
#include <cstring>

#include "mpi/onesided/remote.hpp"
#include "onesided/executor.hpp"

namespace mh::mpi::rma {
namespace {

using onesided::Task;

class ByElements {
 public:
  ByElements(Win& win, const Task& task) : win_(win), task_(task) {}

  Status run() {
    if (task_.what.element > onesided::kMostSwapped) return {Code::misuse, 0};
    for (std::uint64_t at = 0; at < task_.what.bytes; at += task_.what.element) {
      const Status done = update(at);
      if (!done) return done;
    }
    return {};
  }

 private:
  using Bytes = std::array<std::byte, onesided::kMostSwapped>;

  // `one` is the task of one element, but for its origin and result, which are these.
  static void set_ends(Task& one, Bytes* origin, Bytes& result) {
    one.origin = {};
    if (origin != nullptr) one.origin.here = origin->data();
    one.result = {};
    one.result.here = result.data();
  }

  Status update(std::uint64_t at) {
    const layout::Range range{at, at + task_.what.element};
    Task one;
    one.what = {.op = onesided::Op::no_op,
                .atomic = true,
                .has_result = true,
                .element = task_.what.element,
                .target = task_.what.target,
                .bytes = task_.what.element};
    one.target.base = task_.target.base;
    one.target.base.address = address_of(range);
    Bytes added{};
    onesided::pack_here(task_.origin, range, added.data());
    Bytes expected{};
    set_ends(one, nullptr, expected);
    if (const Status fetched = ask(one, nullptr); !fetched) return fetched;
    one.what.op = onesided::Op::replace;
    one.what.has_origin = true;
    for (;;) {
      Bytes wanted = expected;
      Bytes before{};
      task_.reducer.reduce(task_.reducer.context, wanted.data(), added.data(), 1);
      set_ends(one, &wanted, before);
      if (const Status swapped = ask(one, expected.data()); !swapped) return swapped;
      if (std::memcmp(before.data(), expected.data(), task_.what.element) == 0) break;
      expected = before;
    }
    if (task_.what.has_result) onesided::unpack_here(task_.result, range, expected.data());
    return {};
  }

  Status ask(const Task& one, const void* compare) {
    const Status sent = compare == nullptr ? remote::carry_out(win_, one, nullptr)
                                           : remote::compare_and_swap(win_, one, compare);
    if (!sent) return sent;
    return remote::await_results(win_, task_.what.target) ? Status{} : Status{Code::system, 0};
  }

  [[nodiscard]] std::uint64_t address_of(layout::Range range) const {
    const onesided::End& target = task_.target;
    if (target.layout == nullptr) return target.base.address + range.begin;
    std::array<iovec, 1> found{};
    layout::blocks({.layout = target.layout, .count = target.count, .base = target.base.address},
                   range, found);
    return layout::address_of(found[0].iov_base);
  }

  Win& win_;
  const Task& task_;
};

}  // namespace

Status reduce_by_elements(Win& win, const Task& task) { return ByElements(win, task).run(); }

}  // namespace mh::mpi::rma
