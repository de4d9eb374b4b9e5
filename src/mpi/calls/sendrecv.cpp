// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3 of the MPI standard, MPI_Sendrecv and MPI_Sendrecv_replace.
#include <climits>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "mpi/calls/shortcut.hpp"
#include "mpi/calls/start_and_wait.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/completion.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// Cancels the receive of an MPI_Sendrecv whose send has failed to start, and waits for it: the
// message may have come before the receive is cancelled. Returns `code`, the error of the send.
int withdraw(BlockingReceive& receive, int code) {
  if (receive.request == MPI_REQUEST_NULL) return code;
  next.Cancel(&receive.request);
  MPI_Status status{};
  const int received = await_library(receive, &status);
  rndv::complete(std::move(receive.claim), received, &status);
  return code;
}

// Returns the library's error for these arguments of a send, which is not started. A refused
// exchange receives nothing, so a program whose errors are not fatal has its sends checked before
// the receive starts.
template <class Count>
int check_send(const void* buffer, Count count, MPI_Datatype type, int dest, int tag,
               MPI_Comm comm) {
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = by_count::Send_init(real, buffer, count, type, dest, tag, comm, &request);
  if (code == MPI_SUCCESS) real.Request_free(&request);
  return code;
}

// Carries out the receive of an MPI_Sendrecv from MPI_PROC_NULL by the library's MPI_Sendrecv,
// because libraries differ in the status that they write.
int receive_from_nobody(MPI_Comm comm, MPI_Status* status) {
  return next.Sendrecv(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, nullptr, 0, MPI_BYTE, MPI_PROC_NULL,
                       0, comm, status);
}

template <class Count>
bool may_exchange_in_library(Count send_count, MPI_Datatype send_type, Count receive_count,
                             MPI_Datatype receive_type) {
  return is_short(message_bytes(send_count, datatypes::info(send_type))) &&
         is_short(message_bytes(receive_count, datatypes::info(receive_type))) &&
         may_wait_in_library();
}

template <class Count>
int send_and_receive(const void* send_buffer, Count send_count, MPI_Datatype send_type, int dest,
                     int send_tag, void* receive_buffer, Count receive_count,
                     MPI_Datatype receive_type, int source, int receive_tag, MPI_Comm comm,
                     MPI_Status* status, bool holds_rts_header = false) {
  if (may_exchange_in_library(send_count, send_type, receive_count, receive_type)) {
    rndv::note_rts_sized_send(send_count, send_type, dest, send_tag, comm);
    StatusOrOwn seen(status);
    const int code =
        by_count::Sendrecv(next, send_buffer, send_count, send_type, dest, send_tag, receive_buffer,
                           receive_count, receive_type, source, receive_tag, comm, seen.get());
    return complete_short_receive(code, receive_buffer, receive_count, receive_type, source,
                                  receive_tag, comm, seen.get());
  }
  int code = MPI_SUCCESS;
  if (!switches.errors_are_fatal)
    code = check_send(send_buffer, send_count, send_type, dest, send_tag, comm);
  if (code != MPI_SUCCESS) return code;
  BlockingReceive receive;
  code = start_blocking_receive(receive_buffer, receive_count, receive_type, source, receive_tag,
                                comm, receive);
  if (code != MPI_SUCCESS) return code;
  SendRequest send{.holds_rts_header = holds_rts_header};
  if (receive.claim && rndv::may_receive_rendezvous(receive.claim->buffer))
    send.pattern = SendPattern::exchanged;
  code = start_send(SendMode::standard, send_buffer, send_count, send_type, dest, send_tag, comm,
                    send);
  if (code != MPI_SUCCESS) return withdraw(receive, code);
  int received = MPI_SUCCESS;
  if (receive.request == MPI_REQUEST_NULL) {
    received = receive_from_nobody(comm, status);
  } else {
    StatusOrOwn seen(status);
    code = await_library(receive, seen.get());
    received = rndv::complete(std::move(receive.claim), code, seen.get());
  }
  const int sent = wait_for(send);
  return received != MPI_SUCCESS ? received : sent;
}

// Makes the type of a packed message that has more bytes than an int can count.
MPI_Datatype make_packed_type(std::uint64_t bytes) {
  constexpr std::uint64_t kUnit = std::uint64_t{1} << 30U;
  const int counts[] = {static_cast<int>(bytes / kUnit), static_cast<int>(bytes % kUnit)};
  const MPI_Aint places[] = {0, static_cast<MPI_Aint>(bytes - bytes % kUnit)};
  MPI_Datatype types[] = {MPI_DATATYPE_NULL, MPI_PACKED};
  MPI_Datatype made = MPI_DATATYPE_NULL;
  real.Type_contiguous(static_cast<int>(kUnit), MPI_PACKED, &types[0]);
  real.Type_create_struct(2, counts, places, types, &made);
  real.Type_commit(&made);
  real.Type_free(&types[0]);
  return made;
}

