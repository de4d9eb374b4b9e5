// SPDX-License-Identifier: BSD-3-Clause
// The program of test_hosts.py, whose ranks run on several hosts.
//
//   streams wait
//       receives from the last rank, which never sends, until the last rank is dead
//   streams produce SECONDS
//       rank 0 sends at full speed, rank 1 is a slow receiver
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <manyhands/lci.hpp>
#include <manyhands/ult.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace lci = mh::lci;
using Clock = std::chrono::steady_clock;

namespace {

int fail(const char* what) {
  std::fprintf(stderr, "failed: %s\n", what);
  return 1;
}

int wait_for_death(lci::Device& device) {
  auto all = lci::Communicator::open(device);
  if (!all || !all->barrier()) return fail("barrier");
  std::puts("waiting");
  std::fflush(stdout);
  std::byte byte{};
  const auto got = all->receive(device.size() - 1, 0, {&byte, 1});
  if (device.rank() == device.size() - 1 || got.status().code != mh::Code::gone) {
    return fail("a receive that nobody answers");
  }
  std::puts("gone");
  return 0;
}

std::size_t resident_kib() {
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    std::size_t number = 0;
    if (word == "VmRSS:" && file >> number) return number;
  }
  return 0;
}

constexpr std::uint32_t kLast = ~0U;
constexpr std::size_t kLimit = 1'000'000;       // bytes of the queue's memory
constexpr std::size_t kMostGrowth = 64 * 1024;  // of a process, KiB, with the allocator's slack
constexpr std::size_t kSizes[] = {64, 3000, 50'000};  // two eager, one by rendezvous

struct Stream {
  std::uint64_t messages = 0;
  std::uint64_t sum = 0;
  void add(std::uint32_t tag, std::span<const std::byte> data) {
    ++messages;
    sum += tag + data.size() + static_cast<unsigned>(data[data.size() / 2]);
  }
};

constexpr std::size_t kBuffers = 64;  // buffers of messages under way; more than the credits

// Sends a message to the consumer, and repeats the call while the device answers that it has no
// room (retry). Returns the number of repetitions, or -1 on an error.
long send(lci::Device& device, lci::Queue& queue, std::uint32_t tag,
          std::span<const std::byte> data, std::atomic<std::uint32_t>* sent,
          std::uint32_t& posted) {
  for (long refused = 0;; ++refused) {
    const auto answer = queue.send_enqueue(1, tag, data, sent);
    if (answer.is_error() || queue.receive_dequeue()) return -1;
    if (answer.is_posted()) ++posted;
    if (!answer.is_retry()) return refused;
    device.progress();
    mh::ult::yield();
  }
}

// Waits until `sent` says that all posted messages have left. Returns false if a message arrives at
// the producer, to which no rank sends.
bool wait_for(lci::Device& device, lci::Queue& queue, const std::atomic<std::uint32_t>& sent,
              std::uint32_t posted) {
  while (sent.load() != posted) {
    device.progress();
    if (queue.receive_dequeue()) return false;
  }
  return true;
}

// The work of rank 0, which sends. It changes the buffers of messages only after all messages have
// left them.
int produce(lci::Device& device, lci::Queue& queue, int seconds) {
  Stream stream;
  long held_up = 0;
  std::atomic<std::uint32_t> sent{0};
  std::uint32_t posted = 0;
  std::vector<std::vector<std::byte>> buffers(kBuffers);
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  for (std::uint32_t tag = 0; Clock::now() < end; ++tag) {
    if (tag % kBuffers == 0 && !wait_for(device, queue, sent, posted)) return fail("a wait");
    std::vector<std::byte>& data = buffers[tag % kBuffers];
    data.assign(kSizes[tag % 3], static_cast<std::byte>(tag));
    const long refused = send(device, queue, tag, data, &sent, posted);
    if (refused < 0) return fail("send");
    held_up += refused;
    stream.add(tag, data);
  }
  const auto count = std::as_bytes(std::span(&stream.messages, 1));
  if (send(device, queue, kLast, count, &sent, posted) < 0) return fail("the last message");
  if (!wait_for(device, queue, sent, posted)) return fail("the last wait");
  if (held_up == 0) return fail("never held up");
  std::printf("produced %llu %llu\n", static_cast<unsigned long long>(stream.messages),
              static_cast<unsigned long long>(stream.sum));
  return 0;
}

// The work of rank 1, which receives until it has all messages. The message with the tag kLast says
// how many there are, and may overtake others.
int consume(lci::Device& device, lci::Queue& queue) {
  Stream stream;
  std::uint64_t expected = UINT64_MAX;
  std::size_t at_start = 0;
  while (stream.messages != expected) {
    device.progress();
    const auto message = queue.receive_dequeue();
    if (!message) continue;
    if (!message->status()) return fail("a message");
    if (message->tag() == kLast) {
      std::memcpy(&expected, message->data(), sizeof expected);
      continue;
    }
    for (const std::byte byte : message->bytes()) {
      if (byte != static_cast<std::byte>(message->tag())) return fail("what a message says");
    }
    stream.add(message->tag(), message->bytes());
    if (stream.messages % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (stream.messages == 100) at_start = resident_kib();
    if (at_start != 0 && resident_kib() > at_start + kMostGrowth) return fail("memory has grown");
    if (queue.most_memory() > kLimit) return fail("the limit of the queue");
  }
  std::printf("consumed %llu %llu\n", static_cast<unsigned long long>(stream.messages),
              static_cast<unsigned long long>(stream.sum));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto job = lci::Job::join();
  if (!job) return fail("job");
  lci::DeviceConfig config;
  config.receive_packets = 32;  // the producer runs out of credits before the queue is full
  auto device = lci::Device::open(*job, config);
  if (!device) return fail("device");
  if (argc == 2 && std::strcmp(argv[1], "wait") == 0) return wait_for_death(*device);
  if (argc != 3 || std::strcmp(argv[1], "produce") != 0) return fail("arguments");
  auto queue = lci::Queue::open(*device, kLimit);
  if (!queue) return fail("queue");
  return device->rank() == 0 ? produce(*device, *queue, std::atoi(argv[2]))
                             : consume(*device, *queue);
}
