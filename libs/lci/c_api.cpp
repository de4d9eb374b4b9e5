// SPDX-License-Identifier: BSD-3-Clause
// manyhands/lci.h: the interface for C. Its functions throw no exceptions.
#include <atomic>
#include <exception>
#include <new>
#include <span>
#include <utility>

#include "manyhands/lci.h"
#include "manyhands/lci.hpp"

namespace {

namespace lci = mh::lci;

int code_of(mh::Code code) {
  switch (code) {
    case mh::Code::ok:
      return MH_LCI_DONE;
    case mh::Code::misuse:
      return MH_LCI_MISUSE;
    case mh::Code::gone:
      return MH_LCI_GONE;
    case mh::Code::mismatch:
      return MH_LCI_MISMATCH;
    case mh::Code::unsupported:
      return MH_LCI_UNSUPPORTED;
    case mh::Code::full:
      return MH_LCI_FULL;
    default:
      return MH_LCI_SYSTEM;
  }
}

int code_of(const lci::Answer& answer) {
  if (answer.is_retry()) return MH_LCI_RETRY + static_cast<int>(answer.reason());
  if (answer.is_error()) return code_of(answer.code());
  return answer.is_done() ? MH_LCI_DONE : MH_LCI_POSTED;
}

// Wraps the result of `make` into the opaque type.
template <class Opaque, class Make>
int wrap(Opaque** out, Make make) {
  try {
    auto made = make();
    if (!made) return code_of(made.status().code);
    *out = new Opaque{std::move(*made)};
    return MH_LCI_DONE;
  } catch (const std::bad_alloc&) {
    return MH_LCI_FULL;
  } catch (const std::exception&) {  // the system has refused a thread
    return MH_LCI_SYSTEM;
  }
}

std::span<const std::byte> bytes(const void* data, size_t size) {
  return {static_cast<const std::byte*>(data), size};
}
std::span<std::byte> bytes(void* data, size_t size) {
  return {static_cast<std::byte*>(data), size};
}

}  // namespace

struct mh_lci_job {
  lci::Job job;
};
struct mh_lci_device {
  lci::Device device;
};
struct mh_lci_communicator {
  lci::Communicator communicator;
};
struct mh_lci_queue {
  explicit mh_lci_queue(lci::Queue made) : queue(std::move(made)) {}

  lci::Queue queue;
  std::atomic<uint32_t> posted{0};  // relaxed: the count of `sent` orders the buffers
  std::atomic<uint32_t> sent{0};
};
struct mh_lci_message {
  lci::Message message;
};

int mh_lci_join(int rank, int size, const char* root, mh_lci_job** job) {
  return wrap(job, [&] {
    lci::JobConfig config{.rank = rank, .size = size};
    if (root != nullptr) config.root = root;
    return lci::Job::join(config);
  });
}
void mh_lci_leave(mh_lci_job* job) { delete job; }
int mh_lci_rank(const mh_lci_job* job) { return job->job.rank(); }
int mh_lci_size(const mh_lci_job* job) { return job->job.size(); }

int mh_lci_device_open(mh_lci_job* job, const char* provider, mh_lci_device** device) {
  return wrap(device, [&] {
    lci::DeviceConfig config;
    if (provider != nullptr) config.provider = provider;
    return lci::Device::open(job->job, config);
  });
}
void mh_lci_device_close(mh_lci_device* device) { delete device; }
size_t mh_lci_progress(mh_lci_device* device) { return device->device.progress(); }
int mh_lci_alive(const mh_lci_device* device, int rank) {
  return device->device.alive(rank) ? 1 : 0;
}

int mh_lci_communicator_open(mh_lci_device* device, mh_lci_communicator** communicator) {
  return wrap(communicator, [&] { return lci::Communicator::open(device->device); });
}
void mh_lci_communicator_close(mh_lci_communicator* communicator) { delete communicator; }
int mh_lci_send(mh_lci_communicator* communicator, int rank, uint32_t tag, const void* data,
                size_t size) {
  return code_of(communicator->communicator.send(rank, tag, bytes(data, size)).code);
}
int mh_lci_receive(mh_lci_communicator* communicator, int rank, uint32_t tag, void* buffer,
                   size_t size, size_t* received) {
  const auto got = communicator->communicator.receive(rank, tag, bytes(buffer, size));
  if (got.ok() && received != nullptr) *received = *got;
  return code_of(got.status().code);
}
int mh_lci_barrier(mh_lci_communicator* communicator) {
  return code_of(communicator->communicator.barrier().code);
}
int mh_lci_broadcast(mh_lci_communicator* communicator, int root, void* data, size_t size) {
  return code_of(communicator->communicator.broadcast(root, bytes(data, size)).code);
}
int mh_lci_all_to_all(mh_lci_communicator* communicator, const void* send, void* receive,
                      size_t block) {
  lci::Communicator& all = communicator->communicator;
  const size_t size = static_cast<size_t>(all.size()) * block;
  return code_of(all.all_to_all(bytes(send, size), bytes(receive, size), block).code);
}

int mh_lci_queue_open(mh_lci_device* device, size_t memory_limit, mh_lci_queue** queue) {
  return wrap(queue, [&] { return lci::Queue::open(device->device, memory_limit); });
}
void mh_lci_queue_close(mh_lci_queue* queue) { delete queue; }
int mh_lci_send_enqueue(mh_lci_queue* queue, int rank, uint32_t tag, const void* data,
                        size_t size) {
  const lci::Answer answer = queue->queue.send_enqueue(rank, tag, bytes(data, size), &queue->sent);
  if (answer.is_posted()) queue->posted.fetch_add(1, std::memory_order_relaxed);
  return code_of(answer);
}
uint32_t mh_lci_queue_sending(const mh_lci_queue* queue) {
  // acquire: partner is the release in Queue::receive_dequeue().
  return queue->posted.load(std::memory_order_relaxed) -
         queue->sent.load(std::memory_order_acquire);
}
mh_lci_message* mh_lci_receive_dequeue(mh_lci_queue* queue) {
  auto message = queue->queue.receive_dequeue();
  if (!message) return nullptr;
  return new (std::nothrow) mh_lci_message{std::move(*message)};
}
int mh_lci_message_status(const mh_lci_message* message) {
  return code_of(message->message.status().code);
}
int mh_lci_message_rank(const mh_lci_message* message) { return message->message.rank(); }
uint32_t mh_lci_message_tag(const mh_lci_message* message) { return message->message.tag(); }
const void* mh_lci_message_data(const mh_lci_message* message) { return message->message.data(); }
size_t mh_lci_message_size(const mh_lci_message* message) { return message->message.size(); }
void mh_lci_message_free(mh_lci_message* message) { delete message; }
