// SPDX-License-Identifier: BSD-3-Clause
#include "base/settings.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "support/sanitizer.hpp"

namespace mh {
namespace {

LoadedSettings from(const Environment& environment, std::string_view tune = "") {
  return load_settings(environment, tune, "host.conf");
}

// Loads settings from the environment and the text of a tune file, expects exactly one warning, and
// returns it.
std::string warning(const Environment& environment, std::string_view tune = "") {
  const LoadedSettings loaded = from(environment, tune);
  EXPECT_EQ(loaded.warnings.size(), 1U);
  return loaded.warnings.empty() ? "" : loaded.warnings.front();
}

TEST(Settings, defaults_are_those_of_the_table) {
  const LoadedSettings loaded = from({});
  EXPECT_TRUE(loaded.warnings.empty());
  EXPECT_TRUE(loaded.settings.enable);
  EXPECT_EQ(loaded.settings.threshold, 65536U);
  EXPECT_EQ(loaded.settings.strategy, Strategy::throughput);
  EXPECT_EQ(loaded.settings.post_comm_access, AccessOrder::random);
  EXPECT_EQ(loaded.settings.memory, MemoryPath::automatic);
  EXPECT_EQ(loaded.settings.fake_nodes, 1U);
  EXPECT_EQ(loaded.settings.saturate_ranks, 4U);
  EXPECT_FALSE(loaded.settings.summary);
  EXPECT_EQ(loaded.settings.chunks.front().at_least, 0U);
}

nlohmann::json table() {
  std::ifstream file(MH_SETTINGS_TABLE);
  return nlohmann::json::parse(file)["settings"];
}

TEST(Settings, every_default_of_the_table_is_accepted_as_a_value) {
  for (const nlohmann::json& row : table()) {
    const std::string key = row["key"];
    EXPECT_TRUE(from({{key, row["default"].get<std::string>()}}).warnings.empty()) << key;
  }
}

TEST(Settings, the_table_has_distinct_keys_each_with_a_meaning) {
  std::set<std::string> keys;
  for (const nlohmann::json& row : table()) {
    const std::string key = row["key"];
    EXPECT_EQ(key.substr(0, 3), "MH_");
    EXPECT_GT(row["meaning"].get<std::string>().size(), 20U) << key;
    EXPECT_TRUE(keys.insert(key).second) << key;
  }
}

TEST(Settings, the_key_of_the_heap_is_no_mistake) {
  EXPECT_TRUE(from({{"MH_HEAP", "auto"}}).warnings.empty());
  EXPECT_FALSE(from({{"MH_HEAPS", "auto"}}).warnings.empty());
}

TEST(Settings, sizes_take_binary_suffixes) {
  EXPECT_EQ(from({{"MH_THRESHOLD", "128K"}}).settings.threshold, 128U << 10U);
  EXPECT_EQ(from({{"MH_THRESHOLD", "2M"}}).settings.threshold, 2U << 20U);
  EXPECT_EQ(from({{"MH_THRESHOLD", "1g"}}).settings.threshold, 1U << 30U);
  EXPECT_EQ(from({{"MH_THRESHOLD", "64KiB"}}).settings.threshold, 64U << 10U);
  EXPECT_EQ(from({{"MH_THRESHOLD", " 70000 "}}).settings.threshold, 70000U);
}

// Expects that the setting `key` accepts each of the given words, and that each sets `field` to its
// value.
template <class Value>
void expect_words(const std::string& key, Value Settings::*field,
                  std::initializer_list<std::pair<const char*, Value>> words) {
  for (const auto& [word, value] : words) {
    const LoadedSettings loaded = from({{key, word}});
    EXPECT_TRUE(loaded.warnings.empty()) << word;
    EXPECT_EQ(loaded.settings.*field, value) << word;
  }
}

TEST(Settings, words_choose_the_value_of_their_name) {
  expect_words("MH_STRATEGY", &Settings::strategy,
               {{"localized", Strategy::localized},
                {"mixed", Strategy::mixed},
                {"throughput", Strategy::throughput}});
  expect_words("MH_POST_COMM_ACCESS", &Settings::post_comm_access,
               {{"random", AccessOrder::random},
                {"lo-to-hi", AccessOrder::low_to_high},
                {"hi-to-lo", AccessOrder::high_to_low}});
  expect_words("MH_MEMORY", &Settings::memory,
               {{"auto", MemoryPath::automatic},
                {"mapped", MemoryPath::mapped},
                {"cma", MemoryPath::cma},
                {"cells", MemoryPath::cells},
                {"none", MemoryPath::none}});
  expect_words("MH_VICTIM", &Settings::victim,
               {{"most-work", VictimPolicy::most_work},
                {"fewest-lenders", VictimPolicy::fewest_lenders},
                {"nearest", VictimPolicy::nearest},
                {"random", VictimPolicy::random}});
  expect_words("MH_THREAD_LEVEL", &Settings::thread_level,
               {{"auto", ThreadLevel::automatic},
                {"keep", ThreadLevel::keep},
                {"multiple", ThreadLevel::multiple}});
  expect_words("MH_WINDOWS", &Settings::windows,
               {{"node", WindowScope::node}, {"all", WindowScope::all}});
}

TEST(Settings, names_are_separated_by_commas) {
  using Names = std::vector<std::string>;
  const auto names = [](const std::string& text) {
    const LoadedSettings loaded = from({{"MH_OPENMP_EXCLUDE", text}});
    EXPECT_TRUE(loaded.warnings.empty()) << text;
    return loaded.settings.openmp_exclude;
  };
  EXPECT_EQ(names(""), Names{});
  EXPECT_EQ(names("main"), Names{"main"});
  EXPECT_EQ(names(" main , solver::*,app+0x12,f(*)"),
            (Names{"main", "solver::*", "app+0x12", "f(*)"}));
  for (const char* bad : {",", "main,", "main,,f", "f(int, long)", "f(int"}) {
    const std::string told = warning({{"MH_OPENMP_ONLY", bad}});
    EXPECT_EQ(told.find("MH_OPENMP_ONLY=" + std::string(bad) + " is not accepted, ignored;"), 0U);
    EXPECT_NE(told.find("names separated by commas"), std::string::npos) << told;
  }
}

TEST(Settings, a_bad_value_is_one_line_with_key_value_what_is_accepted_and_the_default) {
  EXPECT_EQ(
      warning({{"MH_STRATEGY", "greedy"}}),
      "MH_STRATEGY=greedy is not accepted, ignored; MH_STRATEGY takes one of localized, mixed, "
      "throughput (default throughput)");
  EXPECT_EQ(warning({{"MH_ENABLE", "yes"}}),
            "MH_ENABLE=yes is not accepted, ignored; MH_ENABLE takes 0 or 1 (default 1)");
  EXPECT_EQ(warning({{"MH_VERBOSE", "3"}}),
            "MH_VERBOSE=3 is not accepted, ignored; MH_VERBOSE takes a whole number from 0 to 2 "
            "(default 1)");
}

TEST(Settings, each_threshold_is_one_size) {
  const Settings standard = from({}).settings;
  EXPECT_EQ(standard.threshold, 64U << 10U);
  EXPECT_EQ(standard.exchange_threshold, 8U << 20U);
  EXPECT_EQ(standard.mapped_threshold, 16U << 10U);
  EXPECT_EQ(standard.help_threshold, 4U << 20U);
  EXPECT_EQ(standard.mapped_help_threshold, 1U << 20U);
  EXPECT_EQ(from({{"MH_EXCHANGE_THRESHOLD", " 2M "}}).settings.exchange_threshold, 2U << 20U);
  EXPECT_EQ(from({{"MH_MAPPED_HELP_THRESHOLD", "64K"}}).settings.mapped_help_threshold, 64U << 10U);
  EXPECT_EQ(warning({{"MH_THRESHOLD", "64K,8M"}}),
            "MH_THRESHOLD=64K,8M is not accepted, ignored; MH_THRESHOLD takes a size such as 65536 "
            "or 64K of at least 1024 (default 64K)");
}

TEST(Settings, a_bad_value_leaves_the_default) {
  for (const char* bad :
       {"", "abc", "12Q", "-5", "64KX", "99999999999999999999", "17179869184G", "512"}) {
    const LoadedSettings loaded = from({{"MH_THRESHOLD", bad}});
    EXPECT_EQ(loaded.settings.threshold, 65536U) << bad;
    EXPECT_EQ(loaded.warnings.size(), 1U) << bad;
  }
  for (const char* bad : {"-1", "nan", "inf", "2x", "1e9"}) {
    EXPECT_EQ(from({{"MH_SPIN", bad}}).settings.spin_us, 2.0) << bad;
  }
}

TEST(Settings, an_unknown_key_is_warned_about_with_the_nearest_one) {
  EXPECT_EQ(warning({{"MH_TRESHOLD", "1"}}),
            "MH_TRESHOLD is not a setting, ignored; did you mean MH_THRESHOLD?");
  EXPECT_EQ(warning({{"MH_CHUNKS", "1"}}),
            "MH_CHUNKS is not a setting, ignored; did you mean MH_CHUNK?");
}

TEST(Settings, keys_of_others_are_not_looked_at) {
  EXPECT_TRUE(
      from({{"MHX", "1"}, {"MPI_HOME", "/usr"}, {"AMH_X", "1"}, {"MI_Z", ""}}).warnings.empty());
}

TEST(Settings, one_number_is_a_static_chunk_size) {
  const auto chunks = from({{"MH_CHUNK", "48K"}}).settings.chunks;
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].at_least, 0U);
  EXPECT_EQ(chunks[0].chunk, 48U << 10U);
}

