// SPDX-License-Identifier: BSD-3-Clause
// The transport of fabric.hpp, which carries messages over the library libfabric.
#include "lci/fabric.hpp"

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "lci/job_state.hpp"

namespace mh::lci::detail {
namespace {

struct Close {
  void operator()(fid_fabric* x) const { ::fi_close(&x->fid); }
  void operator()(fid_domain* x) const { ::fi_close(&x->fid); }
  void operator()(fid_ep* x) const { ::fi_close(&x->fid); }
  void operator()(fid_cq* x) const { ::fi_close(&x->fid); }
  void operator()(fid_av* x) const { ::fi_close(&x->fid); }
  void operator()(fid_mr* x) const { ::fi_close(&x->fid); }
  void operator()(fi_info* x) const { ::fi_freeinfo(x); }
};
template <class T>
using Owned = std::unique_ptr<T, Close>;

constexpr int kVersion = FI_VERSION(1, 11);  // the interface of libfabric that this file uses

Code code_of(std::int64_t status) {
  switch (-status) {
    case 0:
      return Code::ok;
    case FI_EAGAIN:
    case FI_ENOMEM:
    case FI_ENOBUFS:
      return Code::full;
    case FI_ECONNREFUSED:
    case FI_ECONNRESET:
    case FI_ECONNABORTED:
    case FI_ENOTCONN:
    case FI_ESHUTDOWN:
    case FI_EHOSTUNREACH:
    case FI_ETIMEDOUT:
    case EPIPE:
      return Code::gone;
    default:
      return Code::system;
  }
}

// Returns the libfabric object that `make` opens; nullptr: `make` has failed.
template <class T, class Make>
Owned<T> opened(Make make) {
  T* object = nullptr;
  return Owned<T>(make(&object) == 0 ? object : nullptr);
}

Owned<fi_info> find_provider(const std::string& name) {
  const Owned<fi_info> hints(::fi_allocinfo());
  if (hints == nullptr) return nullptr;
  hints->caps = FI_MSG | FI_RMA;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->domain_attr->threading = FI_THREAD_SAFE;
  // The thread in poll() advances the provider's transfers, so the provider needs no thread of its
  // own.
  hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->domain_attr->cq_data_size = sizeof(std::uint64_t);
  hints->fabric_attr->prov_name = ::strdup(name.c_str());  // freed with `hints`
  fi_info* found = nullptr;
  if (::fi_getinfo(kVersion, nullptr, nullptr, 0, hints.get(), &found) != 0) return nullptr;
  return Owned<fi_info>(found);
}

// The names of libfabric's TCP provider for reliable datagrams without the layer rxm above it:
// `net` in libfabric 1.16 and 1.17, `tcp` in later versions. In earlier versions `tcp` works below
// rxm only.
constexpr std::array<const char*, 2> kDirectTcp = {"net", "tcp"};

bool is_direct_tcp(const fi_info& info) {
  const std::string_view name = info.fabric_attr->prov_name;
  return std::find(kDirectTcp.begin(), kDirectTcp.end(), name) != kDirectTcp.end();
}

// Returns the name of the TCP provider that needs no rxm above it (kDirectTcp); empty: this
// libfabric has none.
std::string direct_tcp() {
  for (const char* name : kDirectTcp) {
    const Owned<fi_info> info = find_provider(name);
    if (info != nullptr && is_direct_tcp(*info)) return info->fabric_attr->prov_name;
  }
  return {};
}

}  // namespace

class Fabric final : public Transport {
 public:
  Fabric(JobState& job, Owned<fi_info> info) : job_(job), info_(std::move(info)) {}

