// SPDX-License-Identifier: BSD-3-Clause
// Calls of the next layer whose form, with int or with MPI_Count, follows from the count they get.
#pragma once

#include <type_traits>

#include "mpi/next.hpp"

namespace mh::mpi {

// `Small` and `Large` are members of Next: &Next::Recv, &Next::Recv_c.
template <auto Small, auto Large, class Count, class... Rest>
int in_form(void* buffer, Count count, Rest... rest) {
  if constexpr (std::is_same_v<Count, int>) {
    return (next.*Small)(buffer, count, rest...);
  } else {
    return (next.*Large)(buffer, count, rest...);
  }
}

template <class Count>
int recv_init(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  return in_form<&Next::Recv_init, &Next::Recv_init_c>(buffer, count, type, source, tag, comm,
                                                       request);
}

}  // namespace mh::mpi
