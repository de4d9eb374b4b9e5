// SPDX-License-Identifier: BSD-3-Clause
// The start of a job: each process finds its rank and connects to rank 0.
#include "manyhands/lci/job.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <system_error>
#include <thread>
#include <utility>

#include "base/say.hpp"
#include "lci/job_state.hpp"
#include "lci/launcher.hpp"
#include "lci/wire.hpp"

namespace mh::lci {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kBetweenTries{10};
constexpr std::uint32_t kMagic = 0x4D484C31;  // "MHL1"

struct Hello {
  std::uint32_t magic;
  std::int32_t rank;
  std::int32_t size;
};

// --- rank, size, and the address of rank 0 ---------------------------------------------------

constexpr int kNone = -1;
constexpr int kNoNumber = -2;

// Returns the value of the first of these variables that is set; kNone: none is set; kNoNumber: its
// value is invalid, and a message has said so.
int first_number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* text = std::getenv(name);
    if (text == nullptr || *text == '\0') continue;
    int number = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, number);
    if (error == std::errc{} && stop == end && number >= 0) return number;
    print_message("lci: {}={} is not a whole number from 0 up; the launcher sets it", name, text);
    return kNoNumber;
  }
  return kNone;
}

bool is_path(const std::string& root) { return !root.empty() && root[0] == '/'; }
// True: the root is a name in the kernel (an abstract socket), which ends with the process that
// listens at it.
bool is_name(const std::string& root) { return !root.empty() && root[0] == '@'; }

bool is_launcher(const std::string& root) {
  return detail::launcher_named(root) != detail::Launcher::none;
}

// Reads the rank and the size of the job from the environment variables of Manyhands or of the
// launcher. False: one of the two is invalid.
bool complete_rank(JobConfig& config) {
  config.rank = first_number(
      {"MH_LCI_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMIX_RANK"});
  config.size = first_number({"MH_LCI_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"});
  if (config.rank == kNone && config.size == kNone) {
    config.rank = 0;
    config.size = 1;
  }
  const bool by_pmix = config.size == kNone && std::getenv("PMIX_RANK") != nullptr;
  if (by_pmix) config.size = detail::size_by_pmix();
  return config.rank != kNoNumber && config.size != kNoNumber;
}

// Returns the root (the place where the ranks meet) for a job in which neither the program nor
// MH_LCI_ROOT names one. One process starts the ranks of one host; its id is in the name of the
// root, with the user's id. It is the parent if the program gives the rank (`is_given`). Empty: the
// ranks cannot meet; a message has said why.
std::string default_root(const JobConfig& config, bool is_by_launcher, bool is_given) {
  const auto hosts = is_by_launcher ? detail::spread_of(config.size) : detail::HostSpread::one_host;
  std::string offered =
      hosts == detail::HostSpread::one_host ? std::string() : detail::offered_launcher();
  if (!offered.empty()) return offered;
  if (hosts == detail::HostSpread::several_hosts) {
    print_message(
        "lci: the ranks are on several hosts, and their launcher offers neither PMI nor PMIx: "
        "with Slurm use srun --mpi=pmi2, else set MH_LCI_ROOT to HOST:PORT of rank 0");
    return {};
  }
  const int starter = is_given ? ::getppid() : detail::starter_of_ranks();
  return "@manyhands-lci-" + std::to_string(::getuid()) + '-' + std::to_string(starter);
}

bool is_root(const std::string& root) {
  if (root.empty()) return false;
  const bool is_on_host = is_path(root) || is_name(root);
  if (is_on_host || is_launcher(root) || root.find(':') != std::string::npos) return true;
  print_message(
      "lci: MH_LCI_ROOT={} is not accepted: set it to HOST:PORT, a path that begins with /, pmi1, "
      "pmi2 or pmix",
      root);
  return false;
}

// Fills in the members of the configuration that the program has not set, from the environment.
// False: rank, size or root is invalid.
bool complete_config(JobConfig& config) {
  const bool is_given = config.rank >= 0;
  if (!is_given && !complete_rank(config)) return false;
  if (config.root.empty()) {
    const char* root = std::getenv("MH_LCI_ROOT");
    if (root != nullptr) config.root = root;
  }
  const bool by_hand = is_given || std::getenv("MH_LCI_RANK") != nullptr || config.size <= 1;
  if (config.root.empty()) config.root = default_root(config, !by_hand, is_given);
  if (!is_root(config.root)) return false;
  const bool placed = config.rank >= 0 && config.rank < config.size;
  if (placed && config.size <= detail::kMaxRanks) return true;
  if (is_given) return false;
  print_message(
      "lci: process {} of {} is not a valid rank: start all processes with a launcher (mpiexec, "
      "srun), or set MH_LCI_RANK (from 0 up), MH_LCI_SIZE (at most {}) and MH_LCI_ROOT for each",
      config.rank, config.size, detail::kMaxRanks);
  return false;
}