  // Opens the libfabric endpoint and returns its address for the peers; empty: the opening has
  // failed.
  std::string start() {
    fabric_ =
        opened<fid_fabric>([&](auto** x) { return ::fi_fabric(info_->fabric_attr, x, nullptr); });
    if (fabric_ == nullptr) return {};
    domain_ = opened<fid_domain>(
        [&](auto** x) { return ::fi_domain(fabric_.get(), info_.get(), x, nullptr); });
    if (domain_ == nullptr) return {};
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_DATA;
    queue.size = std::size_t{1} << 14U;
    cq_ = opened<fid_cq>([&](auto** x) { return ::fi_cq_open(domain_.get(), &queue, x, nullptr); });
    fi_av_attr table{};
    table.type = FI_AV_TABLE;
    table.count = static_cast<std::size_t>(size());
    av_ = opened<fid_av>([&](auto** x) { return ::fi_av_open(domain_.get(), &table, x, nullptr); });
    ep_ = opened<fid_ep>(
        [&](auto** x) { return ::fi_endpoint(domain_.get(), info_.get(), x, nullptr); });
    const bool bound = cq_ != nullptr && av_ != nullptr && ep_ != nullptr &&
                       ::fi_ep_bind(ep_.get(), &cq_->fid, FI_TRANSMIT | FI_RECV) == 0 &&
                       ::fi_ep_bind(ep_.get(), &av_->fid, 0) == 0 && ::fi_enable(ep_.get()) == 0;
    if (!bound) return {};
    std::string address(256, '\0');
    std::size_t length = address.size();
    if (::fi_getname(&ep_->fid, address.data(), &length) != 0) return {};
    address.resize(length);
    return address;
  }

  bool insert(const std::vector<std::string>& addresses) {
    addresses_ = addresses;
    peers_.resize(addresses.size());
    reported_.resize(addresses.size());
    for (std::size_t i = 0; i < addresses.size(); ++i) {
      if (::fi_av_insert(av_.get(), addresses[i].data(), 1, &peers_[i], 0, nullptr) != 1) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] int rank() const override { return job_.rank(); }
  [[nodiscard]] int size() const override { return job_.size(); }
  [[nodiscard]] std::size_t inject_limit(int /*rank*/) const override {
    return info_->tx_attr->inject_size;
  }

  // The most receives posted at a time. The TCP provider without rxm keeps receives in a list,
  // without the limit of rx_attr->size.
  [[nodiscard]] std::size_t post_limit() const override {
    return is_direct_tcp(*info_) ? SIZE_MAX : info_->rx_attr->size;
  }

  Status attach(std::span<std::byte> packets) override {
    if ((info_->domain_attr->mr_mode & FI_MR_LOCAL) == 0) return {};
    packets_ = register_memory(packets, FI_SEND | FI_RECV);
    return {packets_ == nullptr ? Code::system : Code::ok};
  }

  Code inject(int rank, Header header, std::span<const std::byte> data) override {
    return code_of(::fi_injectdata(ep_.get(), data.data(), data.size(), header.pack(), at(rank)));
  }
  Code send(int rank, Header header, std::span<const std::byte> payload,
            NetContext& context) override {
    context.use = NetContext::Use::send;
    return code_of(::fi_senddata(ep_.get(), payload.data(), payload.size(), packet_descriptor(),
                                 header.pack(), at(rank), &context));
  }
  Code post(std::span<std::byte> payload, NetContext& context, bool /*near*/) override {
    context.use = NetContext::Use::receive;
    return code_of(::fi_recv(ep_.get(), payload.data(), payload.size(), packet_descriptor(),
                             FI_ADDR_UNSPEC, &context));
  }

  Result<Region> add(int /*rank*/, std::span<std::byte> memory, bool writable) override {
    const auto mode = static_cast<std::uint64_t>(info_->domain_attr->mr_mode);
    if (!writable && (mode & FI_MR_LOCAL) == 0) return Region{};
    Owned<fid_mr> mr = register_memory(memory, writable ? FI_REMOTE_WRITE : FI_WRITE);
    if (mr == nullptr) return Status{Code::full};
    const bool absolute = (mode & FI_MR_VIRT_ADDR) != 0;
    Region region;
    region.address = absolute ? reinterpret_cast<std::uint64_t>(memory.data()) : 0;
    region.key = ::fi_mr_key(mr.get());
    region.descriptor = ::fi_mr_desc(mr.get());
    region.handle = mr.release();
    return region;
  }
  void remove(Region& region) override {
    const Owned<fid_mr> mr(static_cast<fid_mr*>(region.handle));
    region = {};
  }

  Code put(int rank, Put& put, NetContext& context) override {
    context.use = NetContext::Use::put;
    return code_of(::fi_writedata(ep_.get(), put.data, put.size, put.descriptor,
                                  put.immediate.pack(), at(rank), put.address, put.key, &context));
  }

  std::size_t poll(std::span<NetEvent> events) override {
    fi_cq_data_entry entries[kEntries];
    const std::size_t wanted = std::min(events.size(), std::size_t{kEntries});
    const auto count = ::fi_cq_read(cq_.get(), entries, wanted);
    if (count == -FI_EAVAIL) return take_error(events[0]) ? 1 : 0;
    if (count <= 0) return report_deaths(events[0]) ? 1 : 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      events[i] = event_of(entries[i]);
    }
    return static_cast<std::size_t>(count);
  }

