// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, persistent requests, and MPI_Request_free.
//
// A persistent send that may be described is, for the program, the persistent receive of its
// completion message. Each start describes the message anew; a start that cannot (no free slot,
// helping switched off) sends the data as it is, and this rank sends the completion message to
// itself when that is done.
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mpi/exchange.hpp"
#include "mpi/landing.hpp"
#include "mpi/ledger.hpp"
#include "mpi/message.hpp"
#include "mpi/moving.hpp"
#include "mpi/outgoing.hpp"
#include "mpi/runtime.hpp"
#include "mpi/short_receives.hpp"
#include "mpi/tags.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

struct PersistentSend {
  Outgoing message;
  MPI_Count count;
  MPI_Datatype type;
  int fin_tag;
  bool by_wire;
};

std::mutex g_mutex;                                         // guards what follows
std::unordered_map<std::uint64_t, PersistentSend> g_sends;  // by handle
std::vector<int> g_free_tags;
int g_next_tag = tags::kPersistentFins.first;
struct Undescribed {
  MPI_Request sending;
  MPI_Request completion;  // the program's
  int fin_tag;
};
std::vector<Undescribed> g_undescribed;

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

// True if `request` now is the persistent receive of a completion message.
bool init_described(Mode mode, const void* buffer, MPI_Count count, MPI_Datatype type, int dest,
                    int tag, MPI_Comm comm, MPI_Request* request) {
  if (!g.active || count <= 0) return false;
  const datatypes::Info info = datatypes::info(type);
  Outgoing message{buffer, message_bytes(count, info), dest, tag, comm};
  // Most of what comes again and again is part of one; whether a third rank will be idle then,
  // which could reach it, nobody knows now.
  message.exchange = g.ranks == 2 || !g.reaching ? Exchange::yes : Exchange::no;
  if (message.bytes == p2p::kDescriptorBytes) note_short(dest, comm);
  const bool by_wire = mode != Mode::synchronous && wires::may_take(message, type, info);
  if (!by_wire && !may_describe(message, type, info)) return false;
  const auto fin_tag = take_tag();
  if (!fin_tag) return false;
  // From anyone: the receiver, or this rank itself after an undescribed start.
  if (real.Recv_init(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, *fin_tag, g.node_comm, request) !=
      MPI_SUCCESS) {
    return false;
  }
  MPI_Datatype kept = type;  // the program may free it before the last start
  real.Type_contiguous(1, type, &kept);
  real.Type_commit(&kept);
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_sends[bits_of(*request)] = {message, count, kept, *fin_tag, by_wire};
  return true;
}

int send_undescribed(MPI_Request request, const PersistentSend& send) {
  MPI_Request sending = MPI_REQUEST_NULL;
  const Outgoing& message = send.message;
  const int code = next.Isend_c != nullptr
                       ? next.Isend_c(message.buffer, send.count, send.type, message.dest,
                                      message.tag, message.comm, &sending)
                       : next.Isend(message.buffer, static_cast<int>(send.count), send.type,
                                    message.dest, message.tag, message.comm, &sending);
  if (code != MPI_SUCCESS) return code;
  const std::lock_guard<std::mutex> hold(g_mutex);
  g_undescribed.push_back({sending, request, send.fin_tag});
  loose_ends.fetch_add(1, std::memory_order_relaxed);
  return MPI_SUCCESS;
}

int start_described(MPI_Request* request, const PersistentSend& send) {
  const int code = real.Start(request);
  if (code != MPI_SUCCESS) return code;
  if (send.by_wire) {
    const datatypes::Info info = datatypes::info(send.type);
    const auto wire = wires::take(send.message, send.type, info, send.fin_tag, *request);
    if (wire) return wires::send(*wire, send.message);
  } else if (g.switched_on.load(std::memory_order_relaxed)) {
    if (const auto slot =
            post_with_fin_tag(send.message, static_cast<std::uint32_t>(send.fin_tag), *request)) {
      return send_descriptor(*slot, send.message);
    }
  }
  return send_undescribed(*request, send);
}

int start_one(MPI_Request* request) {
  if (const auto send = find(*request)) return start_described(request, *send);
  short_receives.start(*request);
  if (ledger.has_entries()) {
    if (const EntryPtr entry = ledger.find(*request)) {
      show(entry->receipt.landing);
      ledger.start(*entry);
    }
  }
  return next.Start(request);
}

bool keep_short(void* buffer, MPI_Count count, MPI_Datatype type, int source, MPI_Comm comm,
                MPI_Request request) {
  const datatypes::Info info = datatypes::info(type);
  const std::uint64_t bytes = message_bytes(count, info);
  if (!short_receives.suits(buffer, bytes, info.dense, source)) return false;
  auto receive = ShortReceive::of(buffer, bytes, source, comm);
  receive.persistent = 1;
  receive.under_way = 0;
  return short_receives.add(request, receive);
}

// Open MPI frees a persistent receive that fails, and gives its handle to the next one.
void forget_failed(MPI_Request request) {
  const EntryPtr entry = ledger.find(request);
  if (!entry) return;
  ledger.conclude(*entry);
  hide(entry->receipt.landing);
  ledger.remove(request);
}

