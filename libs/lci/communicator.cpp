// SPDX-License-Identifier: BSD-3-Clause
// The MPI-like layer of LCI. A Communicator has one endpoint for messages and one for collectives.
// The tag of a collective is its number in the sequence of collectives, equal on all ranks.
// Receives on both endpoints have explicit buffers and synchronizers.
#include "manyhands/lci/communicator.hpp"

#include <sched.h>

#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "lci/state.hpp"

namespace mh::lci {
namespace {

constexpr unsigned kFruitlessPolls = 64;  // before sched_yield(); some microseconds

Status status_of(const Answer& answer) { return {answer.is_error() ? answer.code() : Code::ok}; }

}  // namespace

void serve(Device& device, const std::atomic<bool>& stop) noexcept {
  const bool is_task = static_cast<bool>(ult::self());
  std::atomic<std::uint32_t>& servers = device.state().servers;
  servers.fetch_add(1, std::memory_order_relaxed);
  for (unsigned fruitless = 0; !stop.load(std::memory_order_relaxed);) {
    fruitless = device.progress() == 0 ? fruitless + 1 : 0;
    if (is_task) ult::yield();  // to the tasks that progress() has woken
    // After many steps without an event this thread yields its core: the process that sends the
    // next message may need the core.
    if (fruitless > kFruitlessPolls) ::sched_yield();
  }
  servers.fetch_sub(1, std::memory_order_relaxed);
}

Result<Communicator> Communicator::open(Device& device) {
  const Result<Endpoint> messages = device.open_endpoint();
  if (!messages) return messages.status();
  const Result<Endpoint> collectives = device.open_endpoint();
  if (!collectives) return collectives.status();
  return Communicator(device, *messages, *collectives);
}

// --- messages between two ranks -------------------------------------------------------------

// Waits for the operation of `done`. A light task parks while another thread or task is in serve().
// Otherwise the task makes progress itself, as a thread does, and yields after a step without
// events.
Result<std::size_t> Communicator::wait(Synchronizer& done) noexcept {
  detail::DeviceState& device = device_->state();
  const bool is_task = static_cast<bool>(ult::self());
  while (!done.test()) {
    if (is_task && device.is_served()) {
      done.wait();
    } else if (device.progress() == 0) {
      ult::yield();
    }
  }
  const Message message = done.result();
  if (!message.status()) return message.status();
  return message.size();
}

// Sends, and tries again until the answer is not *retry*. A task without a credit (the right to
// send one message to that peer) parks until the peer returns credits: retries by thousands of
// tasks would take the time of the tasks that can continue.
Answer Communicator::send_patiently(Endpoint endpoint, int rank, std::uint32_t tag,
                                    std::span<const std::byte> data, Synchronizer& done) noexcept {
  const bool is_task = static_cast<bool>(ult::self());
  return insist(*device_, [&] {
    Answer answer = endpoint.send(rank, tag, data, done);
    while (is_task && answer.reason() == Retry::credit && device_->state().is_served()) {
      device_->state().await_credit(rank);
      answer = endpoint.send(rank, tag, data, done);
    }
    return answer;
  });
}

Status Communicator::send_on(Endpoint endpoint, int rank, std::uint32_t tag,
                             std::span<const std::byte> data) noexcept {
  Synchronizer done;
  const Answer answer = send_patiently(endpoint, rank, tag, data, done);
  return answer.is_posted() ? wait(done).status() : status_of(answer);
}

Result<std::size_t> Communicator::receive_on(Endpoint endpoint, int rank, std::uint32_t tag,
                                             std::span<std::byte> buffer) noexcept {
  Synchronizer done;
  const Answer answer = insist(*device_, [&] { return endpoint.receive(rank, tag, buffer, done); });
  if (answer.is_error()) return status_of(answer);
  return wait(done);
}

Status Communicator::send(int rank, std::uint32_t tag, std::span<const std::byte> data) noexcept {
  return send_on(messages_, rank, tag, data);
}

Result<std::size_t> Communicator::receive(int rank, std::uint32_t tag,
                                          std::span<std::byte> buffer) noexcept {
  return receive_on(messages_, rank, tag, buffer);
}

Status Communicator::start_send(int rank, std::uint32_t tag, std::span<const std::byte> data,
                                Synchronizer& done) noexcept {
  const Answer answer = send_patiently(messages_, rank, tag, data, done);
  if (answer.is_done()) done.finish();
  return status_of(answer);
}

Status Communicator::start_receive(int rank, std::uint32_t tag, std::span<std::byte> buffer,
                                   Synchronizer& done) noexcept {
  return status_of(insist(*device_, [&] { return messages_.receive(rank, tag, buffer, done); }));
}

// --- collectives over all ranks -------------------------------------------------------------

// A dissemination barrier: after round i, counted from 0, each rank knows that 2^(i+1) ranks have
// arrived.
Status Communicator::barrier() noexcept {
  const std::uint32_t tag = turn_++;
  for (int distance = 1; distance < size(); distance *= 2) {
    const int to = (rank() + distance) % size();
    const int from = (rank() + size() - distance) % size();
    if (const Status sent = send_on(collectives_, to, tag, {}); !sent) return sent;
    if (const auto got = receive_on(collectives_, from, tag, {}); !got) return got.status();
  }
  return {};
}

// Broadcasts on a binomial tree, in which a rank's number is its distance from the root, modulo the
// number of ranks.
Status Communicator::broadcast(int root, std::span<std::byte> data) noexcept {
  if (root < 0 || root >= size()) return {Code::misuse};
  const std::uint32_t tag = turn_++;
  const int relative = (rank() + size() - root) % size();
  int bit = 1;
  while (bit < size() && (relative & bit) == 0) bit *= 2;
  if (relative != 0) {
    const auto got = receive_on(collectives_, (relative - bit + root) % size(), tag, data);
    if (!got) return got.status();
  }
  for (bit /= 2; bit > 0; bit /= 2) {
    if (relative + bit >= size()) continue;
    const Status sent = send_on(collectives_, (relative + bit + root) % size(), tag, data);
    if (!sent) return sent;
  }
  return {};
}

// Reduces on a binomial tree to rank 0, then broadcasts the result. Ranks with neighbouring numbers
// combine first, so `combine` gets the data in the order of ranks.
Status Communicator::all_reduce_bytes(std::span<std::byte> data, Combine combine,
                                      void* argument) noexcept {
  const std::uint32_t tag = turn_++;
  const std::unique_ptr<std::byte[]> received(new (std::nothrow) std::byte[data.size()]);
  if (received == nullptr) return {Code::full};
  for (int bit = 1; bit < size(); bit *= 2) {
    if ((rank() & bit) != 0) {
      if (const Status sent = send_on(collectives_, rank() - bit, tag, data); !sent) return sent;
      break;
    }
    if (rank() + bit >= size()) continue;
    const auto got = receive_on(collectives_, rank() + bit, tag, {received.get(), data.size()});
    if (!got) return got.status();
    combine(data.data(), received.get(), data.size(), argument);
  }
  return broadcast(0, data);
}

// Posts all of this rank's receives before its first send, so that few messages arrive before their
// receive and have to keep their packet.
Status Communicator::all_to_all(std::span<const std::byte> send, std::span<std::byte> receive,
                                std::size_t block) noexcept {
  const auto ranks = static_cast<std::size_t>(size());
  if (send.size() != ranks * block || receive.size() != ranks * block) return {Code::misuse};
  const std::uint32_t tag = turn_++;
  const std::unique_ptr<Synchronizer[]> done(new (std::nothrow) Synchronizer[ranks]);
  if (done == nullptr) return {Code::full};
  Status first_failure{};
  const auto note = [&](Status status) {
    if (first_failure.ok()) first_failure = status;
  };
  std::vector<bool> posted(ranks, false);
  for (std::size_t i = 0; i < ranks; ++i) {
    const Answer answer = insist(*device_, [&] {
      return collectives_.receive(static_cast<int>(i), tag, receive.subspan(i * block, block),
                                  done[i]);
    });
    posted[i] = !answer.is_error();
    note(status_of(answer));
  }
  for (std::size_t step = 0; step < ranks; ++step) {
    const std::size_t to = (static_cast<std::size_t>(rank()) + step) % ranks;
    note(send_on(collectives_, static_cast<int>(to), tag, send.subspan(to * block, block)));
  }
  for (std::size_t i = 0; i < ranks; ++i) {
    if (posted[i]) note(wait(done[i]).status());
  }
  return first_failure;
}

}  // namespace mh::lci
