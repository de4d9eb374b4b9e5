// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, persistent requests, and MPI_Request_free.
//
// Each is made by the library first, which looks at the arguments. A persistent send that may be
// described is then, for the program, the persistent receive of its completion message. Each start
// describes the message anew. A start that cannot (no free slot, helping switched off, the
// communicator freed) starts the library's own request, and this rank sends the completion message
// to itself when that is done.
//
// The tag of a completion message is used again only when no message with it is under way: a send
// that is freed while active is kept until then.
#include "mpi/calls/persistent.hpp"

#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mpi/calls/exchange.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/lost_descriptors.hpp"
#include "mpi/protocol/message.hpp"
#include "mpi/protocol/overlaps.hpp"
#include "mpi/protocol/pending_requests.hpp"
#include "mpi/protocol/receiver.hpp"
#include "mpi/protocol/sender.hpp"
#include "mpi/protocol/short_receives.hpp"
#include "mpi/protocol/transfer.hpp"
#include "mpi/tags.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

struct PersistentSend {
  Outgoing message;
  std::uint64_t communicator;  // its key: the handle may belong to another one by now
  MPI_Request plain;           // the library's own request, which sends the data as it is
  MPI_Datatype type;           // by internode pipeline only, else MPI_DATATYPE_NULL
  int fin_tag;
};

// A start of the library's own request that is under way.
struct Undescribed {
  MPI_Request plain;
  MPI_Request request;  // the program's: the receive of the completion message
  int fin_tag;
};
struct Freed {
  MPI_Request request;
  PersistentSend send;
};

std::mutex g_mutex;                                         // guards what follows
std::unordered_map<std::uint64_t, PersistentSend> g_sends;  // by the program's handle
std::vector<Undescribed> g_undescribed;
std::vector<Freed> g_freed;  // by the program, while active
std::vector<int> g_free_tags;
int g_next_tag = tags::kPersistentFins.first;

std::optional<int> take_tag() {
  const std::lock_guard<std::mutex> hold(g_mutex);
  if (!g_free_tags.empty()) {
    const int tag = g_free_tags.back();
    g_free_tags.pop_back();
    return tag;
  }
  if (!tags::kPersistentFins.contains(g_next_tag)) return std::nullopt;
  return g_next_tag++;
}

std::optional<PersistentSend> find(MPI_Request request) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = g_sends.find(bits_of(request));
  if (at == g_sends.end()) return std::nullopt;
  return at->second;
}

// ---- Making a send -----------------------------------------------------------------------------

// The program may free the type before the last start.
MPI_Datatype kept(MPI_Datatype type) {
  MPI_Datatype copy = MPI_DATATYPE_NULL;
  real.Type_contiguous(1, type, &copy);
  real.Type_commit(&copy);
  return copy;
}

// With g_mutex. `request` is not active.
void dispose(MPI_Request request, PersistentSend& send) {
  real.Request_free(&request);
  real.Request_free(&send.plain);
  if (send.type != MPI_DATATYPE_NULL) {
    datatypes::forget_type(send.type);
    real.Type_free(&send.type);
  }
  g_free_tags.push_back(send.fin_tag);
}

// The library has made `request`. If the message may be described, the program gets the receive of
// its completion message instead.
void describe(Mode mode, const void* buffer, MPI_Count count, MPI_Datatype type, int dest, int tag,
              MPI_Comm comm, MPI_Request* request) {
  if (!switches.active || count <= 0) return;
  const datatypes::Info info = datatypes::info(type);
  Outgoing message{buffer, message_bytes(count, info), dest, tag, comm};
  // Most of what comes again and again is part of one; whether a third rank will be idle then, and
  // takes a hand, nobody knows now.
  message.exchange = is_for_third_ranks(message.bytes) ? Exchange::no : Exchange::yes;
  if (message.bytes == p2p::kDescriptorBytes) note_short(dest, comm);
  const bool by_internode = mode != Mode::synchronous && internode::may_take(message, type, info);
  if (!by_internode && !may_describe(message, type, info)) return;
  const auto fin_tag = take_tag();
  if (!fin_tag) return;
  PersistentSend send{.message = message,
                      .communicator = comms::find(comm)->key,
                      .plain = *request,
                      .type = by_internode ? kept(type) : MPI_DATATYPE_NULL,
                      .fin_tag = *fin_tag};
  // From anyone: the receiver, or this rank itself after an undescribed start.
  real.Recv_init(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, *fin_tag, config.node_comm, request);
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_sends.insert_or_assign(bits_of(*request), std::move(send));
}

