// SPDX-License-Identifier: BSD-3-Clause
// mh-tune: measures the rates on which the settings of a host depend. `mh tune` runs the program
// and chooses the settings.
//
// Three tables, as JSON lines with all samples:
//   copy        rate of one core by chunk size: own memory, one end in another process, both ends
//   saturation  rate of 1, 2, ... cores of a NUMA node that copy at the same time, alone and with a
//               guest: a core of another NUMA node that copies within the memory of the first node
//   transfer    time of a message between two cores: by one process_vm_readv of the receiver (as MPI
//               libraries move large messages), through shared cells (two copies, as MPI libraries
//               move shorter messages), and as a job of sender and receiver, by chunk size
// The job is the library's own (steal::Job, memory::Reach); the other two ways stand for the plain
// MPI library. Announcement and completion are flags between two cores in all three ways. An MPI
// library's matching costs more, but the same for an RTS header as for its own large messages. The
// sender writes its bytes before every message, and the receiver reads the bytes afterwards, as
// programs do; the times exclude both. With buffers that do not change, the source would stay in
// the receiver's cache, and a second core could not help. Precision: about 2 % on a quiet machine.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "memory/reach.hpp"
#include "tune/team.hpp"

namespace mh::tune {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kCopyBytes = 8 * kMiB;         // the message of the copy table
constexpr std::size_t kSaturationBytes = 32 * kMiB;  // per core, source and target each
constexpr std::size_t kScratchBytes = 64 * kKiB;     // scratch of Way::third_party; fits the L2
constexpr std::size_t kCellBytes = 32 * kKiB;
constexpr std::size_t kCells = 4;

// The length and number of the samples, and the largest message. kThorough is for measuring a host,
// kQuick for tests of this program only.
struct Effort {
  int batches;
  double batch_ns;
  std::size_t largest;  // bytes of the largest message of the transfer table
};
constexpr Effort kThorough{9, 4e6, 16 * kMiB};
constexpr Effort kQuick{2, 1e5, 128 * kKiB};

struct Buffers {
  std::byte* source;
  std::byte* target;
  std::vector<std::byte> scratch;
};

class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  // Prints a JSON object on a line: the fields of `head`, then all samples.
  void print(const std::string& head) const {
    std::printf("{%s, \"samples\": [", head.c_str());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      std::printf("%s%.6g", i == 0 ? "" : ", ", values_[i]);
    }
    std::printf("]}\n");
    std::fflush(stdout);
  }

 private:
  std::vector<double> values_;
};

std::string text_field(const char* name, const char* value) {
  return std::string("\"") + name + "\": \"" + value + "\"";
}

std::string field(const char* name, std::size_t value) {
  return std::string(", \"") + name + "\": " + std::to_string(value);
}

std::byte* allocate(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memset(memory, 1, bytes);
  return static_cast<std::byte*>(memory);
}