int enter_receive(int code, void* buffer, MPI_Count count, MPI_Datatype type, int source,
                  MPI_Comm comm, const MPI_Request* request) {
  if (code != MPI_SUCCESS || !g.active) return code;
  forget_failed(*request);
  if (keep_short(buffer, count, type, source, comm, *request)) return code;
  const Landing landing = landing_for(buffer, count, type, source, comm);
  if (landing) ledger.add_persistent(*request, {.landing = landing, .persistent = true});
  return code;
}

// The program no longer wants to hear of this request. A receive under way still has to be settled.
int free_receive(MPI_Request* request, const EntryPtr& entry) {
  if (!ledger.is_under_way(entry)) return next.Request_free(request);
  adopt_orphan(*request, entry);
  *request = MPI_REQUEST_NULL;
  return MPI_SUCCESS;
}

void forget_send(MPI_Request request) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  const auto at = g_sends.find(bits_of(request));
  if (at == g_sends.end()) return;
  g_free_tags.push_back(at->second.fin_tag);
  datatypes::forget(at->second.type);
  real.Type_free(&at->second.type);
  g_sends.erase(at);
}

}  // namespace

void progress_undescribed() {
  if (loose_ends.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard<std::mutex> hold(g_mutex);
  std::erase_if(g_undescribed, [](Undescribed& one) {
    int flag = 0;
    int cancelled = 0;
    MPI_Status status{};
    next.Test(&one.sending, &flag, &status);
    if (flag == 0) return false;
    real.Test_cancelled(&status, &cancelled);
    if (cancelled != 0) {
      real.Cancel(&one.completion);
    } else {
      say_complete(g.me, one.fin_tag);
    }
    loose_ends.fetch_sub(1, std::memory_order_relaxed);
    return true;
  });
}

std::optional<int> persistent_fin(MPI_Request request) {
  const auto send = find(request);
  return send ? std::optional(send->fin_tag) : std::nullopt;
}

bool cancel_undescribed(MPI_Request request) {
  const std::lock_guard<std::mutex> hold(g_mutex);
  for (Undescribed& one : g_undescribed) {
    if (one.completion != request) continue;
    next.Cancel(&one.sending);
    return true;
  }
  return false;
}

namespace wrap {

int Send_init(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
  if (init_described(Mode::standard, buf, count, datatype, dest, tag, comm, request))
    return MPI_SUCCESS;
  return next.Send_init(buf, count, datatype, dest, tag, comm, request);
}
int Send_init_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                MPI_Comm comm, MPI_Request* request) {
  if (init_described(Mode::standard, buf, count, datatype, dest, tag, comm, request))
    return MPI_SUCCESS;
  return next.Send_init_c(buf, count, datatype, dest, tag, comm, request);
}
int Ssend_init(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  if (init_described(Mode::synchronous, buf, count, datatype, dest, tag, comm, request))
    return MPI_SUCCESS;
  return next.Ssend_init(buf, count, datatype, dest, tag, comm, request);
}
int Ssend_init_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                 MPI_Comm comm, MPI_Request* request) {
  if (init_described(Mode::synchronous, buf, count, datatype, dest, tag, comm, request))
    return MPI_SUCCESS;
  return next.Ssend_init_c(buf, count, datatype, dest, tag, comm, request);
}
int Rsend_init(const void* buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request* request) {
  if (init_described(Mode::ready, buf, count, datatype, dest, tag, comm, request))
    return MPI_SUCCESS;
  return next.Rsend_init(buf, count, datatype, dest, tag, comm, request);
}
int Rsend_init_c(const void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int tag,
                 MPI_Comm comm, MPI_Request* request) {
  if (init_described(Mode::ready, buf, count, datatype, dest, tag, comm, request))
    return MPI_SUCCESS;
  return next.Rsend_init_c(buf, count, datatype, dest, tag, comm, request);
}

int Recv_init(void* buf, int count, MPI_Datatype datatype, int source, int tag, MPI_Comm comm,
              MPI_Request* request) {
  const int code = next.Recv_init(buf, count, datatype, source, tag, comm, request);
  return enter_receive(code, buf, count, datatype, source, comm, request);
}
int Recv_init_c(void* buf, MPI_Count count, MPI_Datatype datatype, int source, int tag,
                MPI_Comm comm, MPI_Request* request) {
  const int code = next.Recv_init_c(buf, count, datatype, source, tag, comm, request);
  return enter_receive(code, buf, count, datatype, source, comm, request);
}

int Start(MPI_Request* request) { return g.active ? start_one(request) : next.Start(request); }

int Startall(int count, MPI_Request array_of_requests[]) {
  if (!g.active || count <= 0) return next.Startall(count, array_of_requests);
  for (int i = 0; i < count; ++i) {
    const int code = start_one(&array_of_requests[i]);
    if (code != MPI_SUCCESS) return code;
  }
  return MPI_SUCCESS;
}

int Request_free(MPI_Request* request) {
  if (!g.active || *request == MPI_REQUEST_NULL) return next.Request_free(request);
  forget_send(*request);
  short_receives.hand_over(*request);
  const EntryPtr entry = ledger.find(*request);
  if (!entry) return next.Request_free(request);
  const TypeHold hold(entry->receipt.landing);
  ledger.remove(*request);
  return free_receive(request, entry);
}

}  // namespace wrap
}  // namespace mh::mpi