// ---- Starting ----------------------------------------------------------------------------------

// The receive of a completion message that will not come. The request stays, inactive.
void call_off(MPI_Request* request) {
  real.Cancel(request);
  wait_request(request, MPI_STATUS_IGNORE);
}

int start_plain(MPI_Request request, const PersistentSend& send) {
  MPI_Request plain = send.plain;
  const int code = next.Start(&plain);
  if (code != MPI_SUCCESS) return code;
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_undescribed.push_back({.plain = plain, .request = request, .fin_tag = send.fin_tag});
  detached_operations.fetch_add(1, std::memory_order_relaxed);
  return code;
}

int send_started(MPI_Request request, const PersistentSend& send) {
  const Comm* comm = comms::find(send.message.comm);
  if (comm == nullptr || comm->key != send.communicator) return start_plain(request, send);
  if (send.type != MPI_DATATYPE_NULL) {
    const datatypes::Info info = datatypes::info(send.type);
    const auto internode_id = internode::take(send.message, send.type, info, send.fin_tag, request);
    if (internode_id) return internode::send(*internode_id, send.message);
  } else if (comms::let_describe()) {
    if (const auto slot = post(send.message, static_cast<std::uint32_t>(send.fin_tag), request)) {
      return send_descriptor(*slot, send.message);
    }
  }
  return start_plain(request, send);
}

int start_send(MPI_Request* request, const PersistentSend& send) {
  int code = real.Start(request);
  if (code != MPI_SUCCESS) return code;
  code = send_started(*request, send);
  if (code != MPI_SUCCESS) call_off(request);
  return code;
}

int start_receive(MPI_Request* request) {
  const int code = next.Start(request);
  if (code != MPI_SUCCESS) return code;
  short_receives.start(*request);
  if (!pending_requests.has_entries()) return code;
  if (const PendingReceivePtr entry = pending_requests.find(*request)) {
    show(entry->receipt.target);
    pending_requests.start(*entry);
  }
  return code;
}

int start_one(MPI_Request* request) {
  const auto send = find(*request);
  return send ? start_send(request, *send) : start_receive(request);
}

