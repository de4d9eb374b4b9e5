// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, receiving: MPI_Recv, Irecv, Mrecv, Imrecv and the receiving half of MPI_Isendrecv.
//
// A blocking receive is start + wait, which costs the same in every supported library and lets the
// rank help. A receive in whose buffer a descriptor may land is settled when it completes: at once
// in a blocking call, through the pending requests otherwise.
#include <limits>

#include "mpi/calls/exchange.hpp"
#include "mpi/calls/probe.hpp"
#include "mpi/calls/shortcut.hpp"
#include "mpi/job/config.hpp"
#include "mpi/job/services.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/protocol/handlers.hpp"
#include "mpi/protocol/lost_descriptors.hpp"
#include "mpi/protocol/overlaps.hpp"
#include "mpi/protocol/settle.hpp"
#include "mpi/protocol/short_receives.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// A receive of a known message was started, with `code`. One that has no room for the descriptor
// will fail, and nobody will read the message.
int release_if_cut(int code, const ReceiveTarget& target,
                   const std::optional<SendDescriptor>& send) {
  if (code == MPI_SUCCESS && send && !target) send_descriptors::release_unread(*send);
  return code;
}

// A receive that clashes with another gets a bounce buffer. True if it did.
template <class Count>
bool avoid_clash(ReceiveTarget& target, void*& buffer, Count& count, MPI_Datatype& type) {
  if (!config.describing) return false;
  if (!target) target = without_descriptor(buffer, count, type);
  overlaps.avoid(target, static_cast<std::uint64_t>(std::numeric_limits<Count>::max()));
  if (!target.bounce) return false;
  buffer = target.buffer;
  count = static_cast<Count>(target.count);
  type = target.type;
  return true;
}

// Whether the library takes the arguments of a receive whose buffer and type it does not get to
// see.
template <class Count>
int check_arguments(void* buffer, Count count, MPI_Datatype type, int source, int tag,
                    MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = by_count::Recv_init(next, buffer, count, type, source, tag, comm, &request);
  if (code == MPI_SUCCESS) real.Request_free(&request);
  return code;
}

// What has to be done when a receive completes, and its start.
template <class Count>
int begin(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
          MPI_Request* request, Receipt& receipt) {
  receipt.target = target_for(buffer, count, type, source, comm);
  if (source != MPI_PROC_NULL && avoid_clash(receipt.target, buffer, count, type)) [[unlikely]] {
    const ReceiveTarget& users = receipt.target.place();
    const int code = check_arguments(users.buffer, static_cast<Count>(users.count), users.type,
                                     source, tag, comm);
    if (code != MPI_SUCCESS) return code;
  }
  if (set_aside_count.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    if (auto kept = take_set_aside(source, tag, comm)) {
      receipt.envelope = kept->envelope;
      receipt.comm = comms::share(comms::find(comm));
      return release_if_cut(by_count::Imrecv(next, buffer, count, type, &kept->message, request),
                            receipt.target, kept->send);
    }
  }
  return by_count::Irecv(next, buffer, count, type, source, tag, comm, request);
}

// As begin(), for a message that a probe has taken out.
template <class Count>
int begin_matched(void* buffer, Count count, MPI_Datatype type, MPI_Message* message,
                  MPI_Request* request, Receipt& receipt) {
  const auto origin = take_origin(*message);
  if (origin) {
    receipt.comm = origin->comm;
    if (origin->comm) {
      receipt.target = target_on(*origin->comm, buffer, count, type, origin->envelope.source);
    }
    if (origin->substitute) receipt.envelope = origin->envelope;
  }
  avoid_clash(receipt.target, buffer, count, type);
  const int code = by_count::Imrecv(next, buffer, count, type, message, request);
  return origin ? release_if_cut(code, receipt.target, origin->send) : code;
}

// A receive with room for less than a descriptor may have been matched with one: the library's
// error is right, and the sender must not wait for ever.
int too_short(int code, MPI_Comm comm, const MPI_Status& status) {
  if (is_truncation(code)) send_descriptors::truncated(comms::find(comm), status);
  return code;
}

