// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rndv/persistent_sends.hpp"

#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mpi/handle_cache.hpp"
#include "mpi/internode/send.hpp"
#include "mpi/job/comms.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/rndv/copy.hpp"
#include "mpi/rndv/send.hpp"
#include "mpi/tags.hpp"

namespace mh::mpi::rndv {
namespace {

struct PersistentSend {
  OutgoingMessage message;
  std::uint64_t
      communicator;   // Comm::key: the program may free the communicator and reuse its handle
  MPI_Request plain;  // the library's own request, which sends the data
  MPI_Datatype type;  // of a send by internode pipeline, else MPI_DATATYPE_NULL
  int fin_tag;
};

// A start of a persistent send that the plain request, the MPI library's own, carries out. The
// start is in the list `library_starts` until the plain request is complete.
struct LibraryStart {
  MPI_Request plain;
  MPI_Request request;  // of the program: the receive of the FIN
  int fin_tag;
};
// A persistent send whose request the program has freed while the send was active, that is, while
// its FIN had not come.
struct FreedSend {
  MPI_Request request;
  PersistentSend send;
};

// The persistent sends of this process that may go by rendezvous or by internode pipeline.
struct PersistentSends {
  std::mutex mutex;                                             // guards the members below
  std::unordered_map<std::uint64_t, PersistentSend> by_handle;  // of the program's request
  std::vector<LibraryStart> library_starts;
  std::vector<FreedSend> freed;
  std::vector<int> free_tags;
  int next_tag = tags::kPersistentFins.first;
};
PersistentSends g_persistent;

std::optional<int> reserve_tag() {
  const std::lock_guard<std::mutex> hold(g_persistent.mutex);
  if (!g_persistent.free_tags.empty()) {
    const int tag = g_persistent.free_tags.back();
    g_persistent.free_tags.pop_back();
    return tag;
  }
  if (!tags::kPersistentFins.contains(g_persistent.next_tag)) return std::nullopt;
  return g_persistent.next_tag++;
}

std::optional<PersistentSend> find_send(MPI_Request request) {
  const std::lock_guard<std::mutex> hold(g_persistent.mutex);
  const auto at = g_persistent.by_handle.find(bits_of(request));
  if (at == g_persistent.by_handle.end()) return std::nullopt;
  return at->second;
}

// A copy of a send's datatype, needed because the program may free its own datatype before the last
// start.
MPI_Datatype copy_of(MPI_Datatype type) {
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  real.Type_contiguous(1, type, &copy);
  real.Type_commit(&copy);
  return copy;
}

// Frees both requests of a send that is not active: `request`, the program's, and the plain
// request, the MPI library's own. Called with g_persistent.mutex locked.
void dispose(MPI_Request request, PersistentSend& send) {
  real.Request_free(&request);
  real.Request_free(&send.plain);
  if (send.type != MPI_DATATYPE_NULL) {
    datatypes::forget_type(send.type);
    real.Type_free(&send.type);
  }
  g_persistent.free_tags.push_back(send.fin_tag);
}

// Cancels the receive of a FIN that will not come. `request`, the program's persistent request,
// becomes inactive.
void cancel_fin(MPI_Request* request) {
  real.Cancel(request);
  wait_request(request, MPI_STATUS_IGNORE);
}

int start_in_library(MPI_Request request, const PersistentSend& send) {
  MPI_Request plain = send.plain;
  const int code = next.Start(&plain);
  if (code != MPI_SUCCESS) return code;
  const std::lock_guard<std::mutex> hold(g_persistent.mutex);
  g_persistent.library_starts.push_back(
      {.plain = plain, .request = request, .fin_tag = send.fin_tag});
  detached_operations.fetch_add(1, std::memory_order_relaxed);
  return code;
}

// Starts the send by internode pipeline, by rendezvous, or else by its plain request, the MPI
// library's own. The receive of the FIN, `request`, is already started.
int send_started(MPI_Request request, const PersistentSend& send) {
  const Comm* comm = comms::find(send.message.comm);
  if (comm == nullptr || comm->key != send.communicator) return start_in_library(request, send);
  if (send.type != MPI_DATATYPE_NULL) {
    const datatypes::Info info = datatypes::info(send.type);
    const auto internode_id =
        internode::reserve_send(send.message, send.type, info, send.fin_tag, request);
    if (internode_id) return internode::start_send(*internode_id, send.message);
  } else if (comms::allow_rendezvous()) {
    const auto fin_tag = static_cast<std::uint32_t>(send.fin_tag);
    if (const auto slot = post_send(send.message, fin_tag, request))
      return send_rts(*slot, send.message);
  }
  return start_in_library(request, send);
}

// True if the FIN that `request` receives has not come yet, so that the send is active.
bool is_active(MPI_Request request) {
  int flag = 1;
  real.Request_get_status(request, &flag, MPI_STATUS_IGNORE);
  return flag == 0;
}

// True if the plain request (the MPI library's own) of a start is complete. This rank then sends
// itself the FIN, or cancels the receive of the FIN if the plain request was cancelled. Called with
// g_persistent.mutex locked.
bool is_over(LibraryStart& start) {
  int flag = 0;
  MPI_Status status;
  const int code = next.Test(&start.plain, &flag, &status);
  if (code == MPI_SUCCESS && flag == 0) return false;
  int cancelled = 0;
  if (code == MPI_SUCCESS) real.Test_cancelled(&status, &cancelled);
  if (cancelled != 0) {
    real.Cancel(&start.request);
    return true;
  }
  send_fin(config.me, start.fin_tag);
  return true;
}

// True if the FIN has come for a send whose request the program has freed. Both requests of the
// send, the program's and the MPI library's own, are then freed. Called with g_persistent.mutex
// locked.
bool is_over(FreedSend& freed) {
  int flag = 0;
  real.Test(&freed.request, &flag, MPI_STATUS_IGNORE);
  if (flag != 0) dispose(freed.request, freed.send);
  return flag != 0;
}

template <class Detached>
void erase_those_over(std::vector<Detached>& detached) {
  const std::size_t over = std::erase_if(detached, [](Detached& one) { return is_over(one); });
  detached_operations.fetch_sub(over, std::memory_order_relaxed);
}

}  // namespace

void make_persistent_send(const OutgoingMessage& given, MPI_Datatype type, MPI_Request* request) {
  if (given.bytes == 0) return;
  OutgoingMessage message = given;
  const datatypes::Info info = datatypes::info(type);
  // Most persistent sends are part of an exchange. A message so long that third ranks may copy its
  // chunks counts as one-way and may go by rendezvous, because it is not known yet whether a third
  // rank will be idle at a start.
  message.pattern =
      is_for_third_ranks(message.bytes) ? SendPattern::one_way : SendPattern::exchanged;
  const bool by_internode =
      !message.synchronous && internode::may_use_pipeline(message, type, info);
  if (!by_internode && !choose_rendezvous(message, type, info)) return;
  const auto fin_tag = reserve_tag();
  if (!fin_tag) return;
  PersistentSend send{.message = message,
                      .communicator = comms::find(message.comm)->key,
                      .plain = *request,
                      .type = by_internode ? copy_of(type) : MPI_DATATYPE_NULL,
                      .fin_tag = *fin_tag};
  // The source is MPI_ANY_SOURCE. The FIN comes from the receiver, or from this rank itself if this
  // rank has pushed the data, or has started the MPI library's own send request (`plain`) instead.
  real.Recv_init(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, *fin_tag, config.node_comm, request);
  const std::lock_guard<std::mutex> hold(g_persistent.mutex);
  g_persistent.by_handle.insert_or_assign(bits_of(*request), std::move(send));
}

std::optional<int> start_persistent_send(MPI_Request* request) {
  const auto send = find_send(*request);
  if (!send) return std::nullopt;
  int code = real.Start(request);
  if (code != MPI_SUCCESS) return code;
  code = send_started(*request, *send);
  if (code != MPI_SUCCESS) cancel_fin(request);
  return code;
}

bool free_persistent_send(MPI_Request request) {
  const std::lock_guard<std::mutex> hold(g_persistent.mutex);
  const auto at = g_persistent.by_handle.find(bits_of(request));
  if (at == g_persistent.by_handle.end()) return false;
  if (is_active(request)) {
    g_persistent.freed.push_back({.request = request, .send = std::move(at->second)});
    detached_operations.fetch_add(1, std::memory_order_relaxed);
  } else {
    dispose(request, at->second);
  }
  g_persistent.by_handle.erase(at);
  return true;
}

bool cancel_library_start(MPI_Request request) {
  if (detached_operations.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> hold(g_persistent.mutex);
  for (LibraryStart& start : g_persistent.library_starts) {
    if (start.request != request) continue;
    next.Cancel(&start.plain);  // is_over() reads the outcome of the cancellation
    return true;
  }
  return false;
}

void await_fin_of(MPI_Request request) {
  const auto send = find_send(request);
  const auto tag = send ? std::optional(send->fin_tag) : fin_tag_of(request);
  if (!tag) return;
  // This rank sends itself a second FIN, and posts a second receive behind the program's request.
  // MPI matches in order, so the program's request is complete once the second receive is complete.
  MPI_Request second = MPI_REQUEST_NULL;
  if (real.Irecv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, *tag, config.node_comm, &second) !=
      MPI_SUCCESS) {
    return;
  }
  send_fin(config.me, *tag);
  wait_request(&second, MPI_STATUS_IGNORE);
}

void progress_persistent_sends() {
  if (detached_operations.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard<std::mutex> hold(g_persistent.mutex);
  erase_those_over(g_persistent.library_starts);
  erase_those_over(g_persistent.freed);
}

void stop_persistent_sends() {
  progress_persistent_sends();
  const std::lock_guard<std::mutex> hold(g_persistent.mutex);
  for (FreedSend& freed : g_persistent.freed) {
    cancel_fin(&freed.request);
    dispose(freed.request, freed.send);
  }
  // The program itself frees the request that it has got for a persistent send. This loop frees the
  // send's plain request, the MPI library's own, which the program has never got.
  for (auto& [bits, send] : g_persistent.by_handle) real.Request_free(&send.plain);
  g_persistent.freed.clear();
  g_persistent.by_handle.clear();
  g_persistent.library_starts.clear();
}

}  // namespace mh::mpi::rndv