// Allocates memory that the members, which are forked later, share. Each page is on the NUMA node
// of its first writer. Returns null if memory is short.
void* allocate_shared(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

memory::View source_of(const Shared& shared, std::uint32_t member, std::size_t offset = 0) {
  return {shared.source[member] + offset, shared.pid[member], member};
}

memory::View target_of(const Shared& shared, std::uint32_t member, std::size_t offset = 0) {
  return {shared.target[member] + offset, shared.pid[member], member};
}

double elapsed_ns(std::uint64_t since) { return ns_from_ticks(ticks() - since); }

// --- copy: one core, by chunk size ---------------------------------------------------------------

enum class Way { own, one_end, third_party };

const char* name_of(Way way) {
  if (way == Way::own) return "own";
  return way == Way::one_end ? "one end" : "third party";
}

// Copies kCopyBytes bytes once, chunk by chunk; called by the first member. In the ways `one_end`
// and `third_party`, one or both of the buffers belong to the last member, another process.
Status copy_message(const Member& member, Buffers& buffers, Way way, std::size_t chunk) {
  const Shared& shared = member.shared();
  const std::uint32_t other = member.members() - 1;
  const std::uint32_t from = way == Way::own ? member.index() : other;
  const std::uint32_t to = way == Way::third_party ? other : member.index();
  for (std::size_t at = 0; at < kCopyBytes; at += chunk) {
    const Status status = memory::Reach().copy(target_of(shared, to, at),
                                               source_of(shared, from, at), chunk, buffers.scratch);
    if (!status) return status;
  }
  return {};
}

Status measure_copy(const Member& member, Buffers& buffers, Way way, std::size_t chunk,
                    const Effort& effort) {
  Samples rates;
  for (int batch = 0; batch < effort.batches; ++batch) {
    const std::uint64_t start = ticks();
    double spent = 0;
    std::size_t bytes = 0;
    do {
      const Status status = copy_message(member, buffers, way, chunk);
      if (!status) return status;
      bytes += kCopyBytes;
      spent = elapsed_ns(start);
    } while (spent < effort.batch_ns);
    rates.add(static_cast<double>(bytes) / spent);
  }
  rates.print(text_field("kind", "copy") + ", " + text_field("way", name_of(way)) +
              field("chunk", chunk));
  return {};
}

std::vector<std::size_t> copy_chunks() {
  std::vector<std::size_t> chunks;
  for (std::size_t chunk = 4 * kKiB; chunk <= 4 * kMiB; chunk *= 2) chunks.push_back(chunk);
  return chunks;
}

// Measures and prints the rate of every way to copy. Returns false if the team has only one member,
// which cannot copy from or to another process, or if the kernel refuses a copy.
bool measure_copies(const Member& member, Buffers& buffers, const Effort& effort) {
  for (const Way way : {Way::own, Way::one_end, Way::third_party}) {
    if (way != Way::own && member.members() < 2) return false;
    for (const std::size_t chunk : copy_chunks()) {
      const Status status = measure_copy(member, buffers, way, chunk, effort);
      if (status) continue;
      std::printf("{%s, %s}\n", text_field("kind", "refused").c_str(),
                  text_field("why", describe(status.code)).c_str());
      std::fflush(stdout);
      return false;
    }
  }
  return true;
}

// Measures the table `copy`. The first member measures, and the others wait in the barrier. Sets
// `choice` in the shared memory to 1 if all ways to copy work, else to 0. Returns false if a member
// has died.
bool copy_table(Member& member, Buffers& buffers, const Effort& effort) {
  if (member.first()) member.shared().choice = measure_copies(member, buffers, effort) ? 1 : 0;
  return member.barrier();
}

// --- saturation: cores of one NUMA node together -------------------------------------------------

double copy_for(Buffers& buffers, std::size_t bytes, double ns) {
  const std::uint64_t start = ticks();
  double spent = 0;
  std::size_t copied = 0;
  do {
    std::memcpy(buffers.target, buffers.source, bytes);
    asm volatile("" : : "r"(buffers.target) : "memory");  // the compiler must keep the copy
    copied += bytes;
    spent = elapsed_ns(start);
  } while (spent < ns);
  return static_cast<double>(copied) / spent;
}

// The members on one NUMA node, [begin, end) by index, and their guest: a member on another NUMA
// node, which copies within the memory of this NUMA node. The guest of the last NUMA node is member
// 0, so `guest` equals `begin` if there is only one NUMA node.
struct NumaTeam {
  std::uint32_t begin;
  std::uint32_t end;
  std::uint32_t guest;
  std::uint16_t numa;
};

std::vector<NumaTeam> numa_teams(std::span<const Place> places) {
  std::vector<NumaTeam> teams;
  const auto count = static_cast<std::uint32_t>(places.size());
  for (std::uint32_t begin = 0, end = 0; begin < count; begin = end) {
    while (end < count && places[end].numa == places[begin].numa) ++end;
    teams.push_back({begin, end, end < count ? end : 0, places[begin].numa});
  }
  return teams;
}

// Memory that all members map, for the copies of the guest: a member on another NUMA node than the
// measured one. Each page is on the NUMA node of its first writer.
struct GuestMemory {
  std::byte* bytes;  // kSaturationBytes to read, and as many to write

  [[nodiscard]] Buffers buffers() const { return {bytes, bytes + kSaturationBytes, {}}; }
};

// The first `copiers` members of a NUMA node copy at the same time. If `guests` is 1, the guest, a
// member on another NUMA node, copies as well. All other members wait in the barrier. The first
// member prints the sum of the rates. Returns false if a member has died.
bool measure_together(Member& member, Buffers& buffers, const GuestMemory& memory,
                      const NumaTeam& team, std::uint32_t copiers, std::uint32_t guests,
                      const Effort& effort) {
  Shared& shared = member.shared();
  Samples sums;
  Buffers guest_buffers = memory.buffers();
  const bool is_guest = guests == 1 && member.index() == team.guest;
  const bool is_copier = member.index() >= team.begin && member.index() < team.begin + copiers;
  for (int batch = 0; batch < effort.batches; ++batch) {
    if (!member.barrier()) return false;
    if (is_guest || is_copier) {
      shared.rate[member.index()] =
          copy_for(is_guest ? guest_buffers : buffers, kSaturationBytes, effort.batch_ns);
    }
    if (!member.barrier()) return false;
    double sum = guests == 1 ? shared.rate[team.guest] : 0;
    for (std::uint32_t i = team.begin; i < team.begin + copiers; ++i) sum += shared.rate[i];
    sums.add(sum);
  }
  if (!member.first()) return true;
  sums.print(text_field("kind", "saturation") + field("numa", team.numa) +
             field("copiers", copiers) + field("guests", guests));
  return true;
}

// Moves the guest's memory to the NUMA node of `team`: the first member of `team` writes the pages,
// which places them there. All members call. Returns false if a member has died.
bool place_guest_memory(Member& member, const NumaTeam& team, const GuestMemory& memory) {
  if (!member.barrier()) return false;
  if (member.index() == team.begin) {
    // MADV_REMOVE frees the pages, which are on the NUMA node of the team that was measured before
    // this one. If it fails, the pages stay on that node.
    static_cast<void>(::madvise(memory.bytes, 2 * kSaturationBytes, MADV_REMOVE));
    std::memset(memory.bytes, 1, 2 * kSaturationBytes);
  }
  return member.barrier();
}

bool saturation_table(Member& member, Buffers& buffers, const GuestMemory& memory,
                      std::span<const Place> places, const Effort& effort) {
  for (const NumaTeam& team : numa_teams(places)) {
    const std::uint32_t most_guests = team.guest != team.begin ? 1 : 0;
    if (most_guests == 1 && !place_guest_memory(member, team, memory)) return false;
    for (std::uint32_t copiers = 1; copiers <= team.end - team.begin; ++copiers) {
      for (std::uint32_t guests = 0; guests <= most_guests; ++guests) {
        if (!measure_together(member, buffers, memory, team, copiers, guests, effort)) return false;
      }
    }
  }
  return true;
}

// --- transfer: one message from the second member to the first -----------------------------------

struct Transfer {
  std::size_t bytes;
  std::size_t chunk;
};

// A ring of cells, in memory that the members share. The sender fills cells and counts them in
// `filled`; the receiver drains cells and counts them in `drained`.
struct Cells {
  alignas(kCacheLine) std::atomic<std::uint64_t> filled{0};
  alignas(kCacheLine) std::atomic<std::uint64_t> drained{0};
  alignas(kCacheLine) std::byte data[kCells][kCellBytes];
};

void work_on(steal::Job& job) {
  const memory::Reach reach;
  steal::Chunk chunk{};
  while (job.claim(chunk)) {
    memory::View to = job.work().to;
    memory::View from = job.work().from;
    to.address += chunk.offset;
    from.address += chunk.offset;
    job.finish(reach.copy(to, from, chunk.bytes, {}).ok());
  }
}

// The steps of sender and receiver for a message, in the three ways readv, cells and shared (a
// job). Each member has its own object. `count` is the number of the message, from 1. A function
// returns false if the other member has died or a copy failed; the caller then ends.
class Pair {
 public:
  Pair(Member& member, Buffers& buffers, Cells& cells)
      : shared_(member.shared()), buffers_(buffers), cells_(cells) {}

  // Steps before and after every message, which the times exclude. The receiver says that it has
  // read the previous message (prepare). Then the sender writes the message (write_message). After
  // the transfer, the receiver reads the message (use).
  bool prepare(std::uint64_t count) {
    shared_.ready.store(count, std::memory_order_release);  // pairs with await()
    return true;
  }
  bool write_message(const Transfer& transfer, std::uint64_t count) {
    if (!await(shared_.ready, count)) return false;
    std::memset(buffers_.source, static_cast<int>(count % 251), transfer.bytes);
    return true;
  }
  // The receiver reads the message, as a program does. Returns false if the first and the last byte
  // differ. The message is then wrong, since the sender fills it with one value.
  bool use(const Transfer& transfer) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(buffers_.target);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < transfer.bytes / sizeof *words; ++i) sum ^= words[i];
    asm volatile("" : : "r"(sum) : "memory");  // the compiler must keep the reads
    return buffers_.target[0] == buffers_.target[transfer.bytes - 1];
  }

  bool send_by_readv(const Transfer& /*unused*/, std::uint64_t count) {
    announce(count);
    return await(shared_.completed, count);
  }
  bool receive_by_readv(const Transfer& transfer, std::uint64_t count) {
    if (!await(shared_.announced, count)) return false;
    const bool done =
        memory::read_remote(buffers_.target, source_of(shared_, 1), transfer.bytes).ok();
    complete(count);
    return done;
  }

  bool send_by_cells(const Transfer& transfer, std::uint64_t count) {
    announce(count);
    for (std::size_t at = 0; at < transfer.bytes; at += kCellBytes, ++cell_) {
      if (cell_ >= kCells && !await(cells_.drained, cell_ - kCells + 1)) return false;
      std::memcpy(cells_.data[cell_ % kCells], buffers_.source + at,
                  std::min(kCellBytes, transfer.bytes - at));
      cells_.filled.store(cell_ + 1, std::memory_order_release);  // pairs with await()
    }
    return await(shared_.completed, count);
  }
  bool receive_by_cells(const Transfer& transfer, std::uint64_t count) {
    if (!await(shared_.announced, count)) return false;
    for (std::size_t at = 0; at < transfer.bytes; at += kCellBytes, ++cell_) {
      if (!await(cells_.filled, cell_ + 1)) return false;
      std::memcpy(buffers_.target + at, cells_.data[cell_ % kCells],
                  std::min(kCellBytes, transfer.bytes - at));
      cells_.drained.store(cell_ + 1, std::memory_order_release);  // pairs with await()
    }
    complete(count);
    return true;
  }

  bool send_shared(const Transfer& /*unused*/, std::uint64_t count) {
    announce(count);
    return until([&] {
      if (shared_.job.has_work()) work_on(shared_.job);
      return shared_.completed.load(std::memory_order_acquire) >= count;  // pairs with complete()
    });
  }
  bool receive_shared(const Transfer& transfer, std::uint64_t count) {
    if (!await(shared_.announced, count)) return false;
    shared_.job.open({target_of(shared_, 0), source_of(shared_, 1), transfer.bytes,
                      static_cast<std::uint32_t>(transfer.chunk), steal::CopyOrder::low_to_high});
    work_on(shared_.job);
    if (!until([&] { return shared_.job.finished(); })) return false;
    complete(count);
    return !shared_.job.failed();
  }

 private:
  template <class Done>
  bool until(Done done) {
    constexpr std::uint64_t kLookAround = 1U << 16U;
    for (std::uint64_t turns = 1; !done(); ++turns) {
      spin_pause();
      // relaxed: the parent sets the flag when a member has died, and publishes no data by it.
      if (turns % kLookAround == 0 && shared_.abandoned.load(std::memory_order_relaxed)) {
        return false;
      }
    }
    return true;
  }
  // Waits until the other member has counted to `value`. Returns false if a member has died.
  // acquire: pairs with the other member's release store of `counter`, whose earlier writes are
  // then visible.
  bool await(const std::atomic<std::uint64_t>& counter, std::uint64_t value) {
    return until([&] { return counter.load(std::memory_order_acquire) >= value; });
  }
  // The sender says that message `count` may be received. release: publishes the message's bytes
  // and `choice` (messages in a batch); pairs with the receiver's await().
  void announce(std::uint64_t count) { shared_.announced.store(count, std::memory_order_release); }
  // The receiver says that it has received message `count`. release: the received bytes come before
  // the count; pairs with the sender's await() and send_shared().
  void complete(std::uint64_t count) { shared_.completed.store(count, std::memory_order_release); }

  Shared& shared_;
  Buffers& buffers_;
  Cells& cells_;
  std::uint64_t cell_ = 0;  // number of the next cell of this member, counted over all messages
};