TEST(Settings, a_chunk_table_is_read_in_ascending_order) {
  const auto chunks = from({{"MH_CHUNK", "64K:16K, 1M:128K,4M:262144"}}).settings.chunks;
  ASSERT_EQ(chunks.size(), 3U);
  EXPECT_EQ(chunks[0].at_least, 0U) << "the first rule also holds below its size";
  EXPECT_EQ(chunks[0].chunk, 16U << 10U);
  EXPECT_EQ(chunks[1].at_least, 1U << 20U);
  EXPECT_EQ(chunks[2].chunk, 256U << 10U);
}

TEST(Settings, a_chunk_table_that_makes_no_sense_is_refused_as_a_whole) {
  const std::size_t rules = from({}).settings.chunks.size();
  for (const char* bad : {"", ",", ":", "1M:", ":64K", "1M:64K,1M:32K", "2M:64K,1M:32K", "0:0",
                          "64K,32K", "0:16K,", "1:2:3", "0:8G"}) {
    const LoadedSettings loaded = from({{"MH_CHUNK", bad}});
    EXPECT_EQ(loaded.settings.chunks.size(), rules) << bad;
    EXPECT_EQ(loaded.warnings.size(), 1U) << bad;
  }
}

TEST(Settings, the_tune_file_is_below_the_environment_and_above_the_default) {
  const std::string tune = "# made by mh tune\n\nMH_THRESHOLD = 96K\r\nMH_SATURATE=7\n";
  const LoadedSettings both = from({{"MH_THRESHOLD", "32K"}}, tune);
  EXPECT_TRUE(both.warnings.empty());
  EXPECT_EQ(both.settings.threshold, 32U << 10U);
  EXPECT_EQ(both.settings.saturate_ranks, 7U);
  EXPECT_EQ(from({}, tune).settings.threshold, 96U << 10U);
}

