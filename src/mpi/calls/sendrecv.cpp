// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3, MPI_Sendrecv and MPI_Sendrecv_replace: both halves of an exchange under one wait.
#include <cstring>
#include <memory>

#include "mpi/calls/exchange.hpp"
#include "mpi/calls/shortcut.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// The send could not start, so the receive cannot stay behind: its buffer is the caller's. If a
// message was there already, it is received.
int withdraw(Arrival& arrival, int code) {
  if (arrival.request == MPI_REQUEST_NULL) return code;
  next.Cancel(&arrival.request);
  MPI_Status status{};
  await(arrival, &status);
  return code;
}

// By the library's own call.
int exchange_now(const void* send_buffer, int send_count, MPI_Datatype send_type, int dest,
                 int send_tag, void* receive_buffer, int receive_count, MPI_Datatype receive_type,
                 int source, int receive_tag, MPI_Comm comm, MPI_Status* status) {
  return next.Sendrecv(send_buffer, send_count, send_type, dest, send_tag, receive_buffer,
                       receive_count, receive_type, source, receive_tag, comm, status);
}
int exchange_now(const void* send_buffer, MPI_Count send_count, MPI_Datatype send_type, int dest,
                 int send_tag, void* receive_buffer, MPI_Count receive_count,
                 MPI_Datatype receive_type, int source, int receive_tag, MPI_Comm comm,
                 MPI_Status* status) {
  return next.Sendrecv_c(send_buffer, send_count, send_type, dest, send_tag, receive_buffer,
                         receive_count, receive_type, source, receive_tag, comm, status);
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
                     MPI_Status* status) {
  if (may_exchange_in_library(send_count, send_type, receive_count, receive_type)) {
    note_short(send_count, send_type, dest, comm);
    StatusOrOwn seen(status);
    const int code =
        exchange_now(send_buffer, send_count, send_type, dest, send_tag, receive_buffer,
                     receive_count, receive_type, source, receive_tag, comm, seen.get());
    return close_short(code, receive_buffer, receive_count, receive_type, source, comm, seen.get());
  }
  Arrival arrival;
  int code =
      expect(receive_buffer, receive_count, receive_type, source, receive_tag, comm, arrival);
  if (code != MPI_SUCCESS) return code;
  Departure departure;
  if (awaits_long(arrival.receipt.target)) departure.exchange = Exchange::yes;
  code =
      depart(Mode::standard, send_buffer, send_count, send_type, dest, send_tag, comm, departure);
  if (code != MPI_SUCCESS) return withdraw(arrival, code);
  const int received = await(arrival, status);
  const int sent = await(departure);
  return received != MPI_SUCCESS ? received : sent;
}

int packed_size(int count, MPI_Datatype type, MPI_Comm comm, MPI_Count* bytes) {
  int size = 0;
  const int code = real.Pack_size(count, type, comm, &size);
  *bytes = size;
  return code;
}
int packed_size(MPI_Count count, MPI_Datatype type, MPI_Comm comm, MPI_Count* bytes) {
  return real.Pack_size_c(count, type, comm, bytes);
}
int pack(const void* buffer, int count, MPI_Datatype type, void* packed, MPI_Count capacity,
         MPI_Count* used, MPI_Comm comm) {
  int position = 0;
  const int code =
      real.Pack(buffer, count, type, packed, static_cast<int>(capacity), &position, comm);
  *used = position;
  return code;
}
int pack(const void* buffer, MPI_Count count, MPI_Datatype type, void* packed, MPI_Count capacity,
         MPI_Count* used, MPI_Comm comm) {
  return real.Pack_c(buffer, count, type, packed, capacity, used, comm);
}

// What leaves a send-receive in place: a packed copy, so that the receive may overwrite the buffer.
template <class Count>
class Departing {
 public:
  // Contiguous data are copied as bytes and keep their type; others are packed by the library.
  int take(const void* buffer, Count count, MPI_Datatype type, MPI_Comm comm) {
    const datatypes::Info info = datatypes::info(type);
    if (info.contiguous) {
      bytes_.reset(new std::byte[message_bytes(count, info)]);
      std::memcpy(bytes_.get(), buffer, message_bytes(count, info));
      count_ = count;
      type_ = type;
      return MPI_SUCCESS;
    }
    MPI_Count capacity = 0;
    MPI_Count used = 0;
    int code = packed_size(count, type, comm, &capacity);
    if (code != MPI_SUCCESS) return code;
    bytes_.reset(new std::byte[static_cast<std::size_t>(capacity)]);
    code = pack(buffer, count, type, bytes_.get(), capacity, &used, comm);
    count_ = static_cast<Count>(used);
    type_ = MPI_PACKED;
    return code;
  }
  [[nodiscard]] const void* data() const { return bytes_.get(); }
  [[nodiscard]] Count count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  Count count_ = 0;
  MPI_Datatype type_{};
};

template <class Count>
int send_and_receive_in_place(void* buffer, Count count, MPI_Datatype type, int dest, int send_tag,
                              int source, int receive_tag, MPI_Comm comm, MPI_Status* status) {
  Departing<Count> departing;
  const int code = departing.take(buffer, count, type, comm);
  if (code != MPI_SUCCESS) return code;
  return send_and_receive(departing.data(), departing.count(), departing.type(), dest, send_tag,
                          buffer, count, type, source, receive_tag, comm, status);
}

}  // namespace

namespace wrap {

int Sendrecv(const void* sendbuf, int sendcount, MPI_Datatype sendtype, int dest, int sendtag,
             void* recvbuf, int recvcount, MPI_Datatype recvtype, int source, int recvtag,
             MPI_Comm comm, MPI_Status* status) {
  if (!switches.active) {
    return next.Sendrecv(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                         source, recvtag, comm, status);
  }
  return send_and_receive(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                          source, recvtag, comm, status);
}
int Sendrecv_c(const void* sendbuf, MPI_Count sendcount, MPI_Datatype sendtype, int dest,
               int sendtag, void* recvbuf, MPI_Count recvcount, MPI_Datatype recvtype, int source,
               int recvtag, MPI_Comm comm, MPI_Status* status) {
  if (!switches.active) {
    return next.Sendrecv_c(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount,
                           recvtype, source, recvtag, comm, status);
  }
  return send_and_receive(sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype,
                          source, recvtag, comm, status);
}
int Sendrecv_replace(void* buf, int count, MPI_Datatype datatype, int dest, int sendtag, int source,
                     int recvtag, MPI_Comm comm, MPI_Status* status) {
  if (!switches.active || count <= 0 || datatype == MPI_DATATYPE_NULL) {
    return next.Sendrecv_replace(buf, count, datatype, dest, sendtag, source, recvtag, comm,
                                 status);
  }
  return send_and_receive_in_place(buf, count, datatype, dest, sendtag, source, recvtag, comm,
                                   status);
}
int Sendrecv_replace_c(void* buf, MPI_Count count, MPI_Datatype datatype, int dest, int sendtag,
                       int source, int recvtag, MPI_Comm comm, MPI_Status* status) {
  if (!switches.active || count <= 0 || datatype == MPI_DATATYPE_NULL) {
    return next.Sendrecv_replace_c(buf, count, datatype, dest, sendtag, source, recvtag, comm,
                                   status);
  }
  return send_and_receive_in_place(buf, count, datatype, dest, sendtag, source, recvtag, comm,
                                   status);
}

}  // namespace wrap
}  // namespace mh::mpi
