// SPDX-License-Identifier: BSD-3-Clause
// The cost of an allocation under the allocator that LD_PRELOAD names. compare.py runs this program
// for each allocator.
//
//   loop      allocate, touch every page, free; ns a round, by size
//   untouched allocate and free; ns a round
//   small     allocate and free 100 bytes; ns a round
//   fresh     first touch of every page of memory that stays allocated; ns a page
//   threads   `loop` of 1 MB in each of two threads; then two threads that allocate blocks of mixed
//             sizes, each of which either thread may free
//   grow      realloc from 64 KB to 256 MB in steps of 64 KB; ns a step
//   random    random reads over 2 GB; ns a read; only if asked for
// With the argument `loop` (sizes up to 4 MB) or `random`, that measurement runs alone. Output:
// lines "name value". A value is the best of five repetitions, so that interruptions do not count
// (fresh: one). The last line has the resident memory at the end.
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t kKilo = 1U << 10U;
constexpr std::size_t kMega = 1U << 20U;

double now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// The block that touch() wrote last. The compiler must keep the stores to this volatile pointer,
// and thus the allocations.
char* volatile seen;

void touch(char* block, std::size_t bytes) {
  auto* to = static_cast<volatile char*>(block);
  for (std::size_t at = 0; at < bytes; at += 4096) to[at] = 1;
  seen = block;
}

template <class Round>
double best_ns(int rounds, Round round) {
  double best = 1e300;
  for (int turn = 0; turn < 5; ++turn) {
    const double start = now_ns();
    for (int i = 0; i < rounds; ++i) round();
    best = std::min(best, (now_ns() - start) / rounds);
  }
  return best;
}

char* allocate(std::size_t bytes) { return static_cast<char*>(std::malloc(bytes)); }

void say(const char* name, double value) {
  std::printf("%s %.1f\n", name, value);
  std::fflush(stdout);
}

void loop(std::size_t bytes) {
  const int rounds = static_cast<int>(std::clamp<std::size_t>(64 * kMega / bytes, 1, 500));
  char name[32];
  std::snprintf(name, sizeof name, "loop-%zuK", bytes / kKilo);
  say(name, best_ns(rounds, [&] {
        char* block = allocate(bytes);
        touch(block, bytes);
        std::free(block);
      }));
}

void short_loops() {
  for (const std::size_t bytes : {16 * kKilo, 64 * kKilo, 256 * kKilo, kMega, 4 * kMega}) {
    loop(bytes);
  }
}

void loops() {
  short_loops();
  for (const std::size_t bytes : {32 * kMega, 256 * kMega, 1024 * kMega}) loop(bytes);
  say("untouched-1024K", best_ns(2000, [] {
        char* block = allocate(kMega);
        seen = block;
        std::free(block);
      }));
  say("small-100", best_ns(100'000, [] {
        char* block = allocate(100);
        seen = block;
        std::free(block);
      }));
}

void fresh() {
  constexpr int kBlocks = 128;
  std::vector<char*> blocks(kBlocks);
  const double start = now_ns();
  for (char*& block : blocks) touch(block = allocate(kMega), kMega);
  say("fresh-page", (now_ns() - start) / (kBlocks * 256));
  for (char* block : blocks) std::free(block);
}

void in_two_threads(const char* name, int rounds, void (*body)(unsigned, int)) {
  say(name, best_ns(1, [&] {
              std::thread other(body, 1, rounds);
              body(0, rounds);
              other.join();
            }) / rounds);
}

char* passed[64];

void mixed(unsigned thread, int rounds) {
  std::uint64_t dice = thread + 1;
  for (int i = 0; i < rounds; ++i) {
    dice = dice * 6364136223846793005ULL + 1442695040888963407ULL;
    char* block = allocate((dice >> 40U) % (2 * kMega) + 64 * kKilo);
    block[0] = 1;
    std::free(__atomic_exchange_n(&passed[(dice >> 33U) % 64], block, __ATOMIC_ACQ_REL));
  }
}

void threads() {
  in_two_threads("threads-1024K", 400, [](unsigned, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      char* block = allocate(kMega);
      touch(block, kMega);
      std::free(block);
    }
  });
  in_two_threads("threads-mixed", 4000, mixed);
}

void grow() {
  constexpr std::size_t kStep = 64 * kKilo;
  constexpr std::size_t kEnd = 256 * kMega;
  constexpr std::size_t kSteps = kEnd / kStep;
  say("grow-step", best_ns(1, [] {
                     char* block = allocate(kStep);
                     for (std::size_t bytes = 2 * kStep; bytes <= kEnd; bytes += kStep) {
                       block = static_cast<char*>(std::realloc(block, bytes));
                       block[bytes - 1] = 1;
                     }
                     std::free(block);
                   }) / static_cast<double>(kSteps));
}

void random_access(std::size_t bytes) {
  auto* words = reinterpret_cast<std::uint64_t*>(allocate(bytes));
  std::memset(words, 1, bytes);
  const std::size_t mask = bytes / 8 - 1;
  constexpr int kReads = 2'000'000;
  std::uint64_t sum = 0;
  say("random-read", best_ns(1, [&] {
                       std::uint64_t at = 1;
                       for (int i = 0; i < kReads; ++i) {
                         at = at * 6364136223846793005ULL + words[(at >> 20U) & mask];
                       }
                       sum += at;
                     }) / kReads);
  if (sum == 42) std::puts("");
  std::free(words);
}

// Prints the resident memory of this process, shared pages included.
void resident() {
  long pages = 0;
  long total = 0;
  FILE* file = std::fopen("/proc/self/statm", "r");
  if (file != nullptr && std::fscanf(file, "%ld %ld", &total, &pages) == 2) {
    say("kept-MB", static_cast<double>(pages) * 4096 / static_cast<double>(kMega));
  }
  if (file != nullptr) std::fclose(file);
}

}  // namespace

int main(int count, char** arguments) {
  const char* const alone = count > 1 ? arguments[1] : "";
  if (std::strcmp(alone, "loop") == 0) {
    short_loops();
    return 0;
  }
  if (std::strcmp(alone, "random") == 0) {
    random_access(2048 * kMega);
    return 0;
  }
  if (*alone != '\0') {
    std::fprintf(stderr, "mh-allocation: loop, random or nothing, not '%s'\n", alone);
    return 2;
  }
  fresh();
  loops();
  threads();
  grow();
  resident();
  return 0;
}
