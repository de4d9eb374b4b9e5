// SPDX-License-Identifier: BSD-3-Clause
// What a user can set. settings.json is the one table (key, type, default, unit, meaning); the
// build turns it into the rows that settings.cpp reads by, and `mh config` and the documentation
// follow it, too.
//
// Precedence: environment, then the tune file (lines "MH_KEY = value", '#' comments), then the
// default. A value that cannot be used is described in one warning and the next in precedence is
// used.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mh {

// The values of each enumeration have the order of the words in settings.json.
enum class Strategy : std::uint8_t { localized, mixed, throughput };
enum class AccessOrder : std::uint8_t { random, low_to_high, high_to_low };
// Of the ranks that offer work, a core is lent to that with the longest offer, the fewest helpers
// at work, on this NUMA node (then the longest offer), or any.
enum class VictimPolicy : std::uint8_t { most_work, fewest_lenders, nearest, random };
enum class ThreadLevel : std::uint8_t { automatic, keep, multiple };
enum class WindowScope : std::uint8_t { none, node, all };
enum class MemoryPath : std::uint8_t { automatic, mapped, cma, cells, none };

// Bytes from which messages are described: in one direction, in both at once, and, either way,
// contiguous ones that lie in a heap which the ranks of the node map.
struct Threshold {
  std::uint64_t one_way;
  std::uint64_t exchanged;
  std::uint64_t mapped;
};

// Bytes from which third ranks take a hand: where the kernel copies for them, and where they map
// both ends.
struct HelpThreshold {
  std::uint64_t by_kernel;
  std::uint64_t mapped;
};

// Messages of at least `at_least` bytes are cut into chunks of `chunk` bytes.
struct ChunkRule {
  std::uint64_t at_least;
  std::uint32_t chunk;
};

struct Settings {
  bool enable;
  Threshold threshold;
  HelpThreshold help_threshold;
  std::vector<ChunkRule> chunks;  // ascending, the first for messages of 0 bytes and more
  Strategy strategy;
  AccessOrder post_comm_access;
  std::uint64_t saturate_ranks;
  MemoryPath memory;
  bool openmp;
  VictimPolicy victim;
  std::uint64_t cores;
  std::vector<std::string> openmp_exclude;  // names with '*' for any characters
  std::vector<std::string> openmp_only;     // likewise; empty: all
  bool tasks_in_wait;
  ThreadLevel thread_level;
  WindowScope windows;
  std::uint64_t fake_nodes;
  bool summary;
  std::string summary_json;  // a path, empty for none
  double spin_us;
  bool wait_together;
  std::uint64_t verbose;
  std::string tune_file;  // as given; empty for the default place
};

using Environment = std::map<std::string, std::string, std::less<>>;

struct LoadedSettings {
  Settings settings;
  std::vector<std::string> warnings;  // one line each, to be said once per node
};

// Pure: what these variables and this text of a tune file (called `tune_name` in warnings) mean.
LoadedSettings load_settings(const Environment& environment, std::string_view tune_text,
                             std::string_view tune_name);

// Of this process, read at the first call and unchanged afterwards. Any thread. Says nothing
// itself.
const LoadedSettings& loaded_settings();
inline const Settings& settings() { return loaded_settings().settings; }

// Where the tune file is for this environment and host: MH_TUNE_FILE, else
// $XDG_CONFIG_HOME/manyhands/<host>.conf, else $HOME/.config/manyhands/<host>.conf, else nowhere
// ("").
std::string tune_file_path(const Environment& environment, std::string_view host);

}  // namespace mh
