// SPDX-License-Identifier: BSD-3-Clause
// The condition of a wait, as a reference to a callable of any type, which returns true once the
// wait is over. Does not allocate. Valid as long as the callable.
#pragma once

#include <memory>
#include <type_traits>

namespace mh::wait::detail {

class Predicate {
 public:
  template <class Done>
  requires(!std::is_same_v<Done, Predicate>) explicit Predicate(Done& done)
      : object_(std::addressof(done)),
        call_([](void* object) -> bool { return (*static_cast<Done*>(object))(); }) {}
  bool operator()() const { return call_(object_); }

 private:
  void* object_;
  bool (*call_)(void*);
};

}  // namespace mh::wait::detail
