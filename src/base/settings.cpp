// SPDX-License-Identifier: BSD-3-Clause
// The type of a setting's field decides how its value is read: read_value() has an overload for
// each type, which also names the accepted values.
#include "base/settings.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <type_traits>
#include <variant>

extern char**
    environ;  // NOLINT(readability-redundant-declaration): only with _GNU_SOURCE in unistd.h

namespace mh {
namespace {

using Field =
    std::variant<bool Settings::*, std::uint64_t Settings::*, double Settings::*,
                 std::string Settings::*, std::vector<std::string> Settings::*,
                 std::vector<ChunkRule> Settings::*, Strategy Settings::*, VictimPolicy Settings::*,
                 AccessOrder Settings::*, MemoryPath Settings::*, ThreadLevel Settings::*,
                 WindowScope Settings::*, OpenMpLoops Settings::*>;

struct SettingRow {
  std::string_view key;
  std::string_view standard;  // the default
  std::string_view unit;
  std::string_view type;
  Field field;
  std::uint64_t low;
  std::uint64_t high;
};

const auto& rows() {
  static const std::array table = std::to_array<SettingRow>({
#include "base/settings_table.inc"
  });
  return table;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Splits a text. The parts have no surrounding blanks.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(trimmed(text.substr(at, end - at)));
    at = end + 1;
  }
  return parts;
}

// "64K" -> 65536. K, M and G are powers of 1024; "64KB" and "64KiB" are the same number.
std::optional<std::uint64_t> read_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (suffix.empty()) return value;
  const std::size_t letter = std::string_view("KMGkmg").find(suffix.front());
  const std::string_view rest = suffix.substr(1);
  if (letter == std::string_view::npos || !(rest.empty() || rest == "B" || rest == "iB")) {
    return std::nullopt;
  }
  const std::uint64_t factor = 1ULL << (10 * (letter % 3 + 1));
  if (value > UINT64_MAX / factor) return std::nullopt;
  return value * factor;
}

// Every read_value() reads the text of a setting into `value` and returns nothing. For a text that
// is not accepted, it leaves `value` as it is and returns a complaint, which names the accepted
// values.
using Complaint = std::optional<std::string>;

Complaint read_value(std::string_view text, bool& value, const SettingRow&) {
  if (text != "0" && text != "1") return "0 or 1";
  value = text == "1";
  return {};
}

Complaint read_value(std::string_view text, std::uint64_t& value, const SettingRow& row) {
  const auto number = read_number(text);
  if (number && *number >= row.low && *number <= row.high) {
    value = *number;
    return {};
  }
  const std::string what = row.unit == "bytes" ? "a size such as 65536 or 64K" : "a whole number";
  if (row.high == UINT64_MAX) return fmt::format("{} of at least {}", what, row.low);
  return fmt::format("{} from {} to {}", what, row.low, row.high);
}

Complaint read_value(std::string_view text, double& value, const SettingRow&) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_whole = end == text.data() + text.size();
  if (error != std::errc{} || !is_whole || !(number >= 0) || number > 1e6) {
    return "a number from 0 to 1000000";
  }
  value = number;
  return {};
}

Complaint read_value(std::string_view text, std::string& value, const SettingRow&) {
  value = text;
  return {};
}

// True if a part of a comma-separated list is a whole function name with balanced parentheses. A
// comma between a function's parameters cuts the name in two, and leaves the parentheses of both
// parts unbalanced.
bool is_name(std::string_view item) {
  const auto open = std::count(item.begin(), item.end(), '(');
  return !item.empty() && open == std::count(item.begin(), item.end(), ')');
}

Complaint read_value(std::string_view text, std::vector<std::string>& value, const SettingRow&) {
  std::vector<std::string> names;
  if (text.empty()) {
    value = names;
    return {};
  }
  for (const std::string_view item : parts_of(text, ',')) {
    if (!is_name(item)) {
      return "names separated by commas such as main,solver::* ('*' for any characters, also for "
             "commas in a name)";
    }
    names.emplace_back(item);
  }
  value = std::move(names);
  return {};
}

// Reads a setting of type "chunk table" (MH_CHUNK): a chunk size alone, or
// "from:chunk,from:chunk,..." with ascending message sizes `from`.
std::optional<std::vector<ChunkRule>> read_rules(std::string_view text) {
  std::vector<ChunkRule> rules;
  const bool is_single = text.find(':') == std::string_view::npos;
  for (const std::string_view item : parts_of(text, ',')) {
    const auto parts = parts_of(item, ':');
    const auto from = is_single ? 0 : read_number(parts.front());
    const auto chunk = read_number(parts.back());
    if (parts.size() != (is_single ? 1 : 2) || !from || !chunk) return std::nullopt;
    if (*chunk == 0 || *chunk > UINT32_MAX) return std::nullopt;
    if (!rules.empty() && (is_single || *from <= rules.back().at_least)) return std::nullopt;
    rules.push_back({*from, static_cast<std::uint32_t>(*chunk)});
  }
  rules.front().at_least = 0;  // the first rule also holds for shorter messages
  return rules;
}

Complaint read_value(std::string_view text, std::vector<ChunkRule>& value, const SettingRow&) {
  auto rules = read_rules(text);
  if (!rules)
    return "a size such as 64K, or from:chunk pairs in ascending order such as 0:16K,1M:128K";
  value = std::move(*rules);
  return {};
}

