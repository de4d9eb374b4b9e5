// SPDX-License-Identifier: BSD-3-Clause
#include "mpi/rma/messages.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/cacheline.hpp"
#include "mpi/job/config.hpp"
#include "mpi/next.hpp"

namespace mh::mpi::rma::messages {
namespace {

struct Sent {
  MPI_Request request;
  Buffer buffer;
};

std::mutex g_mutex;  // guards what is on its way
// Never destroyed: a program may call exit() in the middle.
std::vector<Sent>& g_sent = *new std::vector<Sent>;
std::atomic<std::uint32_t> g_long{0};  // of them; relaxed, a hint

}  // namespace

Buffer::Buffer(std::size_t bytes) : data_(nullptr, GiveBack{bytes > kShort}), bytes_(bytes) {
  if (is_long()) {
    data_.reset(internode::piece_buffers.take());
  } else {
    const std::size_t lines = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, lines)));
  }
}

void Buffer::GiveBack::operator()(std::byte* data) const {
  is_long ? internode::piece_buffers.give(data) : std::free(data);
}

bool send(int world_rank, const tags::Range& tag, Buffer buffer) {
  const std::lock_guard<std::mutex> hold(g_mutex);  // keeps the messages of a rank in order
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = real.Isend(buffer.data(), static_cast<int>(buffer.bytes()), MPI_BYTE, world_rank,
                              tag.first, config.windows_comm, &request);
  if (code != MPI_SUCCESS) return false;
  if (buffer.is_long()) g_long.fetch_add(1, std::memory_order_relaxed);
  g_sent.push_back({request, std::move(buffer)});
  return true;
}

bool reap() {
  const std::unique_lock<std::mutex> hold(g_mutex, std::try_to_lock);
  if (!hold) return false;
  std::erase_if(g_sent, [](Sent& sent) {
    int flag = 0;
    real.Test(&sent.request, &flag, MPI_STATUS_IGNORE);
    if (flag != 0 && sent.buffer.is_long()) g_long.fetch_sub(1, std::memory_order_relaxed);
    return flag != 0;
  });
  return g_sent.empty();
}

std::uint32_t long_ones() { return g_long.load(std::memory_order_relaxed); }

bool Inbox::look() {
  bool found = false;
  while (letters_.size() < kMostAtATime) {
    int flag = 0;
    MPI_Status status{};
    real.Iprobe(MPI_ANY_SOURCE, tag_, config.windows_comm, &flag, &status);
    if (flag == 0) break;
    int bytes = 0;
    real.Get_count(&status, MPI_BYTE, &bytes);
    Buffer buffer(static_cast<std::size_t>(bytes));
    if (buffer.empty()) break;  // it stays with the library
    MPI_Request request = MPI_REQUEST_NULL;
    // Nobody else receives with this tag, so it is the message that was found.
    real.Irecv(buffer.data(), bytes, MPI_BYTE, status.MPI_SOURCE, tag_, config.windows_comm,
               &request);
    letters_.push_back({status.MPI_SOURCE, std::move(buffer), request, false});
    found = true;
  }
  return found;
}

void Inbox::for_each(const Handle& handle) {
  std::vector<int> blocked;  // senders
  for (auto at = letters_.begin(); at != letters_.end();) {
    Taken taken = Taken::not_now;
    const bool held = std::ranges::find(blocked, at->from) != blocked.end();
    if (!held && !at->here) {
      int flag = 0;
      real.Test(&at->request, &flag, MPI_STATUS_IGNORE);
      at->here = flag != 0;
    }
    if (!held && at->here) taken = handle(at->buffer);
    if (taken == Taken::stop) return;
    if (taken == Taken::yes) {
      at = letters_.erase(at);
    } else {
      if (!held) blocked.push_back(at->from);
      ++at;
    }
  }
}

}  // namespace mh::mpi::rma::messages
