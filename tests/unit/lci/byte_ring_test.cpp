// SPDX-License-Identifier: BSD-3-Clause
// Tests the byte ring, which carries messages from one process to another, within one thread and
// between two threads.
#include "lci/byte_ring.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "support/sanitizer.hpp"

namespace mh::lci::detail {
namespace {

constexpr std::uint64_t kWord = std::uint64_t{1} << 60U;  // bits of a word that the caller sets

class ByteRing : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1024;
  struct Memory {
    RingHead head;
    alignas(kCacheLine) std::byte bytes[kBytes];
  };
  static_assert(sizeof(Memory) == sizeof(RingHead) + kBytes);

  static std::vector<std::byte> message(std::size_t number, std::size_t size) {
    std::vector<std::byte> data(size);
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(number * 7 + i + 1);
    return data;
  }
  // The size of message number `number`. The sizes have every value from 0 to the longest payload.
  [[nodiscard]] std::size_t size_of_message(std::size_t number) const {
    return number * 37 % (sender.most_payload() + 1);
  }
  bool receive(std::size_t number) {
    const RingReceiver::RingRecord record = receiver.next();
    if (record.word == 0) return false;
    const auto expected = message(number, size_of_message(number));
    EXPECT_EQ(record.word, with_size(kWord | number, expected.size()));
    EXPECT_TRUE(
        std::equal(record.payload.begin(), record.payload.end(), expected.begin(), expected.end()));
    receiver.done(record);
    return true;
  }
  bool send(std::size_t number) {
    const auto data = message(number, size_of_message(number));
    const std::span all(data);
    const std::size_t cut = data.size() / 3;
    return sender.send(kWord | number, all.first(cut), all.subspan(cut));
  }

  Memory memory{};
  RingSender sender{&memory.head, kBytes};
  RingReceiver receiver{&memory.head, kBytes};
};

TEST_F(ByteRing, is_empty_at_the_start) { EXPECT_EQ(receiver.next().word, 0U); }

TEST_F(ByteRing, a_record_stays_until_it_is_done_with) {
  ASSERT_TRUE(send(5));
  const auto record = receiver.next();
  EXPECT_EQ(receiver.next().word, record.word);
  receiver.done(record);
  EXPECT_EQ(receiver.next().word, 0U);
}

TEST_F(ByteRing, gives_back_in_order_what_was_sent_one_by_one) {
  for (std::size_t number = 0; number < 5000; ++number) {
    ASSERT_TRUE(send(number));
    ASSERT_TRUE(receive(number)) << number;
    ASSERT_EQ(receiver.next().word, 0U);
  }
}

TEST_F(ByteRing, refuses_when_it_is_full_and_has_room_again_when_it_is_empty) {
  std::size_t sent = 0;
  std::size_t received = 0;
  for (int round = 0; round < 500; ++round) {
    const std::size_t before = sent;
    while (send(sent)) ++sent;
    ASSERT_GT(sent, before);  // an empty ring has room for any record
    ASSERT_LT(sent - before, kBytes / 8);
    for (; received < sent; ++received) ASSERT_TRUE(receive(received)) << received;
    ASSERT_EQ(receiver.next().word, 0U);
  }
}

TEST_F(ByteRing, between_two_threads_everything_arrives_in_order) {
  const std::size_t count = test::kSanitized ? 20'000 : 300'000;
  std::thread producer([&] {
    for (std::size_t number = 0; number < count; ++number) {
      while (!send(number)) std::this_thread::yield();
    }
  });
  for (std::size_t number = 0; number < count; ++number) {
    while (!receive(number)) std::this_thread::yield();
  }
  producer.join();
}

TEST_F(ByteRing, the_size_is_kept_beside_what_the_caller_says) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{kSizeMask - 1}}) {
    const std::uint64_t word = with_size(~std::uint64_t{0}, size);
    EXPECT_EQ(size_of(word), size);
    EXPECT_EQ(word | kSizeMask << kSizeShift, ~std::uint64_t{0});
  }
}

}  // namespace
}  // namespace mh::lci::detail