using Step = bool (Pair::*)(const Transfer&, std::uint64_t);

struct Method {
  const char* name;
  Step send;
  Step receive;
};

constexpr Method kReadv{"readv", &Pair::send_by_readv, &Pair::receive_by_readv};
constexpr Method kByCells{"cells", &Pair::send_by_cells, &Pair::receive_by_cells};
constexpr Method kShared{"shared", &Pair::send_shared, &Pair::receive_shared};

// Times messages from the second member of the team, the sender, to the first. Both members call
// measure(); the sender reads the clock.
class Courier {
 public:
  Courier(Member& member, Buffers& buffers, Cells& cells, const Effort& effort)
      : member_(member), pair_(member, buffers, cells), effort_(effort) {}

  bool measure(const Method& method, const Transfer& transfer) {
    Samples times;
    const std::uint32_t messages = agree(method, transfer);
    if (messages == 0) return false;
    for (int batch = 0; batch < effort_.batches; ++batch) {
      std::uint64_t spent = 0;
      for (std::uint32_t i = 0; i < messages; ++i) {
        if (!one_message(method, transfer, spent)) return false;
      }
      times.add(ns_from_ticks(spent) / messages);
    }
    if (!sends()) return true;
    times.print(text_field("kind", "transfer") + ", " + text_field("way", method.name) +
                field("bytes", transfer.bytes) + field("chunk", transfer.chunk));
    return true;
  }

