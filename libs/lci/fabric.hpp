// SPDX-License-Identifier: BSD-3-Clause
// The transport over libfabric: reliable datagram endpoints with FI_MSG and FI_RMA. Tested with the
// providers `shm` and TCP, TCP alone (`net` of libfabric 1.17, `tcp` of 2.5) and below `ofi_rxm`;
// providers for RDMA networks run the same code, untested.
//
// Limits: immediate data of 8 bytes (a provider with fewer is not used), no FI_MR_ENDPOINT, no
// FI_RX_CQ_DATA. Thread-safety: the provider's locks (FI_THREAD_SAFE).
#pragma once

#include <memory>

#include "lci/transport.hpp"
#include "manyhands/lci/device.hpp"

namespace mh::lci::detail {

// Opens the libfabric transport of a device. Collective over the job, which must outlive the
// transport. Errors: as Device::open().
Result<std::unique_ptr<Transport>> open_fabric(Job& job, const DeviceConfig& config);

// Collective, for jobs whose ranks are all on one node and so need no network. Checks that the
// provider which the user has named exists at all ranks, as in jobs on several nodes.
// `unsupported`: a rank lacks the provider; `mismatch`: the ranks name different providers.
Status check_fabric(Job& job, const DeviceConfig& config);

}  // namespace mh::lci::detail