// What may lie in the buffer of a completed receive becomes the message; errors are raised.
int finish(const ReceiveTarget& target, MPI_Status* status) {
  if (!target && !target.bounce) return MPI_SUCCESS;
  if (target.bounce) begin_fetch(target);
  const int code = settle(target, status);
  if (target.bounce) {
    end_fetch(target);
    put_in_place(target, *status);
  }
  return code == MPI_SUCCESS ? code : raise(comms::for_errors(*target.comm), code);
}

// A blocking receive; one that is started is noted in the pending requests.
void hold_and_note(Arrival& arrival) {
  arrival.hold = TypeHold(arrival.receipt.target);
  // Another thread may free it meanwhile.
  if (switches.threads && arrival.receipt.comm == nullptr)
    arrival.receipt.comm = comms::share(arrival.receipt.target.comm);
  if (awaits_long(arrival.receipt.target)) services.exchanges.starts_receive();
}

}  // namespace

template <class Count>
int expect(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
           Arrival& arrival) {
  arrival.comm = comm;
  if (source == MPI_PROC_NULL) return MPI_SUCCESS;  // await() knows it by its request
  const int code = begin(buffer, count, type, source, tag, comm, &arrival.request, arrival.receipt);
  hold_and_note(arrival);
  return code;
}

template int expect(void*, int, MPI_Datatype, int, int, MPI_Comm, Arrival&);
template int expect(void*, MPI_Count, MPI_Datatype, int, int, MPI_Comm, Arrival&);

int await(Arrival& arrival, MPI_Status* users) {
  // From nobody: the blocking call gives the status that the standard asks for in every library.
  if (arrival.request == MPI_REQUEST_NULL) {
    return next.Recv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, arrival.comm, users);
  }
  StatusOrOwn status(users);
  // A short receive of a rank that sends nothing long: only its latency counts.
  const bool latency = !arrival.receipt.target && services.send_queue.empty();
  const int looks = latency ? wait::kManyLooks : wait::kFewLooks;
  int code = MPI_SUCCESS;
  if (switches.errors_are_fatal) {
    code = await_request(&arrival.request, status.get(), looks);
  } else {
    handlers::ErrorsOf comm(arrival.comm);
    code = comm.raised(await_request(&arrival.request, status.get(), looks));
  }
  const Receipt& receipt = arrival.receipt;
  if (receipt.envelope) {
    set_envelope(status.get(), *receipt.envelope);
    code = handlers::raised_of_renewed(receipt.comm.get(), code);
  }
  const bool is_known = receipt.target || receipt.envelope || arrival.is_matched;
  if (code != MPI_SUCCESS) return is_known ? code : too_short(code, arrival.comm, *status.get());
  return finish(receipt.target, status.get());
}

int close_short(int code, void* buffer, MPI_Count count, MPI_Datatype type, int source,
                MPI_Comm comm, MPI_Status* status) {
  const datatypes::Info info = datatypes::info(type);
  const bool has_room = message_bytes(count, info) >= p2p::kDescriptorBytes;
  if (code != MPI_SUCCESS) return has_room ? code : too_short(code, comm, *status);
  if (!has_room || buffer == nullptr) return code;
  if (info.contiguous && !p2p::opens_descriptor(buffer, config.key)) return code;
  return finish(target_for(buffer, count, type, source, comm), status);
}

