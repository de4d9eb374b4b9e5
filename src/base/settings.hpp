// SPDX-License-Identifier: BSD-3-Clause
// The user's settings. settings.json is the only table of them (key, type, default, unit, meaning);
// the build makes the rows of settings.cpp from it, and `mh config` and the documentation read it.
//
// Precedence: environment, then the tune file (lines "MH_KEY = value", '#' comments), then the
// default. A value that is not accepted causes one warning, and the next source in this order
// counts.
//
// Threads: loaded_settings() may be called by any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace mh {

// The values of each enumeration have the order in which settings.json lists the words of the
// setting.
enum class Strategy : std::uint8_t { localized, mixed, throughput };
enum class AccessOrder : std::uint8_t { random, low_to_high, high_to_low };
// MH_VICTIM selects which of the ranks that offer work gets the core of a waiting rank. `most_work`
// is the rank with the longest offer, `fewest_lenders` the rank with the fewest helpers at work.
// `nearest` is the longest offer on the lender's NUMA node, else the longest of all.
enum class VictimPolicy : std::uint8_t { most_work, fewest_lenders, nearest, random };
enum class ThreadLevel : std::uint8_t { automatic, keep, multiple };
enum class WindowScope : std::uint8_t { none, node, all };
// MH_OPENMP selects the OpenMP loops whose iterations waiting ranks may run, besides the loops that
// the program marks. `handed_out` are loops with schedules dynamic and guided, and `with_static`
// adds static loops.
enum class OpenMpLoops : std::uint8_t { none, handed_out, with_static };
enum class MemoryPath : std::uint8_t { automatic, mapped, cma, cells, none };

// A row of MH_CHUNK: messages of at least `at_least` bytes are cut into chunks of `chunk` bytes, up
// to the size at which the next row begins.
struct ChunkRule {
  std::uint64_t at_least;
  std::uint32_t chunk;
};

struct Settings {
  bool enable;
  // The sizes in bytes from which a message within a node goes by rendezvous. `threshold` is for
  // all messages except two kinds. `exchange_threshold` is for contiguous messages of an exchange,
  // `mapped_threshold` for contiguous messages from a send buffer in a shared heap.
  std::uint64_t threshold;
  std::uint64_t exchange_threshold;
  std::uint64_t mapped_threshold;
  // The sizes in bytes from which third ranks help with a message. `help_threshold` is for messages
  // that the kernel copies, `mapped_help_threshold` for messages whose buffers all ranks map.
  std::uint64_t help_threshold;
  std::uint64_t mapped_help_threshold;
  std::vector<ChunkRule> chunks;  // ascending; the first row starts at 0 bytes
  Strategy strategy;
  AccessOrder post_comm_access;
  std::uint64_t saturate_ranks;
  MemoryPath memory;
  OpenMpLoops openmp;
  VictimPolicy victim;
  std::uint64_t cores;
  std::vector<std::string> openmp_exclude;  // names with '*' for any characters
  std::vector<std::string> openmp_only;     // names with '*'; empty: all
  bool tasks_in_wait;
  ThreadLevel thread_level;
  WindowScope windows;
  std::uint64_t fake_nodes;
  bool summary;
  std::string summary_json;  // a path, empty for none
  std::string profile;       // a path, empty for none
  std::string trace;         // a folder, empty for none
  double spin_us;
  bool wait_together;
  std::uint64_t verbose;
  std::string tune_file;  // as given; empty for the default path
};

using Environment = std::map<std::string, std::string, std::less<>>;

struct LoadedSettings {
  Settings settings;
  std::vector<std::string> warnings;  // one line each, to be printed once per node
};

// Computes the settings from these environment variables and the text of a tune file alone.
// Warnings call that file `tune_name`.
LoadedSettings load_settings(const Environment& environment, std::string_view tune_text,
                             std::string_view tune_name);

// The settings of this process, read at the first call, with the warnings about them, which the
// caller prints.
const LoadedSettings& loaded_settings();
inline const Settings& settings() { return loaded_settings().settings; }

// The path of the tune file: MH_TUNE_FILE, else $XDG_CONFIG_HOME/manyhands/<host>.conf, else
// $HOME/.config/manyhands/<host>.conf, else "".
std::string tune_file_path(const Environment& environment, std::string_view host);

}  // namespace mh