Status too_late(const JobConfig& config) {
  print_message("lci: process {} of {} has waited {} s for the others at {}{}", config.rank,
                config.size, config.timeout_s, config.root,
                is_name(config.root)
                    ? ": if each rank has a wrapper, let it start the rank by exec, or set "
                      "MH_LCI_ROOT"
                    : "");
  return {Code::gone};
}

std::string own_address() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "127.0.0.1";
  std::string address = "127.0.0.1";
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    const bool usable = i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET &&
                        (i->ifa_flags & IFF_LOOPBACK) == 0 && (i->ifa_flags & IFF_UP) != 0;
    if (!usable) continue;
    char text[INET_ADDRSTRLEN];
    const auto* in = reinterpret_cast<const sockaddr_in*>(i->ifa_addr);
    if (::inet_ntop(AF_INET, &in->sin_addr, text, sizeof text) != nullptr) address = text;
    break;
  }
  ::freeifaddrs(all);
  return address;
}

struct HostAndPort {
  std::string host;
  std::string port;
};

HostAndPort place_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

// --- sockets between a rank and rank 0 ------------------------------------------------------

// Turns on TCP keep-alive, which notices a vanished host after 2 s of silence and two probes 1 s
// apart: 4 s in all.
void watch_peer(int socket) {
  const auto set = [socket](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 4000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

Fd listen_at(const std::string& port) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_ANY);
  here.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port.c_str())));
  const bool bound = ::bind(socket.get(), reinterpret_cast<sockaddr*>(&here), sizeof here) == 0;
  if (!bound || ::listen(socket.get(), SOMAXCONN) != 0) socket.reset();
  return socket;
}

// Opens a socket and calls `begin`, which is ::bind or ::connect, with the abstract socket address
// `name`.
template <class Begin>
Fd open_name(const std::string& name, Begin begin) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1, 1);  // after a zero, without the @
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (begin(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) socket.reset();
  return socket;
}

Fd listen_at_name(const std::string& name) {
  Fd socket = open_name(name, ::bind);
  if (socket.valid() && ::listen(socket.get(), SOMAXCONN) != 0) socket.reset();
  return socket;
}

// True: the peer is a process of this user, or connects by TCP. Sockets with abstract names need
// this check, because any user may bind or connect to such a name.
bool is_by_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool known = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  return !known || peer.pid == 0 || peer.uid == ::getuid();
}

// Returns the address of a listening socket as "HOST:PORT"; empty: the address is unknown.
std::string address_of(int socket) {
  sockaddr_in here{};
  socklen_t size = sizeof here;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &size) != 0) return {};
  return own_address() + ':' + std::to_string(ntohs(here.sin_port));
}

// Writes the address of rank 0 into the file `path`. The text goes to a draft file first, which is
// then linked to `path`, so no process reads a partial address. False: `path` exists already or
// cannot be written.
bool write_place(const std::string& path, const std::string& address) {
  const std::string draft = path + ".new";
  {
    std::ofstream file(draft);
    file << address << '\n';
    if (!file.flush()) return false;
  }
  const bool linked = ::link(draft.c_str(), path.c_str()) == 0;  // fails if `path` exists
  ::unlink(draft.c_str());
  return linked;
}

Fd connect_to(const HostAndPort& place) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &found) != 0) return {};
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) socket.reset();
  ::freeaddrinfo(found);
  return socket;
}

// --- how rank 0 and the other ranks join ----------------------------------------------------

// Called by rank 0. Accepts a connection of each other rank. Returns the sockets by rank; `gone`: a
// rank is missing at the deadline.
Result<std::vector<Fd>> accept_all(const JobConfig& config, int listener,
                                   Clock::time_point deadline) {
  std::vector<Fd> sockets(static_cast<std::size_t>(config.size));
  for (int missing = config.size - 1; missing > 0;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return too_late(config);
    const timeval limit{.tv_sec = left.count() / 1000, .tv_usec = left.count() % 1000 * 1000};
    ::setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    Fd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) continue;
    Hello hello{};
    const timeval second{.tv_sec = 1, .tv_usec = 0};  // the longest delay by a foreign connection
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
    const bool known = ::recv(socket.get(), &hello, sizeof hello, MSG_WAITALL) == sizeof hello &&
                       is_by_this_user(socket.get()) && hello.magic == kMagic &&
                       hello.size == config.size && hello.rank > 0 && hello.rank < config.size;
    if (!known) continue;
    Fd& place = sockets[static_cast<std::size_t>(hello.rank)];
    if (place.valid()) continue;
    const timeval none{};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    watch_peer(socket.get());
    place = std::move(socket);
    --missing;
  }
  return sockets;
}