TEST(Settings, a_bad_value_in_the_environment_leaves_that_of_the_tune_file) {
  EXPECT_EQ(from({{"MH_THRESHOLD", "many"}}, "MH_THRESHOLD=96K").settings.threshold, 96U << 10U);
}

TEST(Settings, a_bad_line_of_the_tune_file_is_named_by_file_and_line) {
  EXPECT_EQ(warning({}, "\nhello\n"),
            "host.conf:2: 'hello' is not of the form MH_KEY = value, ignored");
  EXPECT_EQ(warning({}, "MH_SPUN = 3"),
            "host.conf:1: MH_SPUN is not a setting, ignored; did you mean MH_SPIN?");
}

TEST(Settings, any_text_is_survived) {
  std::uint32_t seed = 1;
  const int rounds = test::kSanitized ? 5'000 : 20'000;
  for (int round = 0; round < rounds; ++round) {
    std::string text;
    for (int i = 0; i < 12; ++i) {
      seed = seed * 1664525U + 1013904223U;
      text += "0123456789KMG:,. -=#\nMH_CHUNK"[(seed >> 16U) % 29];
    }
    const LoadedSettings loaded =
        from({{"MH_CHUNK", text}, {"MH_SPIN", text}, {"MH_THRESHOLD", text}}, "MH_CHUNK=" + text);
    ASSERT_FALSE(loaded.settings.chunks.empty());
    ASSERT_EQ(loaded.settings.chunks.front().at_least, 0U);
    for (const ChunkRule& rule : loaded.settings.chunks) ASSERT_GT(rule.chunk, 0U);
  }
}

TEST(TuneFile, is_found_by_setting_then_xdg_then_home) {
  EXPECT_EQ(tune_file_path({{"MH_TUNE_FILE", "/a/b"}, {"HOME", "/h"}}, "n1"), "/a/b");
  EXPECT_EQ(tune_file_path({{"XDG_CONFIG_HOME", "/x"}, {"HOME", "/h"}}, "n1"),
            "/x/manyhands/n1.conf");
  EXPECT_EQ(tune_file_path({{"HOME", "/h"}}, "n1"), "/h/.config/manyhands/n1.conf");
  EXPECT_EQ(tune_file_path({}, "n1"), "");
}

TEST(Settings, of_this_process_are_read_once) { EXPECT_EQ(&settings(), &settings()); }

}  // namespace
}  // namespace mh
