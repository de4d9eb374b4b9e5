// SPDX-License-Identifier: BSD-3-Clause
// One-sided communication: the operations. On windows of ours they are ours (mpi/onesided); what is
// unusual there, and all other windows, are the library's.
//
// An operation with a request is one without: it is over when it returns, and so is its request.
#include "mpi/next.hpp"
#include "mpi/onesided/operations.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

using rma::Buffer;
using rma::Outcome;
using rma::Target;
using rma::Win;

// `ours` on a window of ours, `library` where that says nothing and on all others.
template <class Ours, class Library>
int choose(MPI_Win handle, Ours&& ours, Library&& library) {
  Win* win = rma::find(handle);
  if (win == nullptr) return library();
  const Outcome done = ours(*win);
  return done ? *done : library();
}

template <class Ours, class Library>
int choose_with_request(MPI_Win handle, MPI_Request* request, Ours&& ours, Library&& library) {
  return choose(
      handle,
      [&](Win& win) -> Outcome {
        const Outcome done = ours(win);
        return done && *done == MPI_SUCCESS ? rma::completed_request(request) : done;
      },
      library);
}

}  // namespace

namespace wrap {

int Put(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
        MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win) {
  return choose(
      win,
      [&](Win& ours) {
        return rma::put(ours, {origin_addr, origin_count, origin_datatype},
                        {target_rank, target_disp, target_count, target_datatype});
      },
      [&] {
        return next.Put(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                        target_count, target_datatype, win);
      });
}

int Get(void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
        MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win) {
  return choose(
      win,
      [&](Win& ours) {
        return rma::get(ours, {origin_addr, origin_count, origin_datatype},
                        {target_rank, target_disp, target_count, target_datatype});
      },
      [&] {
        return next.Get(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                        target_count, target_datatype, win);
      });
}

int Accumulate(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
               int target_rank, MPI_Aint target_disp, int target_count,
               MPI_Datatype target_datatype, MPI_Op op, MPI_Win win) {
  return choose(
      win,
      [&](Win& ours) {
        return rma::accumulate(ours, {origin_addr, origin_count, origin_datatype}, nullptr,
                               {target_rank, target_disp, target_count, target_datatype}, op);
      },
      [&] {
        return next.Accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                               target_count, target_datatype, op, win);
      });
}

int Get_accumulate(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                   void* result_addr, int result_count, MPI_Datatype result_datatype,
                   int target_rank, MPI_Aint target_disp, int target_count,
                   MPI_Datatype target_datatype, MPI_Op op, MPI_Win win) {
  return choose(
      win,
      [&](Win& ours) {
        const Buffer result{result_addr, result_count, result_datatype};
        return rma::accumulate(ours, {origin_addr, origin_count, origin_datatype}, &result,
                               {target_rank, target_disp, target_count, target_datatype}, op);
      },
      [&] {
        return next.Get_accumulate(origin_addr, origin_count, origin_datatype, result_addr,
                                   result_count, result_datatype, target_rank, target_disp,
                                   target_count, target_datatype, op, win);
      });
}

int Rput(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
         MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
         MPI_Request* request) {
  return choose_with_request(
      win, request,
      [&](Win& ours) {
        return rma::put(ours, {origin_addr, origin_count, origin_datatype},
                        {target_rank, target_disp, target_count, target_datatype});
      },
      [&] {
        return next.Rput(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                         target_count, target_datatype, win, request);
      });
}

int Rget(void* origin_addr, int origin_count, MPI_Datatype origin_datatype, int target_rank,
         MPI_Aint target_disp, int target_count, MPI_Datatype target_datatype, MPI_Win win,
         MPI_Request* request) {
  return choose_with_request(
      win, request,
      [&](Win& ours) {
        return rma::get(ours, {origin_addr, origin_count, origin_datatype},
                        {target_rank, target_disp, target_count, target_datatype});
      },
      [&] {
        return next.Rget(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                         target_count, target_datatype, win, request);
      });
}

int Raccumulate(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                int target_rank, MPI_Aint target_disp, int target_count,
                MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request* request) {
  return choose_with_request(
      win, request,
      [&](Win& ours) {
        return rma::accumulate(ours, {origin_addr, origin_count, origin_datatype}, nullptr,
                               {target_rank, target_disp, target_count, target_datatype}, op);
      },
      [&] {
        return next.Raccumulate(origin_addr, origin_count, origin_datatype, target_rank,
                                target_disp, target_count, target_datatype, op, win, request);
      });
}

int Rget_accumulate(const void* origin_addr, int origin_count, MPI_Datatype origin_datatype,
                    void* result_addr, int result_count, MPI_Datatype result_datatype,
                    int target_rank, MPI_Aint target_disp, int target_count,
                    MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request* request) {
  return choose_with_request(
      win, request,
      [&](Win& ours) {
        const Buffer result{result_addr, result_count, result_datatype};
        return rma::accumulate(ours, {origin_addr, origin_count, origin_datatype}, &result,
                               {target_rank, target_disp, target_count, target_datatype}, op);
      },
      [&] {
        return next.Rget_accumulate(origin_addr, origin_count, origin_datatype, result_addr,
                                    result_count, result_datatype, target_rank, target_disp,
                                    target_count, target_datatype, op, win, request);
      });
}

