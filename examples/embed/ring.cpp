// SPDX-License-Identifier: BSD-3-Clause
// Each process sends its rank by LCI to the next rank, without MPI and a launcher. Environment
// variables give the rank, the number of ranks, and the path where the ranks meet:
//   MH_LCI_RANK=0 MH_LCI_SIZE=2 MH_LCI_ROOT=$PWD/root ./ring & MH_LCI_RANK=1 ... ./ring
#include <cstdio>
#include <manyhands/lci.hpp>
#include <span>

namespace lci = mh::lci;

int main() {
  auto job = lci::Job::join();
  if (!job) return 1;
  auto device = lci::Device::open(*job);
  if (!device) return 1;
  auto all = lci::Communicator::open(*device);
  if (!all) return 1;
  const int sent = all->rank();
  int received = -1;
  const int next = (all->rank() + 1) % all->size();
  const int previous = (all->rank() + all->size() - 1) % all->size();
  if (!all->send(next, 0, std::as_bytes(std::span(&sent, 1)))) return 1;
  if (!all->receive(previous, 0, std::as_writable_bytes(std::span(&received, 1)))) return 1;
  if (all->rank() == 0) std::printf("rank 0 of %d received %d\n", all->size(), received);
  return all->barrier() ? 0 : 1;
}