// Reads a setting that is a word of an enumeration. The type of the setting in settings.json lists
// the words ("localized|mixed|throughput") in the order of the enumeration's values.
template <class Enum>
requires std::is_enum_v<Enum> Complaint read_value(std::string_view text, Enum& value,
                                                   const SettingRow& row) {
  const auto words = parts_of(row.type, '|');
  const auto found = std::find(words.begin(), words.end(), text);
  if (found == words.end()) return fmt::format("one of {}", fmt::join(words, ", "));
  value = static_cast<Enum>(found - words.begin());
  return {};
}

Complaint assign_setting(Settings& settings, const SettingRow& row, std::string_view text) {
  return std::visit([&](auto member) { return read_value(trimmed(text), settings.*member, row); },
                    row.field);
}

const SettingRow* find_row(std::string_view key) {
  const auto& table = rows();
  const auto* found = std::find_if(table.begin(), table.end(),
                                   [&](const SettingRow& row) { return row.key == key; });
  return found == table.end() ? nullptr : found;
}

// The Levenshtein distance of two texts, by which the nearest setting to a misspelt one is found.
// Keeps a single row of the matrix in memory.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> costs(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) costs[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = costs[0];
    costs[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = costs[j];
      costs[j] = std::min({replaced, costs[j] + 1, costs[j - 1] + 1});
    }
  }
  return costs.back();
}

std::string unknown_key(std::string_view key, std::string_view place) {
  const auto& table = rows();
  const auto* nearest =
      std::min_element(table.begin(), table.end(), [&](const SettingRow& a, const SettingRow& b) {
        return edit_distance(key, a.key) < edit_distance(key, b.key);
      });
  return fmt::format("{}{} is not a setting, ignored; did you mean {}?", place, key, nearest->key);
}

// Gives the setting `key` the value `text`, or adds a warning to `loaded`. The warning begins with
// `place`: file and line of the tune file, or "" for an environment variable.
void apply_setting(LoadedSettings& loaded, std::string_view key, std::string_view text,
                   std::string_view place) {
  // The preloaded heap (src/heap) reads MH_HEAP itself: it runs below malloc, where it cannot use
  // the table of settings.
  if (key == "MH_HEAP") return;
  const SettingRow* row = find_row(key);
  if (row == nullptr) {
    loaded.warnings.push_back(unknown_key(key, place));
    return;
  }
  if (const Complaint accepted = assign_setting(loaded.settings, *row, text)) {
    loaded.warnings.push_back(
        fmt::format("{}{}={} is not accepted, ignored; {} takes {} (default {})", place, key, text,
                    key, *accepted, row->standard.empty() ? "none" : row->standard));
  }
}

void apply_tune_text(LoadedSettings& loaded, std::string_view text, std::string_view name) {
  const auto lines = parts_of(text, '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    if (line.empty() || line.front() == '#') continue;
    const std::string place = fmt::format("{}:{}: ", name, i + 1);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) {
      loaded.warnings.push_back(
          fmt::format("{}'{}' is not of the form MH_KEY = value, ignored", place, line));
      continue;
    }
    apply_setting(loaded, trimmed(line.substr(0, equals)), trimmed(line.substr(equals + 1)), place);
  }
}

Environment own_environment() {
  Environment found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos)
      found.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return found;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

std::string_view value_of(const Environment& environment, std::string_view key) {
  const auto found = environment.find(key);
  return found == environment.end() ? std::string_view{} : std::string_view(found->second);
}

LoadedSettings load_of_this_process() {
  const Environment environment = own_environment();
  const std::string path = tune_file_path(environment, host_name());
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  LoadedSettings loaded = load_settings(environment, text.str(), path);
  if (!file && !value_of(environment, "MH_TUNE_FILE").empty()) {
    loaded.warnings.push_back(fmt::format("MH_TUNE_FILE={} cannot be read, ignored", path));
  }
  return loaded;
}

}  // namespace

LoadedSettings load_settings(const Environment& environment, std::string_view tune_text,
                             std::string_view tune_name) {
  LoadedSettings loaded{};
  for (const SettingRow& row : rows()) assign_setting(loaded.settings, row, row.standard);
  apply_tune_text(loaded, tune_text, tune_name);
  for (auto it = environment.lower_bound("MH_"); it != environment.end(); ++it) {
    if (it->first.compare(0, 3, "MH_") != 0) break;
    apply_setting(loaded, it->first, it->second, "");
  }
  return loaded;
}

const LoadedSettings& loaded_settings() {
  static const LoadedSettings loaded = load_of_this_process();
  return loaded;
}

std::string tune_file_path(const Environment& environment, std::string_view host) {
  if (const auto given = value_of(environment, "MH_TUNE_FILE"); !given.empty())
    return std::string(given);
  const auto config = value_of(environment, "XDG_CONFIG_HOME");
  if (!config.empty()) return fmt::format("{}/manyhands/{}.conf", config, host);
  const auto home = value_of(environment, "HOME");
  if (!home.empty()) return fmt::format("{}/.config/manyhands/{}.conf", home, host);
  return {};
}

}  // namespace mh
