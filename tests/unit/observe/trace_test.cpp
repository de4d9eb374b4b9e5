// SPDX-License-Identifier: BSD-3-Clause
#include "observe/trace.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"

namespace mh::observe {
namespace {

constexpr std::array<const char*, 2> kNames = {"MPI_Send", "MPI_Barrier"};
constexpr std::uint64_t kCapacity = 64;

// Gives each test a folder of its own, which is removed at the end of the test.
class Trace : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "mh-trace-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<TraceWriter> writer() {
    auto made =
        TraceWriter::create(folder_, {.world_rank = 3, .world_ranks = 4}, kNames, kCapacity);
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }

  void read() {
    std::ifstream file(folder_ + "/rank-3.mhtrace", std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    ASSERT_GE(bytes_.size(), TraceHeader::kBytes);
  }
  const TraceHeader& header() { return *reinterpret_cast<const TraceHeader*>(bytes_.data()); }
  const TraceSlot& slot(std::uint64_t index) {
    return reinterpret_cast<const TraceSlot*>(bytes_.data() + header().events_at)[index];
  }
  const TraceTotal& total(EventKind kind) {
    return header().totals[static_cast<std::size_t>(kind)];
  }

  std::string folder_;
  std::vector<char> bytes_;
};

TraceEvent help(std::uint64_t bytes) {
  return {.begin = 10, .extent = 5, .bytes = bytes, .peer = 1, .kind = EventKind::helped};
}

TEST_F(Trace, holds_events_totals_and_the_names_of_calls) {
  const auto trace = writer();
  trace->add(help(100));
  trace->add(help(200));
  trace->end(99);
  read();
  EXPECT_STREQ(header().magic, "MHTRACE");
  EXPECT_EQ(header().rank.world_rank, 3U);
  EXPECT_EQ(header().end_ticks, 99U);
  EXPECT_EQ(std::string(bytes_.data() + TraceHeader::kBytes, header().names_bytes),
            "MPI_Send\nMPI_Barrier\n");
  EXPECT_EQ(slot(1).number, 2U);
  EXPECT_EQ(slot(1).event.bytes, 200U);
  EXPECT_EQ(slot(2).number, 0U);
  EXPECT_EQ(total(EventKind::helped).events, 2U);
  EXPECT_EQ(total(EventKind::helped).bytes, 300U);
}

TEST_F(Trace, overwrites_the_oldest_events_and_counts_all) {
  const auto trace = writer();
  for (std::uint64_t i = 0; i < kCapacity + 10; ++i) trace->add(help(i));
  read();
  EXPECT_EQ(header().events, kCapacity + 10);
  EXPECT_EQ(total(EventKind::helped).events, kCapacity + 10);
  EXPECT_EQ(slot(9).number, kCapacity + 10);
  EXPECT_EQ(slot(9).event.bytes, kCapacity + 9);
  EXPECT_EQ(slot(10).event.bytes, 10U);
}

TEST_F(Trace, of_a_killed_process_can_be_read) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto trace = writer();
    trace->add(help(100));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  read();
  EXPECT_EQ(header().end_ticks, 0U);
  EXPECT_EQ(slot(0).number, 1U);
  EXPECT_EQ(slot(0).event.bytes, 100U);
}

TEST_F(Trace, takes_events_of_several_threads) {
  constexpr int kThreads = 4;
  const auto trace = writer();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t n = 0; n < kCapacity / kThreads; ++n) trace->add(help(1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  read();
  EXPECT_EQ(total(EventKind::helped).bytes, kCapacity);
  for (std::uint64_t i = 0; i < kCapacity; ++i) EXPECT_EQ(slot(i).number, i + 1);
}

TEST_F(Trace, that_cannot_be_written_is_an_error) {
  std::ofstream(folder_ + "/file") << "not a folder";
  const auto made = TraceWriter::create(folder_ + "/file", {}, kNames, kCapacity);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.status().sys_errno, ENOTDIR);
}

TEST_F(Trace, above_the_limit_of_file_sizes_is_an_error_and_does_not_end_the_program) {
  const auto code_under_limit = [this] {
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return Code::ok;
    return TraceWriter::create(folder_, {.world_rank = 3}, kNames, kCapacity).status().code;
  };
  EXPECT_EXIT(std::_Exit(code_under_limit() == Code::full ? 0 : 1), ::testing::ExitedWithCode(0),
              "");
}

TEST_F(Trace, gathers_short_calls_until_a_long_one) {
  const auto trace = writer();
  const std::uint64_t brief = ticks_from_ns(CallTrace::kBriefNs) / 2;
  const auto call = [](std::uint64_t begin, std::uint64_t length, std::uint16_t name) {
    return TraceEvent{.begin = begin,
                      .extent = length,
                      .transfer = length - 1,
                      .waiting = 1,
                      .bytes = 8,
                      .call = name,
                      .kind = EventKind::call};
  };
  CallTrace calls;
  calls.add(*trace, call(1000, brief, 0));
  calls.add(*trace, call(1000 + 2 * brief, brief, 0));
  calls.add(*trace, call(1000 + 4 * brief, 5 * brief, 1));
  calls.add(*trace, call(1000 + 10 * brief, brief, 0));
  calls.add(*trace, call(1000 + 12 * brief, brief, 1));
  calls.flush(*trace);
  calls.flush(*trace);  // flush() has nothing left to write
  read();
  ASSERT_EQ(header().events, 3U);
  EXPECT_EQ(slot(0).event.kind, EventKind::brief_calls);
  EXPECT_EQ(slot(0).event.count, 2U);
  EXPECT_EQ(slot(0).event.extent, 3 * brief);
  EXPECT_EQ(slot(0).event.transfer + slot(0).event.waiting, 2 * brief);
  EXPECT_EQ(slot(0).event.bytes, 16U);
  EXPECT_EQ(slot(0).event.call, 0U);
  EXPECT_EQ(slot(1).event.kind, EventKind::call);
  EXPECT_EQ(slot(1).event.extent, 5 * brief);
  EXPECT_EQ(slot(2).event.call, kNoCall);  // the calls have several names
}

TEST_F(Trace, gathers_short_calls_for_a_limited_time) {
  const auto trace = writer();
  CallTrace calls;
  const std::uint64_t step = ticks_from_ns(CallTrace::kGatheredForNs) / 4;
  for (std::uint64_t i = 1; i <= 12; ++i)
    calls.add(*trace, {.begin = i * step, .extent = 1, .kind = EventKind::call});
  calls.flush(*trace);
  read();
  EXPECT_GE(total(EventKind::brief_calls).events, 2U);
  EXPECT_EQ(total(EventKind::brief_calls).count, 12U);
}

}  // namespace
}  // namespace mh::observe
