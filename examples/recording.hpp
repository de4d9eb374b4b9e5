// SPDX-License-Identifier: BSD-3-Clause
// Records the seconds of each task of an example, for the simulator (bench/tasks/validate.py).
//
// The argument record=FILE of a program turns recording on. Each rank writes FILE.RANK, with a row
// for each task that the rank has run: the iteration and the task's number, both of 32 bits, and
// the seconds as a 32-bit float. Seconds are negative if the task has pruned itself, so that it
// does not run in later iterations. Only one thread of a rank may call.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace recording {

class Recording {
 public:
  // Looks for record=FILE among the program's arguments, takes the path from it, and removes it.
  Recording(int& count, char** words) {
    constexpr std::string_view kWord = "record=";
    int kept = 0;
    for (int i = 0; i < count; ++i) {
      if (std::string_view(words[i]).starts_with(kWord)) {
        path_ = words[i] + kWord.size();
      } else {
        words[kept++] = words[i];
      }
    }
    count = kept;
  }
  void begin_iteration() { ++iteration_; }

  // Calls `run`, which does the work of task number `task`, and records its time if recording is
  // on. `run` returns false if the task prunes itself, that is, does not run in later iterations.
  template <class Run>
  void run(std::uint32_t task, Run run) {
    if (path_.empty()) {
      run();
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    const bool kept = run();
    const std::chrono::duration<float> taken = std::chrono::steady_clock::now() - start;
    rows_.push_back({iteration_, task, kept ? taken.count() : -taken.count()});
  }

  // Writes the rows of this rank to its file, if recording is on. Returns false if the file cannot
  // be written.
  [[nodiscard]] bool write(int rank) const {
    if (path_.empty()) return true;
    std::FILE* file = std::fopen((path_ + "." + std::to_string(rank)).c_str(), "wb");
    if (file == nullptr) return false;
    const bool whole = std::fwrite(rows_.data(), sizeof(Row), rows_.size(), file) == rows_.size();
    return std::fclose(file) == 0 && whole;
  }

 private:
  struct Row {
    std::uint32_t iteration;
    std::uint32_t task;
    float seconds;
  };
  std::string path_;
  std::vector<Row> rows_;
  std::uint32_t iteration_ = 0;
};

}  // namespace recording
