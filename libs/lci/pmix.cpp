// SPDX-License-Identifier: BSD-3-Clause
// PMIx as a client. Its header is needed at the build, its library when a launcher offers PMIx.
#include "base/say.hpp"
#include "lci/launcher.hpp"
#if MH_LCI_HAS_PMIX
#include <dlfcn.h>
#include <pmix.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#endif

namespace mh::lci::detail {
#if MH_LCI_HAS_PMIX
namespace {

// The functions of the library; `get` is null where there is no library.
struct Pmix {
  decltype(&::PMIx_Init) init = nullptr;
  decltype(&::PMIx_Finalize) finalize = nullptr;
  decltype(&::PMIx_Put) put = nullptr;
  decltype(&::PMIx_Commit) commit = nullptr;
  decltype(&::PMIx_Fence) fence = nullptr;
  decltype(&::PMIx_Get) get = nullptr;

  Pmix() {
    void* library = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);  // stays open
    if (library == nullptr) return;
    const auto find = [library](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, name));
      return function != nullptr;
    };
    const bool all = find(init, "PMIx_Init") && find(finalize, "PMIx_Finalize") &&
                     find(put, "PMIx_Put") && find(commit, "PMIx_Commit") &&
                     find(fence, "PMIx_Fence") && find(get, "PMIx_Get");
    if (!all) get = nullptr;
  }
};

const Pmix& pmix() {
  static const Pmix functions;
  return functions;
}

pmix_info_t option(const char* name, pmix_data_type_t type) {
  pmix_info_t info{};
  std::strncpy(info.key, name, sizeof info.key - 1);
  info.value.type = type;
  return info;
}

// Gives the value's memory back.
struct Given {
  pmix_value_t* value = nullptr;
  Given() = default;
  Given(const Given&) = delete;
  Given& operator=(const Given&) = delete;
  ~Given() {
    if (value == nullptr) return;
    if (value->type == PMIX_STRING) std::free(value->data.string);
    std::free(value);
  }
};

// Puts rank 0's text and waits for all ranks. The text; empty: PMIx has failed.
std::string exchange(pmix_proc_t me, const std::string& key, const std::string& text, int seconds) {
  std::string copy = text;
  pmix_value_t mine{};
  mine.type = PMIX_STRING;
  mine.data.string = copy.data();
  if (me.rank == 0) {
    if (pmix().put(PMIX_GLOBAL, key.c_str(), &mine) != PMIX_SUCCESS) return {};
    if (pmix().commit() != PMIX_SUCCESS) return {};
  }
  pmix_info_t options[] = {option(PMIX_TIMEOUT, PMIX_INT), option(PMIX_COLLECT_DATA, PMIX_BOOL)};
  options[0].value.data.integer = seconds;
  options[1].value.data.flag = true;
  if (pmix().fence(nullptr, 0, options, 2) != PMIX_SUCCESS) return {};
  me.rank = 0;
  Given given;
  const pmix_status_t got = pmix().get(&me, key.c_str(), options, 1, &given.value);
  return got == PMIX_SUCCESS && given.value->type == PMIX_STRING ? given.value->data.string : "";
}

}  // namespace

bool has_pmix() { return pmix().get != nullptr; }

int size_by_pmix() {
  pmix_proc_t me{};
  if (!has_pmix() || pmix().init(&me, nullptr, 0) != PMIX_SUCCESS) return -1;
  int size = -1;
  {
    Given given;
    me.rank = PMIX_RANK_WILDCARD;
    const pmix_status_t got = pmix().get(&me, PMIX_JOB_SIZE, nullptr, 0, &given.value);
    const bool known = got == PMIX_SUCCESS && given.value->type == PMIX_UINT32;
    if (known) size = static_cast<int>(given.value->data.uint32);
  }
  (void)pmix().finalize(nullptr, 0);
  return size;
}

std::string share_by_pmix(int /*rank*/, const std::string& text, Deadline deadline) {
  static std::atomic<unsigned> jobs{0};  // relaxed: a number that publishes nothing
  const std::string key =
      "mh.lci.root." + std::to_string(jobs.fetch_add(1, std::memory_order_relaxed));
  pmix_proc_t me{};
  if (!has_pmix() || pmix().init(&me, nullptr, 0) != PMIX_SUCCESS) {
    print_message(
        "lci: PMIx cannot be used: start the ranks with a launcher that has PMIx, and "
        "install libpmix.so.2");
    return {};
  }
  const auto left = std::chrono::ceil<std::chrono::seconds>(deadline - Deadline::clock::now());
  std::string shared = exchange(me, key, text, static_cast<int>(std::max<long>(left.count(), 1)));
  (void)pmix().finalize(nullptr, 0);
  if (shared.empty()) print_message("lci: the launcher's PMIx did not answer");
  return shared;
}

#else

bool has_pmix() { return false; }
int size_by_pmix() { return -1; }
std::string share_by_pmix(int /*rank*/, const std::string& /*text*/, Deadline /*deadline*/) {
  print_message("lci: built without PMIx (Debian: libpmix-dev)");
  return {};
}

#endif
}  // namespace mh::lci::detail
