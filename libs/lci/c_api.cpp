// SPDX-License-Identifier: BSD-3-Clause
// manyhands/lci.h: the interface for C. Its functions throw no exceptions.
#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
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

// Calls `make`, moves its result into an object of the C interface's opaque type, and stores the
// object in `out`. Returns a code of lci.h.
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
  // Set once, by mh_lci_stop_serving(), and read by serve(). relaxed: the flag publishes no other
  // data.
  std::atomic<bool> stops_serving{false};
};
struct mh_lci_server {
  explicit mh_lci_server(lci::Device& device) : server(device) {}
  lci::Server server;
};
struct mh_lci_synchronizer {
  lci::Synchronizer done;
};
struct mh_lci_completion_queue {
  explicit mh_lci_completion_queue(size_t capacity) : queue(capacity) {}
  lci::CompletionQueue queue;
};
struct mh_lci_endpoint {
  lci::Endpoint endpoint;
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

namespace {

template <class Opaque, class... Arguments>
int create(Opaque** out, Arguments&&... arguments) {
  try {
    *out = new Opaque(std::forward<Arguments>(arguments)...);
    return MH_LCI_DONE;
  } catch (const std::bad_alloc&) {
    return MH_LCI_FULL;
  } catch (const std::exception&) {  // the system has refused a thread
    return MH_LCI_SYSTEM;
  }
}

// The handler of a C program, with its argument. The endpoint that calls the handler owns this
// object.
struct UsersHandler {
  mh_lci_handler* handler;
  void* argument;
  static void call(lci::Message& message, void* self) {
    const auto& users = *static_cast<const UsersHandler*>(self);
    mh_lci_message passed{std::move(message)};
    users.handler(&passed, users.argument);
  }
};

lci::EndpointConfig config_of(const mh_lci_endpoint_config& c) {
  lci::EndpointConfig config{.buffers = static_cast<lci::Buffers>(c.buffers),
                             .completion = static_cast<lci::Completion>(c.completion),
                             .queue = c.queue == nullptr ? nullptr : &c.queue->queue,
                             .allocator = {c.allocate, c.release, c.allocator_argument},
                             .grant_bytes = c.grant_bytes};
  if (c.handler != nullptr) {
    auto users = std::make_shared<UsersHandler>(UsersHandler{c.handler, c.handler_argument});
    config.handler = UsersHandler::call;
    config.argument = users.get();
    config.keep = std::move(users);
  }
  return config;
}

struct UsersCombine {
  mh_lci_combine* combine;
  void* argument;
  static void call(std::byte* into, const std::byte* from, size_t size, void* self) {
    const auto& users = *static_cast<const UsersCombine*>(self);
    users.combine(into, from, size, users.argument);
  }
};

template <class T>
struct Least {
  T operator()(T a, T b) const { return std::min(a, b); }
};
template <class T>
struct Greatest {
  T operator()(T a, T b) const { return std::max(a, b); }
};

template <class T>
int reduce(lci::Communicator& all, void* data, size_t count, mh_lci_operation operation) {
  const std::span numbers(static_cast<T*>(data), count);
  switch (operation) {
    case MH_LCI_SUM:
      return code_of(all.all_reduce(numbers, std::plus<T>{}).code);
    case MH_LCI_MIN:
      return code_of(all.all_reduce(numbers, Least<T>{}).code);
    case MH_LCI_MAX:
      return code_of(all.all_reduce(numbers, Greatest<T>{}).code);
  }
  return MH_LCI_MISUSE;
}

}  // namespace

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
size_t mh_lci_eager_limit(const mh_lci_device* device) { return device->device.eager_limit(); }
size_t mh_lci_credits(const mh_lci_device* device) { return device->device.credits(); }

int mh_lci_server_start(mh_lci_device* device, mh_lci_server** server) {
  return create(server, device->device);
}
void mh_lci_server_stop(mh_lci_server* server) { delete server; }
void mh_lci_serve(mh_lci_device* device) { lci::serve(device->device, device->stops_serving); }
void mh_lci_stop_serving(mh_lci_device* device) {
  device->stops_serving.store(true, std::memory_order_relaxed);
}

int mh_lci_synchronizer_create(mh_lci_synchronizer** done) { return create(done); }
void mh_lci_synchronizer_destroy(mh_lci_synchronizer* done) { delete done; }
int mh_lci_synchronizer_test(const mh_lci_synchronizer* done) { return done->done.test() ? 1 : 0; }
void mh_lci_synchronizer_wait(mh_lci_synchronizer* done) { done->done.wait(); }
mh_lci_message* mh_lci_synchronizer_result(mh_lci_synchronizer* done) {
  return new (std::nothrow) mh_lci_message{done->done.result()};
}

int mh_lci_completion_queue_create(size_t capacity, mh_lci_completion_queue** queue) {
  constexpr size_t kDefault = 4096;
  return create(queue, capacity == 0 ? kDefault : capacity);
}
void mh_lci_completion_queue_destroy(mh_lci_completion_queue* queue) { delete queue; }
mh_lci_message* mh_lci_completion_queue_pop(mh_lci_completion_queue* queue) {
  auto message = queue->queue.pop();
  if (!message) return nullptr;
  return new (std::nothrow) mh_lci_message{std::move(*message)};
}

int mh_lci_endpoint_open(mh_lci_device* device, const mh_lci_endpoint_config* config,
                         mh_lci_endpoint** endpoint) {
  return wrap(endpoint, [&] {
    return device->device.open_endpoint(config == nullptr ? lci::EndpointConfig{}
                                                          : config_of(*config));
  });
}
void mh_lci_endpoint_close(mh_lci_endpoint* endpoint) { delete endpoint; }
int mh_lci_post_send(mh_lci_endpoint* endpoint, int rank, uint32_t tag, const void* data,
                     size_t size, void* context, mh_lci_synchronizer* done) {
  lci::Endpoint& to = endpoint->endpoint;
  return code_of(done != nullptr ? to.send(rank, tag, bytes(data, size), done->done)
                                 : to.send(rank, tag, bytes(data, size), context));
}
int mh_lci_post_receive(mh_lci_endpoint* endpoint, int rank, uint32_t tag, void* buffer,
                        size_t size, void* context, mh_lci_synchronizer* done) {
  lci::Endpoint& from = endpoint->endpoint;
  return code_of(done != nullptr ? from.receive(rank, tag, bytes(buffer, size), done->done)
                                 : from.receive(rank, tag, bytes(buffer, size), context));
}
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

int mh_lci_start_send(mh_lci_communicator* communicator, int rank, uint32_t tag, const void* data,
                      size_t size, mh_lci_synchronizer* done) {
  lci::Communicator& all = communicator->communicator;
  return code_of(all.start_send(rank, tag, bytes(data, size), done->done).code);
}
int mh_lci_start_receive(mh_lci_communicator* communicator, int rank, uint32_t tag, void* buffer,
                         size_t size, mh_lci_synchronizer* done) {
  lci::Communicator& all = communicator->communicator;
  return code_of(all.start_receive(rank, tag, bytes(buffer, size), done->done).code);
}
int mh_lci_wait(mh_lci_communicator* communicator, mh_lci_synchronizer* done, size_t* received) {
  const auto got = communicator->communicator.wait(done->done);
  if (got.ok() && received != nullptr) *received = *got;
  return code_of(got.status().code);
}

int mh_lci_all_reduce(mh_lci_communicator* communicator, void* data, size_t size,
                      mh_lci_combine* combine, void* argument) {
  const UsersCombine users{combine, argument};
  return code_of(communicator->communicator
                     .all_reduce_bytes(bytes(data, size), UsersCombine::call,
                                       const_cast<UsersCombine*>(&users))
                     .code);
}
int mh_lci_all_reduce_numbers(mh_lci_communicator* communicator, void* data, size_t count,
                              enum mh_lci_type type, enum mh_lci_operation operation) {
  lci::Communicator& all = communicator->communicator;
  switch (type) {
    case MH_LCI_INT32:
      return reduce<int32_t>(all, data, count, operation);
    case MH_LCI_INT64:
      return reduce<int64_t>(all, data, count, operation);
    case MH_LCI_UINT32:
      return reduce<uint32_t>(all, data, count, operation);
    case MH_LCI_UINT64:
      return reduce<uint64_t>(all, data, count, operation);
    case MH_LCI_FLOAT:
      return reduce<float>(all, data, count, operation);
    case MH_LCI_DOUBLE:
      return reduce<double>(all, data, count, operation);
  }
  return MH_LCI_MISUSE;
}

int mh_lci_queue_open_with(mh_lci_device* device, const mh_lci_queue_config* config,
                           mh_lci_queue** queue) {
  return wrap(queue, [&] {
    lci::QueueConfig with{
        .grant_bytes = config->grant_bytes,
        .allocator = {config->allocate, config->release, config->allocator_argument}};
    if (config->memory_limit != 0) with.memory_limit = config->memory_limit;
    return lci::Queue::open(device->device, with);
  });
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
  // acquire: pairs with the release in which a device counts a completed send
  // (EndpointConfig::counts_sends), so the caller may change that send's data.
  return queue->posted.load(std::memory_order_relaxed) -
         queue->sent.load(std::memory_order_acquire);
}
mh_lci_message* mh_lci_receive_dequeue(mh_lci_queue* queue) {
  auto message = queue->queue.receive_dequeue();
  if (!message) return nullptr;
  return new (std::nothrow) mh_lci_message{std::move(*message)};
}
enum mh_lci_kind mh_lci_message_kind(const mh_lci_message* message) {
  return static_cast<enum mh_lci_kind>(message->message.kind());
}
void* mh_lci_message_context(const mh_lci_message* message) { return message->message.context(); }
void* mh_lci_message_take(mh_lci_message* message) { return message->message.take(); }
int mh_lci_message_status(const mh_lci_message* message) {
  return code_of(message->message.status().code);
}
int mh_lci_message_rank(const mh_lci_message* message) { return message->message.rank(); }
uint32_t mh_lci_message_tag(const mh_lci_message* message) { return message->message.tag(); }
const void* mh_lci_message_data(const mh_lci_message* message) { return message->message.data(); }
size_t mh_lci_message_size(const mh_lci_message* message) { return message->message.size(); }
void mh_lci_message_free(mh_lci_message* message) { delete message; }