 private:
  [[nodiscard]] bool sends() const { return member_.index() == 1; }

  // Moves a message: the second member sends, and the first receives and reads. At the sender, adds
  // the clock ticks until completion to `spent`.
  bool one_message(const Method& method, const Transfer& transfer, std::uint64_t& spent) {
    ++count_;
    if (!sends())
      return pair_.prepare(count_) && (pair_.*method.receive)(transfer, count_) &&
             pair_.use(transfer);
    if (!pair_.write_message(transfer, count_)) return false;
    const std::uint64_t start = ticks();
    const bool sent = (pair_.*method.send)(transfer, count_);
    spent += ticks() - start;
    return sent;
  }

  // Exchanges a few messages to warm up. Returns the number of messages in a batch, which the
  // sender computes for both members, or 0 after a failure.
  std::uint32_t agree(const Method& method, const Transfer& transfer) {
    constexpr int kWarmUps = 3;
    std::uint64_t spent = 0;
    const std::uint64_t start = ticks();
    for (int i = 0; i < kWarmUps; ++i) {
      if (!one_message(method, transfer, spent)) return 0;
    }
    const double each = elapsed_ns(start) / kWarmUps;
    if (sends()) {
      member_.shared().choice = std::max(2U, static_cast<std::uint32_t>(effort_.batch_ns / each));
    }
    // The sender passes the number of messages to the receiver in `choice`. It writes `choice`
    // before it announces the next message, and the receiver reads `choice` after that message.
    return one_message(method, transfer, spent) ? member_.shared().choice : 0;
  }