namespace {

template <class Count>
[[gnu::noinline]] int receive_short(void* buffer, Count count, MPI_Datatype type, int source,
                                    int tag, MPI_Comm comm, MPI_Status* users) {
  StatusOrOwn status(users);
  const int code = by_count::Recv(next, buffer, count, type, source, tag, comm, status.get());
  return close_short(code, buffer, count, type, source, comm, status.get());
}

template <class Count>
[[gnu::noinline]] int receive_helping(void* buffer, Count count, MPI_Datatype type, int source,
                                      int tag, MPI_Comm comm, MPI_Status* status) {
  Arrival arrival;
  const int code = expect(buffer, count, type, source, tag, comm, arrival);
  return code == MPI_SUCCESS ? await(arrival, status) : code;
}

template <class Count>
[[gnu::noinline]] int receive_any(void* buffer, Count count, MPI_Datatype type, int source, int tag,
                                  MPI_Comm comm, MPI_Status* status) {
  const bool is_fast =
      is_short(message_bytes(count, datatypes::info(type))) && may_wait_in_library();
  return is_fast ? receive_short(buffer, count, type, source, tag, comm, status)
                 : receive_helping(buffer, count, type, source, tag, comm, status);
}

// The message in this buffer, which is shorter than any described one, is a descriptor. The status
// may not say so.
[[gnu::cold, gnu::noinline]] int close_overrun(void* buffer, MPI_Count count, MPI_Datatype type,
                                               int source, MPI_Comm comm, MPI_Status* users) {
  StatusOrOwn status(users);
  ReceiveTarget target = target_for(buffer, count, type, source, comm);
  target.silent = true;
  return finish(target, status.get());
}

// As receive_short(), for a contiguous buffer with room for a descriptor, where errors are fatal:
// two words of the buffer tell that none is there. A status that the caller does not want costs
// some libraries time.
template <class Count>
[[gnu::noinline]] int receive_dense(void* buffer, Count count, MPI_Datatype type, int source,
                                    int tag, MPI_Comm comm, MPI_Status* status) {
  const int code = by_count::Recv(next, buffer, count, type, source, tag, comm, status);
  if (code != MPI_SUCCESS || !p2p::opens_descriptor(buffer, config.key)) [[likely]]
    return code;
  return close_overrun(buffer, count, type, source, comm, status);
}

template <class Count>
int receive(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
            MPI_Status* status) {
  const datatypes::KnownSize known = datatypes::known(count, type);
  if (known.bytes >= config.threshold || !passes()) {
    return receive_any(buffer, count, type, source, tag, comm, status);
  }
  if (!switches.errors_are_fatal)
    return receive_short(buffer, count, type, source, tag, comm, status);
  // Too short for a descriptor, and the library would not come back with an error: nothing is left
  // to do after it. As a tail call this spares a return from deep in the library's wait, which is
  // 50 ns in Open MPI 5.
  if (known.bytes < p2p::kDescriptorBytes) {
    return by_count::Recv(next, buffer, count, type, source, tag, comm, status);
  }
  return known.contiguous && buffer != nullptr
             ? receive_dense(buffer, count, type, source, tag, comm, status)
             : receive_short(buffer, count, type, source, tag, comm, status);
}

void enter(MPI_Request request, Receipt receipt) {
  if (!receipt.target) overlaps.note(receipt.target);
  const bool is_plain = !receipt.target && !receipt.target.bounce;
  if (is_plain && !receipt.envelope && !receipt.too_short) return;
  show(receipt.target);
  pending_requests.add(request, receipt);
}

// Apart, both: a Receipt needs a large frame, which the usual path has no use for.
[[gnu::noinline]] void enter_too_short(MPI_Request request, int source, int tag, MPI_Comm comm) {
  Receipt receipt;
  note_too_short(receipt, {.source = source, .tag = tag}, comm);
  enter(request, receipt);
}
[[gnu::noinline]] void enter_any(MPI_Request request, void* buffer, MPI_Count count,
                                 MPI_Datatype type, int source, MPI_Comm comm) {
  enter(request, {.target = target_for(buffer, count, type, source, comm)});
}

template <class Count>
[[gnu::noinline]] int start_any_receive(void* buffer, Count count, MPI_Datatype type, int source,
                                        int tag, MPI_Comm comm, MPI_Request* request) {
  Receipt receipt;
  const int code = begin(buffer, count, type, source, tag, comm, request, receipt);
  if (code != MPI_SUCCESS) return code;
  note_too_short(receipt, {.source = source, .tag = tag}, comm);
  enter(*request, receipt);
  return code;
}

// One that something has to be remembered of after the library's call.
template <class Count>
[[gnu::noinline]] int start_noted_receive(void* buffer, Count count, MPI_Datatype type, int source,
                                          int tag, MPI_Comm comm, MPI_Request* request) {
  const datatypes::KnownSize known = datatypes::known(count, type);
  const bool as_given = set_aside_count.load(std::memory_order_relaxed) == 0 && known.contiguous &&
                        !(overlaps.any_heads() && overlaps.meets_head(buffer, known.bytes));
  if (as_given && known.bytes < p2p::kDescriptorBytes) {
    overlaps.note(buffer, known.bytes);
    const int code = by_count::Irecv(next, buffer, count, type, source, tag, comm, request);
    if (code == MPI_SUCCESS && send_descriptors::searches_lost())
      enter_too_short(*request, source, tag, comm);
    return code;
  }
  if (!as_given || !short_receives.suits(buffer, known.bytes, source)) {
    return start_any_receive(buffer, count, type, source, tag, comm, request);
  }
  overlaps.pass();
  const int code = by_count::Irecv(next, buffer, count, type, source, tag, comm, request);
  if (code != MPI_SUCCESS) return code;
  const auto receive = ShortReceive::of(buffer, known.bytes, source, comm);
  if (!short_receives.add(*request, receive)) [[unlikely]]
    enter_any(*request, buffer, count, type, source, comm);
  return code;
}

// The usual cases. Where a receive is too short for a descriptor, and no error would come back,
// nothing is left to do after the library's call, which is a jump.
template <class Count>
int start_receive(void* buffer, Count count, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request* request) {
  const datatypes::KnownSize known = datatypes::known(count, type);
  if (!known.contiguous || overlaps.any_heads() ||
      set_aside_count.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    return start_noted_receive(buffer, count, type, source, tag, comm, request);
  }
  if (known.bytes < p2p::kDescriptorBytes && switches.errors_are_fatal) {
    overlaps.note(buffer, known.bytes);
    return by_count::Irecv(next, buffer, count, type, source, tag, comm, request);
  }
  if (short_receives.any() || !short_receives.suits(buffer, known.bytes, source)) {
    return start_noted_receive(buffer, count, type, source, tag, comm, request);
  }
  overlaps.pass();
  short_receives.expect_alone(ShortReceive::of(buffer, known.bytes, source, comm));
  const int code = by_count::Irecv(next, buffer, count, type, source, tag, comm, request);
  if (code == MPI_SUCCESS) short_receives.add_alone(*request);
  return code;
}

template <class Count>
int receive_matched(void* buffer, Count count, MPI_Datatype type, MPI_Message* message,
                    MPI_Status* status) {
  Arrival arrival{.is_matched = true};
  const int code = begin_matched(buffer, count, type, message, &arrival.request, arrival.receipt);
  hold_and_note(arrival);
  return code == MPI_SUCCESS ? await(arrival, status) : code;
}

template <class Count>
int start_receive_matched(void* buffer, Count count, MPI_Datatype type, MPI_Message* message,
                          MPI_Request* request) {
  Receipt receipt;
  const int code = begin_matched(buffer, count, type, message, request, receipt);
  if (code == MPI_SUCCESS) enter(*request, receipt);
  return code;
}

// The request of a combined send-receive: what lands in its receive buffer is settled like any
// receive.
void enter_combined(void* buffer, MPI_Count count, MPI_Datatype type, int source, MPI_Comm comm,
                    MPI_Request request) {
  if (!switches.active) return;
  Receipt receipt{.target = target_for(buffer, count, type, source, comm)};
  if (!receipt.target) receipt.target = without_descriptor(buffer, count, type);
  receipt.target.silent = true;  // in MPICH from 4.1 on, for one
  enter(request, receipt);
}

}  // namespace
}  // namespace mh::mpi

// The wrappers, generated from calls.json.
#include "mpi/calls/receive.inc"