 private:
  static constexpr std::size_t kEntries = 32;

  [[nodiscard]] fi_addr_t at(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] void* packet_descriptor() const {
    return packets_ == nullptr ? nullptr : ::fi_mr_desc(packets_.get());
  }

  Owned<fid_mr> register_memory(std::span<std::byte> memory, std::uint64_t access) {
    // For providers that do not choose the key of a registered region themselves: each key is used
    // once. relaxed: the number publishes no other data.
    const std::uint64_t key = next_key_.fetch_add(1, std::memory_order_relaxed);
    return opened<fid_mr>([&](auto** x) {
      return ::fi_mr_reg(domain_.get(), memory.data(), memory.size(), access, 0, key, 0, x,
                         nullptr);
    });
  }

  static NetEvent event_of(const fi_cq_data_entry& entry) {
    auto* context = static_cast<NetContext*>(entry.op_context);
    const Header header = Header::unpack(entry.data);
    using What = NetEvent::Kind;
    if ((entry.flags & FI_RECV) != 0) return {What::arrived, Code::ok, header, entry.len, context};
    if ((entry.flags & FI_REMOTE_WRITE) != 0) {
      return {What::put_arrived, Code::ok, header, entry.len, nullptr};
    }
    const bool put = context->use == NetContext::Use::put;
    return {put ? What::put_done : What::sent, Code::ok, {}, 0, context};
  }

  bool take_error(NetEvent& event) {
    fi_cq_err_entry error{};
    if (::fi_cq_readerr(cq_.get(), &error, 0) != 1) return false;
    auto* context = static_cast<NetContext*>(error.op_context);
    if (context == nullptr)
      return false;  // a connection has failed; its operations report errors, too
    const bool posted = context->use == NetContext::Use::receive;
    const Code code = code_of(-error.err);
    event = {posted ? NetEvent::Kind::unposted : NetEvent::Kind::failed,
             code == Code::full ? Code::system : code,
             {},
             0,
             context};
    return true;
  }

  // Called after a poll without events. Writes the event `gone` for one rank that the job knows to
  // be dead and that has not been reported yet. False: there is no such rank.
  bool report_deaths(NetEvent& event) {
    if (job_.deaths() == deaths_) return false;
    for (std::size_t i = 0; i < reported_.size(); ++i) {
      const int rank = static_cast<int>(i);
      if (reported_[i] || job_.alive(rank)) continue;
      reported_[i] = true;
      ++deaths_;
      remove_segment(addresses_[i].c_str());
      event = {NetEvent::Kind::gone, Code::gone, {PacketKind::eager, 0, rank, 0}, 0, nullptr};
      return true;
    }
    return false;
  }

  // Removes the shared memory that a dead rank has left behind. The shm provider names the memory
  // of a rank after the rank's address, and only the rank itself removes that name. shm_unlink()
  // fails harmlessly if another rank was first.
  static void remove_segment(const std::string& address) {
    const std::string prefix = "fi_shm://";
    if (address.starts_with(prefix)) ::shm_unlink(('/' + address.substr(prefix.size())).c_str());
  }

