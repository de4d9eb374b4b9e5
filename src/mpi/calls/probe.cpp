// SPDX-License-Identifier: BSD-3-Clause
// Chapter 3 of the MPI standard, probes: MPI_Probe, Iprobe, Mprobe and Improbe.
//
// For a rendezvous message the library's status has the size of the RTS header, so the program gets
// a status with the size of its message.
#include "mpi/calls/completion.hpp"
#include "mpi/compat/message.hpp"
#include "mpi/job/switches.hpp"
#include "mpi/next.hpp"
#include "mpi/rndv/held_messages.hpp"
#include "mpi/rndv/unmatched_sends.hpp"
#include "mpi/wrappers.hpp"

namespace mh::mpi {
namespace {

// The arguments of a probe, and the message, if any, that its last look into the library has found.
struct Probe {
  int source;
  int tag;
  MPI_Comm comm;
  MPI_Status* users_status;
  MPI_Message* message;  // null for a probe that leaves the message in the library
  StatusOrOwn status{users_status};
  bool is_held = false;  // the message found is a held message (rndv/held_messages.hpp)
  int flag = 0;
  int code = MPI_SUCCESS;
};

// Looks for a message among those that an earlier probe has taken out of the library (held
// messages, held_messages.hpp), and then in the library. Between the two looks, no probe of another
// thread can take a message out of the library. True if there is a message, or an error.
bool look_in(rndv::MatchingStep::Kind kind, Probe& probe) {
  auto& [source, tag, comm, users_status, message, status, is_held, flag, code] = probe;
  const rndv::MatchingStep step(kind);
  is_held = rndv::report_held(source, tag, comm, users_status);
  if (is_held) {
    flag = 1;
    return true;
  }
  code = message == nullptr ? next.Iprobe(source, tag, comm, &flag, status.get())
                            : next.Improbe(source, tag, comm, &flag, message, status.get());
  return flag != 0 || code != MPI_SUCCESS;
}

// Makes one attempt to find a message, without waiting. Where many threads wait, the server thread
// may do this for the thread that has called the probe. True if there is a message, or an error.
bool look_once(Probe& probe) {
  using Kind = rndv::MatchingStep::Kind;
  rndv::note_probe();
  if (!look_in(Kind::shared, probe)) return false;
  if (!switches.threads || probe.message != nullptr || probe.is_held) return true;
  // Probes again while no other thread can receive (an exclusive step). Open MPI fills the status
  // after it has released its lock: by then another thread may have received the message, and the
  // first status may be that of another message.
  return look_in(Kind::exclusive, probe);
}

void report(Probe& probe) {
  MPI_Status* status = probe.status.get();
  const auto finding = rndv::identify_probed(probe.comm, *status);
  if (finding.kind == rndv::ProbeFinding::Kind::rendezvous) set_bytes(status, finding.bytes);
  if (finding.kind == rndv::ProbeFinding::Kind::unclear)
    probe.flag = rndv::hold_probed(probe.comm, status) ? 1 : 0;
}

void return_message(Probe& probe) {
  if (probe.is_held) {
    auto held = rndv::take_held(probe.source, probe.tag, probe.comm);
    probe.flag = held ? 1 : 0;
    if (held) rndv::return_as_matched(std::move(*held), probe.message, probe.users_status);
    return;
  }
  MPI_Status* status = probe.status.get();
  if (rndv::identify_probed(probe.comm, *status).kind != rndv::ProbeFinding::Kind::as_reported)
    rndv::hold_matched(probe.comm, probe.message, status);
}

// Corrects the result of a probe: the status gets the size of the program's message, and the handle
// of a matched probe stands for that message. False if another thread has received the message
// meanwhile.
bool complete(Probe& probe) {
  if (probe.code != MPI_SUCCESS) return true;
  if (probe.message != nullptr) {
    return_message(probe);
  } else if (!probe.is_held) {
    report(probe);
  }
  return probe.flag != 0;
}

// Probes once, and corrects the result. True if there is a message, or an error.
bool look_and_complete(Probe& probe) {
  while (look_once(probe)) {
    if (complete(probe)) return true;
  }
  return false;
}

int probe_once(Probe&& probe, int* flag) {
  if (!look_and_complete(probe) && note_failed_test())
    wait::help_if_polling([&] { return look_and_complete(probe); });
  *flag = probe.flag;
  return probe.code;
}

int probe_until_seen(Probe&& probe) {
  do {
    wait::until_shared([&] { return look_once(probe); });
  } while (!complete(probe));
  return probe.code;
}

}  // namespace
}  // namespace mh::mpi

#include "mpi/calls/probe.inc"