  Member& member_;
  Pair pair_;
  const Effort& effort_;
  std::uint64_t count_ = 0;
};

std::vector<std::size_t> transfer_sizes(const Effort& effort) {
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = 8 * kKiB; bytes <= effort.largest; bytes *= 2) sizes.push_back(bytes);
  return sizes;
}

std::vector<std::size_t> transfer_chunks(std::size_t bytes) {
  std::vector<std::size_t> chunks;
  for (std::size_t chunk = 4 * kKiB; chunk <= std::min(bytes, 512 * kKiB); chunk *= 2) {
    chunks.push_back(chunk);
  }
  return chunks;
}

bool transfer_table(Member& member, Buffers& buffers, Cells& cells, const Effort& effort) {
  Courier courier(member, buffers, cells, effort);
  for (const std::size_t bytes : transfer_sizes(effort)) {
    if (!courier.measure(kReadv, {bytes, 0})) return false;
    if (!courier.measure(kByCells, {bytes, 0})) return false;
    for (const std::size_t chunk : transfer_chunks(bytes)) {
      if (!courier.measure(kShared, {bytes, chunk})) return false;
    }
  }
  return true;
}

// --- measuring all three tables: copy, saturation, transfer --------------------------------------

std::size_t lines_to_come(std::span<const Place> places, const Effort& effort) {
  const std::size_t with_guests = numa_teams(places).size() > 1 ? 2 : 1;
  std::size_t lines =
      copy_chunks().size() * (places.size() > 1 ? 3 : 1) + with_guests * places.size();
  if (places.size() < 2) return lines;
  for (const std::size_t bytes : transfer_sizes(effort)) lines += 2 + transfer_chunks(bytes).size();
  return lines;
}