int start_all(int count, MPI_Request* requests) {
  for (int i = 0; i < count; ++i) {
    const int code = start_one(&requests[i]);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

// ---- Receives ----------------------------------------------------------------------------------

bool keep_short(void* buffer, MPI_Count count, MPI_Datatype type, int source, MPI_Comm comm,
                MPI_Request request) {
  const datatypes::Info info = datatypes::info(type);
  const std::uint64_t bytes = message_bytes(count, info);
  if (!info.contiguous || !short_receives.suits(buffer, bytes, source)) return false;
  auto receive = ShortReceive::of(buffer, bytes, source, comm);
  receive.persistent = 1;
  receive.under_way = 0;
  return short_receives.add(request, receive);
}

// Open MPI frees a persistent receive that fails, and gives its handle to the next one.
void forget_failed(MPI_Request request) {
  overlaps.remove_persistent(request);
  const PendingReceivePtr entry = pending_requests.find(request);
  if (!entry) return;
  pending_requests.conclude(*entry);
  hide(entry->receipt.target);
  pending_requests.remove(request);
}

void enter_receive(const ReceiveTarget& target, const Envelope& asked, MPI_Comm comm,
                   MPI_Request request) {
  Receipt receipt{.target = target, .persistent = true};
  note_too_short(receipt, asked, comm);
  if (target.capacity == 0 && !receipt.too_short) return;
  const bool is_simple = target.bounce == nullptr;
  if (is_simple &&
      keep_short(target.buffer, target.count, target.type, asked.source, comm, request)) {
    return overlaps.add_persistent(request, target);
  }
  if (is_simple && !target) overlaps.add_persistent(request, target);
  if (!is_simple || target || receipt.too_short) pending_requests.add_persistent(request, receipt);
}

template <class Count>
int make_receive(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                 MPI_Request* request) {
  ReceiveTarget target = target_for(buffer, count, type, source, comm);
  if (!target) target = without_descriptor(buffer, count, type);
  if (source == MPI_PROC_NULL) target = {};
  overlaps.avoid(target, static_cast<std::uint64_t>(std::numeric_limits<Count>::max()));
  int code = by_count::Recv_init(next, buffer, count, type, source, tag, comm, request);
  if (code == MPI_SUCCESS && target.bounce) {
    real.Request_free(request);
    code = by_count::Recv_init(next, target.buffer, static_cast<Count>(target.count), target.type,
                               source, tag, comm, request);
  }
  if (code != MPI_SUCCESS) return code;
  forget_failed(*request);
  enter_receive(target, {.source = source, .tag = tag}, comm, *request);
  return code;
}

// The program no longer wants to hear of this request. A receive under way still has to be settled.
int free_receive(MPI_Request* request, const PendingReceivePtr& entry) {
  if (!pending_requests.is_under_way(entry) || entry->receipt.too_short) {
    pending_requests.conclude(*entry);
    return next.Request_free(request);
  }
  pending_requests.adopt_orphan(*request, entry);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

// ---- The end of a send -------------------------------------------------------------------------

// True if `request` is the receive of a completion message that has not come yet.
bool is_active(MPI_Request request) {
  int flag = 1;
  real.Request_get_status(request, &flag, MPI_STATUS_IGNORE);
  return flag == 0;
}

// True if `request` is a persistent send of ours.
bool free_send(MPI_Request request) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = g_sends.find(bits_of(request));
  if (at == g_sends.end()) return false;
  if (is_active(request)) {
    g_freed.push_back({.request = request, .send = std::move(at->second)});
    detached_operations.fetch_add(1, std::memory_order_relaxed);
  } else {
    dispose(request, at->second);
  }
  g_sends.erase(at);
  return true;
}

int free_request(MPI_Request* request) {
  if (free_send(*request)) {
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
  }
  pending_requests.adopt_short_receive(*request);
  overlaps.remove_persistent(*request);
  const PendingReceivePtr entry = pending_requests.find(*request);
  if (!entry) return next.Request_free(request);
  const TypeHold hold(entry->receipt.target);
  pending_requests.remove(*request);
  return free_receive(request, entry);
}

// With g_mutex. True if the data is sent: the program's request completes.
bool conclude(Undescribed& one) {
  int flag = 0;
  MPI_Status status;
  const int code = next.Test(&one.plain, &flag, &status);
  if (code == MPI_SUCCESS && flag == 0) return false;
  int cancelled = 0;
  if (code == MPI_SUCCESS) real.Test_cancelled(&status, &cancelled);
  if (cancelled != 0) {
    real.Cancel(&one.request);
    return true;
  }
  say_complete(config.me, one.fin_tag);
  return true;
}

// With g_mutex. True if the completion message of a freed send has come.
bool conclude(Freed& one) {
  int flag = 0;
  real.Test(&one.request, &flag, MPI_STATUS_IGNORE);
  if (flag != 0) dispose(one.request, one.send);
  return flag != 0;
}

template <class One>
void conclude_all(std::vector<One>& ends) {
  const std::size_t over = std::erase_if(ends, [](One& one) { return conclude(one); });
  detached_operations.fetch_sub(over, std::memory_order_relaxed);
}

}  // namespace

void progress_persistent() {
  if (detached_operations.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard<std::mutex> hold(g_mutex);
  conclude_all(g_undescribed);
  conclude_all(g_freed);
}

bool cancel_undescribed(MPI_Request request) {
  if (detached_operations.load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard<std::mutex> hold(g_mutex);
  for (Undescribed& one : g_undescribed) {
    if (one.request != request) continue;
    next.Cancel(&one.plain);  // conclude() sees what becomes of it
    return true;
  }
  return false;
}

void stop_persistent() {
  progress_persistent();
  const std::lock_guard<std::mutex> hold(g_mutex);
  for (Freed& one : g_freed) {
    call_off(&one.request);
    dispose(one.request, one.send);
  }
  // What the program has not freed is its own affair; ours are the requests behind.
  for (auto& [bits, send] : g_sends) real.Request_free(&send.plain);
  g_freed.clear();
  g_sends.clear();
  g_undescribed.clear();
}

std::optional<int> persistent_fin(MPI_Request request) {
  const auto send = find(request);
  return send ? std::optional(send->fin_tag) : std::nullopt;
}

}  // namespace mh::mpi

// The wrappers, generated from calls.json.
#include "mpi/calls/persistent.inc"