Fd listen_for(const std::string& root) {
  if (is_name(root)) return listen_at_name(root);
  return listen_at(is_path(root) || is_launcher(root) ? "0" : place_of(root).port);
}

// Called by rank 0. Tells the other ranks where rank 0 listens, by a file or by the launcher,
// unless the root itself is that address.
bool announce(const JobConfig& config, int listener, Clock::time_point deadline) {
  if (is_path(config.root)) return write_place(config.root, address_of(listener));
  const auto launcher = detail::launcher_named(config.root);
  if (launcher == detail::Launcher::none) return true;
  return !detail::share_text(launcher, 0, address_of(listener), deadline).empty();
}

// Called by rank 0. Listens at the root, and returns a socket to each other rank, by rank.
Result<std::vector<Fd>> accept_ranks(const JobConfig& config, Clock::time_point deadline) {
  if (config.size == 1) return std::vector<Fd>(1);
  const Fd listener = listen_for(config.root);
  if (!listener.valid()) return from_errno(errno);
  if (!announce(config, listener.get(), deadline)) return Status{Code::misuse};
  auto sockets = accept_all(config, listener.get(), deadline);
  if (is_path(config.root)) ::unlink(config.root.c_str());
  return sockets;
}

// Connects a rank to rank 0. The returned socket is invalid if rank 0 does not listen yet.
Fd connect_to_root(const std::string& root) {
  if (is_name(root)) {
    Fd socket = open_name(root, ::connect);
    if (socket.valid() && !is_by_this_user(socket.get())) socket.reset();
    return socket;
  }
  if (!is_path(root)) return connect_to(place_of(root));
  std::string address;
  std::ifstream(root) >> address;
  return address.empty() ? Fd() : connect_to(place_of(address));
}

// Called by all ranks but rank 0. Connects to rank 0, and returns that one socket.
Result<std::vector<Fd>> connect_to_rank_zero(const JobConfig& config, Clock::time_point deadline) {
  std::string root = config.root;
  if (is_launcher(root)) {
    root = detail::share_text(detail::launcher_named(root), config.rank, {}, deadline);
    if (root.find(':') == std::string::npos) return Status{Code::misuse};
  }
  while (Clock::now() < deadline) {
    Fd socket = connect_to_root(root);
    const Hello hello{kMagic, config.rank, config.size};
    if (socket.valid() &&
        ::send(socket.get(), &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello) {
      watch_peer(socket.get());
      std::vector<Fd> sockets;
      sockets.push_back(std::move(socket));
      return sockets;
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
  return too_late(config);
}

}  // namespace

Result<Job> Job::join(const JobConfig& asked) {
  JobConfig config = asked;
  const detail::PmixUse until_all_have_joined;
  if (!complete_config(config)) return Status{Code::misuse};
  const auto deadline = Clock::now() + std::chrono::seconds(config.timeout_s);
  auto sockets =
      config.rank == 0 ? accept_ranks(config, deadline) : connect_to_rank_zero(config, deadline);
  if (!sockets) return sockets.status();
  try {
    Job job(std::make_unique<detail::JobState>(config.rank, config.size, std::move(*sockets)));
    if (const auto all = job.allgather({}); !all) return all.status();
    return job;
  } catch (const std::system_error& error) {  // no thread
    return from_errno(error.code().value());
  }
}

Job::Job(std::unique_ptr<detail::JobState> state) : state_(std::move(state)) {}
Job::Job(Job&&) noexcept = default;
Job::~Job() = default;

int Job::rank() const noexcept { return state_->rank(); }
int Job::size() const noexcept { return state_->size(); }
bool Job::alive(int rank) const noexcept {
  return rank >= 0 && rank < size() && state_->alive(rank);
}

Result<std::vector<std::string>> Job::allgather(const std::string& mine,
                                                const std::function<void()>& meanwhile) {
  return state_->allgather(mine, meanwhile);
}

}  // namespace mh::lci
