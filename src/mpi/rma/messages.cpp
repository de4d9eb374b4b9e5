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

struct SentRmaMessage {
  MPI_Request request;
  MessageBuffer buffer;
};

struct SentRmaMessages {
  std::mutex mutex;  // guards `under_way`
  std::vector<SentRmaMessage> under_way;
  std::atomic<std::uint32_t> long_count{0};  // long messages under way; relaxed: a hint
};
// The messages that this rank is sending. The object is never destroyed: a program may call exit()
// at any time.
SentRmaMessages& g_sent = *new SentRmaMessages;

}  // namespace

MessageBuffer::MessageBuffer(std::size_t bytes)
    : data_(nullptr, BufferDeleter{bytes > kShort}), bytes_(bytes) {
  if (is_long()) {
    data_.reset(internode::piece_buffers.acquire());
  } else {
    const std::size_t lines = (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLine, lines)));
  }
}

void MessageBuffer::BufferDeleter::operator()(std::byte* data) const {
  is_long ? internode::piece_buffers.release(data) : std::free(data);
}

bool send_message(int world_rank, const tags::TagRange& tag, MessageBuffer buffer) {
  const std::lock_guard<std::mutex> hold(g_sent.mutex);  // keeps the messages to a rank in order
  MPI_Request request = MPI_REQUEST_NULL;
  const int code = real.Isend(buffer.data(), static_cast<int>(buffer.bytes()), MPI_BYTE, world_rank,
                              tag.first, config.windows_comm, &request);
  if (code != MPI_SUCCESS) return false;
  if (buffer.is_long()) g_sent.long_count.fetch_add(1, std::memory_order_relaxed);
  g_sent.under_way.push_back({request, std::move(buffer)});
  return true;
}

bool free_sent_buffers() {
  const std::unique_lock<std::mutex> hold(g_sent.mutex, std::try_to_lock);
  if (!hold) return false;
  std::erase_if(g_sent.under_way, [](SentRmaMessage& sent) {
    int flag = 0;
    real.Test(&sent.request, &flag, MPI_STATUS_IGNORE);
    if (flag != 0 && sent.buffer.is_long())
      g_sent.long_count.fetch_sub(1, std::memory_order_relaxed);
    return flag != 0;
  });
  return g_sent.under_way.empty();
}

std::uint32_t long_messages_under_way() {
  return g_sent.long_count.load(std::memory_order_relaxed);
}

bool MessageInbox::start_receives() {
  bool found = false;
  while (incoming_.size() < kMostAtATime) {
    int flag = 0;
    MPI_Status status{};
    real.Iprobe(MPI_ANY_SOURCE, tag_, config.windows_comm, &flag, &status);
    if (flag == 0) break;
    int bytes = 0;
    real.Get_count(&status, MPI_BYTE, &bytes);
    MessageBuffer buffer(static_cast<std::size_t>(bytes));
    if (buffer.empty()) break;  // no memory: the library keeps the message
    MPI_Request request = MPI_REQUEST_NULL;
    // This receive gets the message that the probe has found, because no other thread receives with
    // this tag.
    real.Irecv(buffer.data(), bytes, MPI_BYTE, status.MPI_SOURCE, tag_, config.windows_comm,
               &request);
    incoming_.push_back({status.MPI_SOURCE, std::move(buffer), request, false});
    found = true;
  }
  return found;
}

void MessageInbox::for_each(const Handler& handler) {
  std::vector<int> blocked;  // senders whose later messages wait
  for (auto at = incoming_.begin(); at != incoming_.end();) {
    Acceptance acceptance = Acceptance::not_now;
    const bool held = std::ranges::find(blocked, at->from) != blocked.end();
    if (!held && !at->is_complete) {
      int flag = 0;
      real.Test(&at->request, &flag, MPI_STATUS_IGNORE);
      at->is_complete = flag != 0;
    }
    if (!held && at->is_complete) acceptance = handler(at->buffer);
    if (acceptance == Acceptance::stop) return;
    if (acceptance == Acceptance::accepted) {
      at = incoming_.erase(at);
    } else {
      if (!held) blocked.push_back(at->from);
      ++at;
    }
  }
}

}  // namespace mh::mpi::rma::messages
