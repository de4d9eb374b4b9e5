// SPDX-License-Identifier: BSD-3-Clause
// PMIx, by which a rank talks to its launcher, as a client. PMIx's header is needed at the build,
// its library only when a launcher offers PMIx.
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

// The functions of the PMIx library, found by dlsym(); `get` is null where there is no library.
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

// The process's connection to the launcher by PMIx. A rank that closes its connection while other
// ranks are in a fence makes the fence fail. The connection therefore stays open until the end of
// Job::join() (PmixUse).
struct Session {
  bool is_open = false;
  pmix_proc_t me{};

  bool open() {
    if (!is_open && has_pmix()) is_open = pmix().init(&me, nullptr, 0) == PMIX_SUCCESS;
    return is_open;
  }
};

Session& session() {
  static Session of_process;
  return of_process;
}

pmix_info_t option(const char* name, pmix_data_type_t type) {
  pmix_info_t info{};
  std::strncpy(info.key, name, sizeof info.key - 1);
  info.value.type = type;
  return info;
}

// Owns a value that PMIx_Get() has allocated, and frees the value in its destructor.
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

// True: the call `step` of PMIx has succeeded. Otherwise a message on stderr names the step and
// PMIx's code.
bool has_done(const char* step, pmix_status_t status) {
  if (status == PMIX_SUCCESS) return true;
  print_message("lci: {} of the launcher's PMIx failed with code {}", step, status);
  return false;
}

bool has_put(const std::string& key, std::string text) {
  pmix_value_t mine{};
  mine.type = PMIX_STRING;
  mine.data.string = text.data();
  return has_done("PMIx_Put", pmix().put(PMIX_GLOBAL, key.c_str(), &mine)) &&
         has_done("PMIx_Commit", pmix().commit());
}

// Publishes rank 0's text, waits for all ranks (at most `seconds`), and returns that text at every
// rank; empty: PMIx has failed, and a message has said how.
std::string exchange(pmix_proc_t me, const std::string& key, const std::string& text, int seconds) {
  if (me.rank == 0 && !has_put(key, text)) return {};
  pmix_info_t options[] = {option(PMIX_TIMEOUT, PMIX_INT), option(PMIX_COLLECT_DATA, PMIX_BOOL)};
  options[0].value.data.integer = seconds;
  options[1].value.data.flag = true;
  if (!has_done("PMIx_Fence", pmix().fence(nullptr, 0, options, 2))) return {};
  me.rank = 0;
  Given given;
  const pmix_status_t got = pmix().get(&me, key.c_str(), options, 1, &given.value);
  if (!has_done("PMIx_Get", got)) return {};
  return given.value->type == PMIX_STRING ? given.value->data.string : "";
}

}  // namespace

bool has_pmix() { return pmix().get != nullptr; }

PmixUse::~PmixUse() {
  if (session().is_open) (void)pmix().finalize(nullptr, 0);
  session().is_open = false;
}

int size_by_pmix() {
  if (!session().open()) return -1;
  pmix_proc_t all = session().me;
  all.rank = PMIX_RANK_WILDCARD;
  Given given;
  const pmix_status_t got = pmix().get(&all, PMIX_JOB_SIZE, nullptr, 0, &given.value);
  const bool known = got == PMIX_SUCCESS && given.value->type == PMIX_UINT32;
  return known ? static_cast<int>(given.value->data.uint32) : -1;
}

std::string share_by_pmix(const std::string& text, Deadline deadline) {
  static std::atomic<unsigned> jobs{0};  // relaxed: a number that publishes nothing
  const unsigned job = jobs.fetch_add(1, std::memory_order_relaxed);
  if (!session().open()) {
    print_message(
        "lci: PMIx cannot be used: start the ranks with a launcher that has PMIx, and "
        "install libpmix.so.2");
    return {};
  }
  const auto left = std::chrono::ceil<std::chrono::seconds>(deadline - Deadline::clock::now());
  return exchange(session().me, "mh.lci.root." + std::to_string(job), text,
                  static_cast<int>(std::max<long>(left.count(), 1)));
}

#else

bool has_pmix() { return false; }
PmixUse::~PmixUse() = default;
int size_by_pmix() { return -1; }
std::string share_by_pmix(const std::string& /*text*/, Deadline /*deadline*/) {
  print_message("lci: this build has no PMIx: install libpmix-dev (Debian) and build again");
  return {};
}

#endif
}  // namespace mh::lci::detail