  JobState& job_;
  // The objects of libfabric, in the order in which start() opens them; the destructor closes the
  // last object first.
  Owned<fi_info> info_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_cq> cq_;
  Owned<fid_av> av_;
  Owned<fid_mr> packets_;
  Owned<fid_ep> ep_;
  std::vector<fi_addr_t> peers_;
  std::vector<std::string> addresses_;
  std::atomic<std::uint64_t> next_key_{1};
  // The deaths that have been reported as events. Only the thread in poll() uses these fields.
  std::vector<bool> reported_;
  unsigned deaths_ = 0;
};

namespace {

// Returns libfabric's name of the provider that a user calls `name`. `direct`: the name under which
// libfabric has TCP without rxm on all ranks; empty: the names differ, or a rank has none.
std::string provider_name(const std::string& name, const std::string& direct) {
  if (name == "tcp") return direct.empty() ? "tcp;ofi_rxm" : direct;
  return name == "verbs" ? "verbs;ofi_rxm" : name;
}

// The provider that the user has chosen, in the configuration or by MH_LCI_PROVIDER; empty: none.
std::string wanted_provider(const DeviceConfig& config) {
  const char* environment = std::getenv("MH_LCI_PROVIDER");
  return !config.provider.empty() || environment == nullptr ? config.provider : environment;
}

// Collective. Returns the provider that all ranks use: the user's, or else shm on one machine and
// tcp on several.
Result<std::string> choose_provider(Job& job, const DeviceConfig& config) {
  const std::string wanted = wanted_provider(config);
  const std::string direct = direct_tcp();
  const auto machines = job.allgather(wanted + '\n' + this_machine());
  if (!machines) return machines.status();
  const auto directs = job.allgather(direct);
  if (!directs) return directs.status();
  const auto agree = [](const std::vector<std::string>& all) {
    return std::all_of(all.begin(), all.end(), [&](const auto& one) { return one == all.front(); });
  };
  const std::string common = agree(*directs) ? direct : "";
  if (!wanted.empty()) return provider_name(wanted, common);
  return provider_name(agree(*machines) ? "shm" : "tcp", common);
}

// Returns the provider and the configured sizes as a text. The ranks compare their texts, which
// must be equal.
std::string contract(const std::string& provider, const DeviceConfig& c) {
  return provider + ' ' + std::to_string(c.packet_bytes) + ' ' + std::to_string(c.receive_packets) +
         ' ' + std::to_string(c.large_messages);
}

}  // namespace

Status check_fabric(Job& job, const DeviceConfig& config) {
  const std::string wanted = wanted_provider(config);
  const bool found = wanted.empty() || find_provider(provider_name(wanted, "")) != nullptr;
  const auto all = job.allgather((found ? "+" : "-") + wanted);
  if (!all) return all.status();
  for (const std::string& other : *all) {
    if (other.substr(1) != wanted) return {Code::mismatch};
  }
  const bool everywhere =
      std::all_of(all->begin(), all->end(), [](const auto& other) { return other[0] == '+'; });
  return {everywhere ? Code::ok : Code::unsupported};
}

Result<std::unique_ptr<Transport>> open_fabric(Job& job, const DeviceConfig& config) {
  const Result<std::string> provider = choose_provider(job, config);
  if (!provider) return provider.status();
  Owned<fi_info> info = find_provider(*provider);
  std::unique_ptr<Fabric> fabric;
  std::string address;
  if (info != nullptr) {
    fabric = std::make_unique<Fabric>(job.state(), std::move(info));
    address = fabric->start();
  }
  const auto contracts = job.allgather(contract(*provider, config));
  const auto addresses = job.allgather(address);
  if (!contracts || !addresses) return Status{Code::gone};
  for (const std::string& other : *contracts) {
    if (other != contracts->front()) return Status{Code::mismatch};
  }
  for (const std::string& other : *addresses) {
    if (other.empty()) return Status{Code::unsupported};
  }
  if (!fabric->insert(*addresses)) return Status{Code::system};
  return std::unique_ptr<Transport>(std::move(fabric));
}

}  // namespace mh::lci::detail