void print_plan(std::span<const Place> places, const Effort& effort) {
  std::printf("{\"kind\": \"plan\", \"lines\": %zu, \"cpus\": [", lines_to_come(places, effort));
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::printf("%s[%d, %u]", i == 0 ? "" : ", ", places[i].cpu, unsigned{places[i].numa});
  }
  std::printf("]}\n");
  std::fflush(stdout);
}

// Runs the measurements of all tables in one member. Returns false if the member must end with an
// error.
bool measure_all(Member& member, std::span<const Place> places, Cells& cells,
                 const GuestMemory& memory, const Effort& effort) {
  Buffers buffers{allocate(kSaturationBytes), allocate(kSaturationBytes),
                  std::vector<std::byte>(kScratchBytes)};
  if (buffers.source == nullptr || buffers.target == nullptr) {
    std::fprintf(stderr, "mh-tune: not enough memory for 64 MB per core\n");
    return false;
  }
  Shared& shared = member.shared();
  shared.pid[member.index()] = ::getpid();
  shared.source[member.index()] = reinterpret_cast<std::uint64_t>(buffers.source);
  shared.target[member.index()] = reinterpret_cast<std::uint64_t>(buffers.target);
  if (member.first()) print_plan(places, effort);
  if (!member.barrier() || !copy_table(member, buffers, effort)) return false;
  const bool reachable = shared.choice == 1;
  if (!saturation_table(member, buffers, memory, places, effort) || !member.barrier()) return false;
  if (reachable && member.index() < 2 && !transfer_table(member, buffers, cells, effort)) {
    return false;
  }
  return member.barrier();
}

int usage() {
  std::fprintf(stderr, "usage: mh-tune [--quick]   (internal; use `mh tune`)\n");
  return 2;
}

int run(const Effort& effort) {
  const std::vector<Place> cpus = places();
  void* const ring = allocate_shared(sizeof(Cells));
  const GuestMemory memory{static_cast<std::byte*>(allocate_shared(2 * kSaturationBytes))};
  if (ring == nullptr || memory.bytes == nullptr || cpus.empty()) {
    std::fprintf(stderr, "mh-tune: cannot get shared memory, or found no usable CPU\n");
    return 1;
  }
  auto& cells = *new (ring) Cells;
  return run_team(cpus, [&](Member& member) {
    return measure_all(member, cpus, cells, memory, effort) ? 0 : 1;
  });
}

}  // namespace
}  // namespace mh::tune

int main(int argc, char** argv) {
  if (argc == 1) return mh::tune::run(mh::tune::kThorough);
  if (argc == 2 && std::strcmp(argv[1], "--quick") == 0) return mh::tune::run(mh::tune::kQuick);
  return mh::tune::usage();
}
