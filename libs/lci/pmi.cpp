// SPDX-License-Identifier: BSD-3-Clause
// PMI-1 and PMI-2, by which a rank talks to its launcher, as a client without a library: the texts
// that MPICH's hydra defines.
//
// A command of PMI-1 is a line of words, `cmd=put kvsname=K key=A value=B`. A command of PMI-2 has
// its length in six characters in front, and a semicolon after each word: `cmd=kvs-put;key=A;`. The
// launcher answers each command in the same form. The first command, which settles the version, is
// a line in both versions.
#include <link.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "base/say.hpp"
#include "lci/launcher.hpp"

namespace mh::lci::detail {
namespace {

constexpr std::size_t kLengthBytes = 6;
constexpr const char* kKey = "mh-lci-root";

// Returns the value of the word `name=value` in an answer of the launcher; empty: the answer has no
// such word.
std::string value_of(std::string_view answer, std::string_view name) {
  constexpr std::string_view kSeparators = " ;\n";
  while (!answer.empty()) {
    const std::size_t end = std::min(answer.find_first_of(kSeparators), answer.size());
    const std::string_view word = answer.substr(0, end);
    const bool found =
        word.size() > name.size() && word.starts_with(name) && word[name.size()] == '=';
    if (found) return std::string(word.substr(name.size() + 1));
    answer.remove_prefix(std::min(end + 1, answer.size()));
  }
  return {};
}

bool is_accepted(std::string_view answer) { return value_of(answer, "rc") == "0"; }

class Pmi {
 public:
  Pmi(int socket, Deadline deadline) : socket_(socket), deadline_(deadline) {}

  // Opens the session with the launcher, by PMI-`version`, or by PMI-1 if the launcher refuses
  // PMI-2. False: the launcher speaks neither.
  bool open(int version, int rank) {
    if (version == 2 && is_accepted(ask({"cmd=init", "pmi_version=2", "pmi_subversion=0"}))) {
      is_framed_ = true;
      const char* job = std::getenv("PMI_JOBID");
      return is_accepted(
          ask({"cmd=fullinit", std::string("pmijobid=") + (job == nullptr ? "0" : job),
               "pmirank=" + std::to_string(rank), "threaded=FALSE"}));
    }
    if (!is_accepted(ask({"cmd=init", "pmi_version=1", "pmi_subversion=1"}))) return false;
    space_ = "kvsname=" + value_of(ask({"cmd=get_my_kvsname"}), "kvsname");
    return true;
  }

  bool put(const std::string& key, const std::string& value) {
    if (is_framed_) return is_accepted(ask({"cmd=kvs-put", "key=" + key, "value=" + value}));
    return is_accepted(ask({"cmd=put", space_, "key=" + key, "value=" + value}));
  }

  // Collective over the ranks of the job. After the fence, all ranks can get the values that any
  // rank put before the fence.
  bool fence() {
    if (is_framed_) return is_accepted(ask({"cmd=kvs-fence"}));
    return value_of(ask({"cmd=barrier_in"}), "cmd") == "barrier_out";
  }

  std::string get(const std::string& key) {
    if (is_framed_) return value_of(ask({"cmd=kvs-get", "key=" + key}), "value");
    return value_of(ask({"cmd=get", space_, "key=" + key}), "value");
  }

  // Ends the session. The launcher considers a process as failed if the process ends after open()
  // without close().
  void close() { ask({"cmd=finalize"}); }

 private:
  // Sends a command to the launcher and returns the answer; empty: none came.
  std::string ask(std::initializer_list<std::string> words) {
    std::string text;
    for (const std::string& word : words) text += word + (is_framed_ ? ';' : ' ');
    if (!is_framed_) text.back() = '\n';
    if (is_framed_) {
      char length[kLengthBytes + 1];
      std::snprintf(length, sizeof length, "%6zu", text.size());
      text.insert(0, length);
    }
    const auto size = static_cast<ssize_t>(text.size());
    if (::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) != size) return {};
    return is_framed_ ? read(std::strtoul(read(kLengthBytes).c_str(), nullptr, 10)) : read_line();
  }

  std::string read_line() {
    std::string line;
    while (line.empty() || line.back() != '\n') {
      const std::string next = read(1);
      if (next.empty()) return {};
      line += next;
    }
    return line;
  }

  // Reads `size` bytes of the launcher's answer and returns them; empty: fewer came before the
  // deadline or the end of the connection.
  std::string read(std::size_t size) {
    std::string bytes(size, '\0');
    for (std::size_t done = 0; done < size;) {
      using std::chrono::milliseconds;
      const auto left = std::chrono::ceil<milliseconds>(deadline_ - Deadline::clock::now());
      pollfd entry{.fd = socket_, .events = POLLIN, .revents = 0};
      const int ready =
          ::poll(&entry, 1, static_cast<int>(std::max(left, milliseconds(0)).count()));
      if (ready < 0 && errno == EINTR) continue;
      const ssize_t got = ready <= 0 ? 0 : ::recv(socket_, bytes.data() + done, size - done, 0);
      if (got <= 0) return {};
      done += static_cast<std::size_t>(got);
    }
    return bytes;
  }

  const int socket_;
  const Deadline deadline_;
  bool is_framed_ = false;  // the form of PMI-2
  std::string space_;       // PMI-1: the word that names the key-value space
};

// Returns the socket to the launcher, which the variable PMI_FD names; -1: there is none. A child
// of a rank can inherit the variable without the socket.
int socket_of_launcher() {
  const char* text = std::getenv("PMI_FD");
  const int fd = text == nullptr ? -1 : std::atoi(text);
  struct stat state {};
  return fd > 2 && ::fstat(fd, &state) == 0 && S_ISSOCK(state.st_mode) ? fd : -1;
}

// True: the process has loaded a library named libmpi... or libmpich..., which then uses PMI
// itself.
bool has_mpi() {
  const auto is_mpi = [](dl_phdr_info* info, std::size_t /*size*/, void* /*data*/) {
    const std::string_view path = info->dlpi_name;
    return static_cast<int>(path.substr(path.rfind('/') + 1).starts_with("libmpi"));
  };
  return ::dl_iterate_phdr(is_mpi, nullptr) != 0;
}

}  // namespace

int launcher_at_pmi_fd() {
  ucred peer{};
  socklen_t size = sizeof peer;
  const int socket = socket_of_launcher();
  const bool known =
      socket >= 0 && ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  return known ? peer.pid : 0;
}

std::string share_by_pmi(int version, int rank, const std::string& text, Deadline deadline) {
  const int socket = socket_of_launcher();
  if (socket < 0) {
    print_message("lci: no launcher listens at PMI_FD: set MH_LCI_ROOT to HOST:PORT of rank 0");
    return {};
  }
  if (has_mpi()) {
    print_message(
        "lci: the MPI library of this process already uses PMI: set MH_LCI_ROOT to "
        "HOST:PORT of rank 0, or give JobConfig::root");
    return {};
  }
  Pmi pmi(socket, deadline);
  std::string shared;
  if (pmi.open(version, rank)) {
    const bool put = rank != 0 || pmi.put(kKey, text);
    if (put && pmi.fence()) shared = pmi.get(kKey);
    pmi.close();
  }
  if (shared.empty())
    print_message("lci: the launcher's PMI did not answer: set MH_LCI_ROOT to HOST:PORT of rank 0");
  return shared;
}

}  // namespace mh::lci::detail