int Put_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
          int target_rank, MPI_Aint target_disp, MPI_Count target_count,
          MPI_Datatype target_datatype, MPI_Win win) {
  return choose(
      win,
      [&](Win& ours) {
        return rma::put(ours, {origin_addr, origin_count, origin_datatype},
                        {target_rank, target_disp, target_count, target_datatype});
      },
      [&] {
        return next.Put_c(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                          target_count, target_datatype, win);
      });
}

int Get_c(void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,
          MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win) {
  return choose(
      win,
      [&](Win& ours) {
        return rma::get(ours, {origin_addr, origin_count, origin_datatype},
                        {target_rank, target_disp, target_count, target_datatype});
      },
      [&] {
        return next.Get_c(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                          target_count, target_datatype, win);
      });
}

int Accumulate_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                 int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                 MPI_Datatype target_datatype, MPI_Op op, MPI_Win win) {
  return choose(
      win,
      [&](Win& ours) {
        return rma::accumulate(ours, {origin_addr, origin_count, origin_datatype}, nullptr,
                               {target_rank, target_disp, target_count, target_datatype}, op);
      },
      [&] {
        return next.Accumulate_c(origin_addr, origin_count, origin_datatype, target_rank,
                                 target_disp, target_count, target_datatype, op, win);
      });
}

int Get_accumulate_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                     void* result_addr, MPI_Count result_count, MPI_Datatype result_datatype,
                     int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                     MPI_Datatype target_datatype, MPI_Op op, MPI_Win win) {
  return choose(
      win,
      [&](Win& ours) {
        const Buffer result{result_addr, result_count, result_datatype};
        return rma::accumulate(ours, {origin_addr, origin_count, origin_datatype}, &result,
                               {target_rank, target_disp, target_count, target_datatype}, op);
      },
      [&] {
        return next.Get_accumulate_c(origin_addr, origin_count, origin_datatype, result_addr,
                                     result_count, result_datatype, target_rank, target_disp,
                                     target_count, target_datatype, op, win);
      });
}

int Rput_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
           int target_rank, MPI_Aint target_disp, MPI_Count target_count,
           MPI_Datatype target_datatype, MPI_Win win, MPI_Request* request) {
  return choose_with_request(
      win, request,
      [&](Win& ours) {
        return rma::put(ours, {origin_addr, origin_count, origin_datatype},
                        {target_rank, target_disp, target_count, target_datatype});
      },
      [&] {
        return next.Rput_c(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                           target_count, target_datatype, win, request);
      });
}

int Rget_c(void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype, int target_rank,
           MPI_Aint target_disp, MPI_Count target_count, MPI_Datatype target_datatype, MPI_Win win,
           MPI_Request* request) {
  return choose_with_request(
      win, request,
      [&](Win& ours) {
        return rma::get(ours, {origin_addr, origin_count, origin_datatype},
                        {target_rank, target_disp, target_count, target_datatype});
      },
      [&] {
        return next.Rget_c(origin_addr, origin_count, origin_datatype, target_rank, target_disp,
                           target_count, target_datatype, win, request);
      });
}

int Raccumulate_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                  int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                  MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request* request) {
  return choose_with_request(
      win, request,
      [&](Win& ours) {
        return rma::accumulate(ours, {origin_addr, origin_count, origin_datatype}, nullptr,
                               {target_rank, target_disp, target_count, target_datatype}, op);
      },
      [&] {
        return next.Raccumulate_c(origin_addr, origin_count, origin_datatype, target_rank,
                                  target_disp, target_count, target_datatype, op, win, request);
      });
}

int Rget_accumulate_c(const void* origin_addr, MPI_Count origin_count, MPI_Datatype origin_datatype,
                      void* result_addr, MPI_Count result_count, MPI_Datatype result_datatype,
                      int target_rank, MPI_Aint target_disp, MPI_Count target_count,
                      MPI_Datatype target_datatype, MPI_Op op, MPI_Win win, MPI_Request* request) {
  return choose_with_request(
      win, request,
      [&](Win& ours) {
        const Buffer result{result_addr, result_count, result_datatype};
        return rma::accumulate(ours, {origin_addr, origin_count, origin_datatype}, &result,
                               {target_rank, target_disp, target_count, target_datatype}, op);
      },
      [&] {
        return next.Rget_accumulate_c(origin_addr, origin_count, origin_datatype, result_addr,
                                      result_count, result_datatype, target_rank, target_disp,
                                      target_count, target_datatype, op, win, request);
      });
}

int Fetch_and_op(const void* origin_addr, void* result_addr, MPI_Datatype datatype, int target_rank,
                 MPI_Aint target_disp, MPI_Op op, MPI_Win win) {
  return choose(
      win,
      [&](Win& ours) {
        return rma::fetch_and_op(ours, origin_addr, result_addr, datatype, target_rank, target_disp,
                                 op);
      },
      [&] {
        return next.Fetch_and_op(origin_addr, result_addr, datatype, target_rank, target_disp, op,
                                 win);
      });
}

int Compare_and_swap(const void* origin_addr, const void* compare_addr, void* result_addr,
                     MPI_Datatype datatype, int target_rank, MPI_Aint target_disp, MPI_Win win) {
  return choose(
      win,
      [&](Win& ours) {
        return rma::compare_and_swap(ours, origin_addr, compare_addr, result_addr, datatype,
                                     target_rank, target_disp);
      },
      [&] {
        return next.Compare_and_swap(origin_addr, compare_addr, result_addr, datatype, target_rank,
                                     target_disp, win);
      });
}

}  // namespace wrap
}  // namespace mh::mpi