// The copy that MPI_Sendrecv_replace sends, so that the receive may overwrite the buffer. Raises
// MPI_ERR_NO_MEM on `comm` if there is no memory.
template <class Count>
class PackedCopy {
 public:
  PackedCopy() = default;
  PackedCopy(const PackedCopy&) = delete;
  PackedCopy& operator=(const PackedCopy&) = delete;
  ~PackedCopy() {
    if (!made_type_) return;
    datatypes::forget_type(type);
    real.Type_free(&type);
  }

  // Fills the copy. Contiguous data are copied byte by byte, and sent with their own type. The
  // library packs other data, which are sent as MPI_PACKED.
  int pack(const void* buffer, Count elements, MPI_Datatype of, MPI_Comm comm) {
    const datatypes::Info info = datatypes::info(of);
    if (info.contiguous) {
      if (!allocate(message_bytes(elements, info))) return raise(comm, MPI_ERR_NO_MEM);
      std::memcpy(bytes.get(), buffer, message_bytes(elements, info));
      count = elements;
      type = of;
      return MPI_SUCCESS;
    }
    holds_rts_header = layouts::of_rendezvous(of) != nullptr;
    if (message_bytes(elements, info) > INT_MAX) return pack_long(buffer, elements, of, info, comm);
    Count capacity = 0;
    const int code = by_count::Pack_size(real, elements, of, comm, &capacity);
    if (code != MPI_SUCCESS) return code;
    if (!allocate(static_cast<std::size_t>(capacity))) return raise(comm, MPI_ERR_NO_MEM);
    type = MPI_PACKED;
    return by_count::Pack(real, buffer, elements, of, bytes.get(), capacity, &count, comm);
  }

  std::unique_ptr<std::byte[]> bytes;
  Count count = 0;
  MPI_Datatype type{};
  bool holds_rts_header = false;

 private:
  // Packs by the layout, because the library counts packed bytes in an int. Raises MPI_ERR_OTHER if
  // the type has no layout.
  int pack_long(const void* buffer, Count elements, MPI_Datatype of, const datatypes::Info& info,
                MPI_Comm comm) {
    const layout::LayoutPtr layout = layouts::of(of);
    const std::uint64_t size = message_bytes(elements, info);
    if (layout == nullptr) return raise(comm, MPI_ERR_OTHER);
    if (!allocate(size)) return raise(comm, MPI_ERR_NO_MEM);
    p2p::pack({.layout = layout.get(),
               .count = static_cast<std::uint64_t>(elements),
               .base = layout::address_of(buffer)},
              {0, size}, bytes.get());
    count = 1;
    type = make_packed_type(size);
    made_type_ = true;
    return MPI_SUCCESS;
  }

  bool allocate(std::size_t size) {
    bytes.reset(new (std::nothrow) std::byte[size]);
    return bytes != nullptr;
  }

  bool made_type_ = false;
};

// Finds out, by a call with MPI_PROC_NULL, whether MPI_Sendrecv_replace of the library sets
// MPI_ERROR of the status, as in MPICH.
bool replacing_writes_error() {
  static const bool writes = [] {
    MPI_Status status{};
    status.MPI_ERROR = MPI_ERR_OTHER;
    real.Sendrecv_replace(nullptr, 0, MPI_BYTE, MPI_PROC_NULL, 0, MPI_PROC_NULL, 0, MPI_COMM_SELF,
                          &status);
    return status.MPI_ERROR == MPI_SUCCESS;
  }();
  return writes;
}

template <class Count>
int send_and_receive_in_place(void* buffer, Count count, MPI_Datatype type, int dest, int send_tag,
                              int source, int receive_tag, MPI_Comm comm, MPI_Status* status) {
  PackedCopy<Count> copy;
  if (dest == MPI_PROC_NULL) {
    copy.type = type;  // nobody gets the data, so none are copied
  } else if (const int code = copy.pack(buffer, count, type, comm); code != MPI_SUCCESS) {
    return code;
  }
  const int exchanged =
      send_and_receive(copy.bytes.get(), copy.count, copy.type, dest, send_tag, buffer, count, type,
                       source, receive_tag, comm, status, copy.holds_rts_header);
  if (status != MPI_STATUS_IGNORE && replacing_writes_error())
    real.Error_class(exchanged, &status->MPI_ERROR);
  return exchanged;
}

}  // namespace
}  // namespace mh::mpi

#include "mpi/calls/sendrecv.inc"
