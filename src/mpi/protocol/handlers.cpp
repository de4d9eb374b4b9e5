// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/protocol/handlers.hpp"

#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/message.hpp"

namespace mh::mpi::handlers {
namespace {

MPI_Errhandler handler_of(MPI_Comm comm) {
  MPI_Errhandler handler{};
  real.Comm_get_errhandler(comm, &handler);
  return handler;
}

// Gives a handle back that handler_of() made.
void let_go(MPI_Errhandler handler) {
  if (is_users_handler(handler)) real.Errhandler_free(&handler);
}

// Open MPI raises errors where they belong.
#if defined(MH_ABI_OPENMPI)
constexpr bool kRaisesElsewhere = false;
#else
constexpr bool kRaisesElsewhere = true;
#endif

// Of the communicator that this thread asked for last.
struct Known {
  std::uint64_t comm = 0;
  std::uint32_t changes = 0;
  bool differs = false;
};

bool differs_from_world(MPI_Comm comm) {
  thread_local Known known;
  const std::uint32_t now = changes.load(std::memory_order_relaxed);
  if (known.comm == bits_of(comm) && known.changes == now) return known.differs;
  const MPI_Errhandler own = handler_of(comm);
  const MPI_Errhandler worlds = handler_of(MPI_COMM_WORLD);
  known = {.comm = bits_of(comm), .changes = now, .differs = own != worlds};
  let_go(own);
  let_go(worlds);
  return known.differs;
}

}  // namespace

SetAside::SetAside(MPI_Comm comm) : comm_(comm), handler_(handler_of(comm)) {
  real.Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

SetAside::~SetAside() {
  real.Comm_set_errhandler(comm_, handler_);
  let_go(handler_);
}

ErrorsOf::ErrorsOf(MPI_Comm comm) : comm_(comm) {
  if (!kRaisesElsewhere || switches.errors_are_fatal || comm == MPI_COMM_NULL) return;
  if (!differs_from_world(comm)) return;
  world_.emplace(MPI_COMM_WORLD);
  own_.emplace(comm);
}

int ErrorsOf::raised(int code) {
  const bool to_raise = own_ && code != MPI_SUCCESS;
  own_.reset();
  world_.reset();
  return to_raise ? raise(comm_, code) : code;
}

}  // namespace mh::mpi::handlers
