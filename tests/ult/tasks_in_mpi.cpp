// SPDX-License-Identifier: BSD-3-Clause
// Light tasks of two ranks wait in MPI calls.
//
//   tasks-in-mpi waits CALL           one worker: a task of rank 0 makes CALL, which is over only
//                                     after another task of the same worker has sent a message
//   tasks-in-mpi pairs TASKS WORKERS ROUNDS   every task exchanges messages of all kinds with the
//                                     task of the same number
//
// Rank 0 prints "right" and whether tasks have parked. A wrong message ends the job.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <manyhands/ult.hpp>
#include <string>
#include <vector>

namespace {

namespace ult = mh::ult;

constexpr int kLong = 200'000;  // bytes; a rendezvous message
int rank;

void check(bool condition, const char* what) {
  if (condition) return;
  std::printf("rank %d: not so: %s\n", rank, what);
  std::fflush(stdout);
  MPI_Abort(MPI_COMM_WORLD, 3);
}

// --- waits: one call of each kind ---

enum : int { kGo = 1, kAnswer = 2 };

std::vector<char> buffer(kLong);

int receive() {
  MPI_Status status;
  MPI_Recv(buffer.data(), 8, MPI_BYTE, 1, kAnswer, MPI_COMM_WORLD, &status);
  return status.MPI_SOURCE == 1 && status.MPI_TAG == kAnswer && buffer[0] == 'a';
}
int receive_long() {
  MPI_Recv(buffer.data(), kLong, MPI_BYTE, 1, kAnswer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return buffer[0] == 'a' && buffer[kLong - 1] == 'z';
}
MPI_Request started() {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(buffer.data(), 8, MPI_BYTE, 1, kAnswer, MPI_COMM_WORLD, &request);
  return request;
}
int wait_one() {
  MPI_Request request = started();
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  return request == MPI_REQUEST_NULL && buffer[0] == 'a';
}
int wait_all() {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, started()};
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  return buffer[0] == 'a';
}
int wait_any() {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, started()};
  int index = -1;
  MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
  return index == 1 && buffer[0] == 'a';
}
int wait_some() {
  MPI_Request requests[2] = {MPI_REQUEST_NULL, started()};
  int count = 0;
  int indices[2] = {-1, -1};
  MPI_Waitsome(2, requests, &count, indices, MPI_STATUSES_IGNORE);
  return count == 1 && indices[0] == 1 && buffer[0] == 'a';
}
int probe() {
  MPI_Status status;
  int bytes = 0;
  MPI_Probe(MPI_ANY_SOURCE, kAnswer, MPI_COMM_WORLD, &status);
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  return bytes == 8 && receive();
}
int probe_matched() {
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Mprobe(1, kAnswer, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
  MPI_Mrecv(buffer.data(), 8, MPI_BYTE, &message, MPI_STATUS_IGNORE);
  return buffer[0] == 'a';
}
int send_receive() {
  char out = 'b';
  MPI_Sendrecv(&out, 1, MPI_BYTE, 1, kAnswer, buffer.data(), 8, MPI_BYTE, 1, kAnswer,
               MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return buffer[0] == 'a';
}
int send_synchronously() {
  MPI_Ssend("b", 1, MPI_BYTE, 1, kAnswer, MPI_COMM_WORLD);
  return 1;
}
int send_long() {
  MPI_Send(buffer.data(), kLong, MPI_BYTE, 1, kAnswer, MPI_COMM_WORLD);
  return 1;
}

struct Call {
  const char* name;
  int (*make)();
  int sent;      // bytes that rank 1 sends
  int received;  // bytes that rank 1 receives; 0: none
};
constexpr Call kCalls[] = {
    {"recv", receive, 8, 0},
    {"recv-long", receive_long, kLong, 0},
    {"wait", wait_one, 8, 0},
    {"waitall", wait_all, 8, 0},
    {"waitany", wait_any, 8, 0},
    {"waitsome", wait_some, 8, 0},
    {"probe", probe, 8, 0},
    {"mprobe", probe_matched, 8, 0},
    {"sendrecv", send_receive, 8, 1},
    {"ssend", send_synchronously, 0, 1},
    {"send-long", send_long, 0, kLong},
};

// The part of rank 1, an ordinary thread: it answers the call of rank 0's first task once the
// message of rank 0's other task has come.
void answer(const Call& call) {
  char go = 0;
  MPI_Recv(&go, 1, MPI_BYTE, 0, kGo, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  std::vector<char> data(kLong, 'a');
  data[kLong - 1] = 'z';
  if (call.sent != 0) MPI_Send(data.data(), call.sent, MPI_BYTE, 0, kAnswer, MPI_COMM_WORLD);
  if (call.received != 0)
    MPI_Recv(data.data(), call.received, MPI_BYTE, 0, kAnswer, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

ult::Scheduler started(unsigned workers) {
  ult::Config config;
  config.workers = workers;
  auto scheduler = ult::Scheduler::start(config);
  check(scheduler.ok(), "a scheduler");
  return std::move(*scheduler);
}

bool wait_in(const Call& call) {
  if (rank == 1) {
    answer(call);
    return true;
  }
  ult::Scheduler scheduler = started(1);
  bool has_called = false;
  const mh::Status ran = scheduler.run([&] {
    ult::Group group;
    group.spawn([&] {
      has_called = true;
      check(call.make() != 0, call.name);
    });
    while (!has_called) ult::yield();
    char go = 1;
    MPI_Send(&go, 1, MPI_BYTE, 1, kGo, MPI_COMM_WORLD);
    (void)group.wait();
  });
  check(ran.ok(), "the tasks ran");
  return scheduler.counters(0).parked != 0;
}

// --- pairs: tasks that exchange messages ---

using Bytes = std::vector<unsigned char>;

Bytes made(int size, int who, int task, int round) {
  Bytes bytes(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] =
        static_cast<unsigned char>(i * 7 + static_cast<unsigned>(who * 3 + task * 5 + round));
  }
  return bytes;
}

void ping_pong(int task, int round, int size) {
  const int other = 1 - rank;
  const Bytes out = made(size, rank, task, round);
  Bytes in(out.size());
  const auto send = [&] {
    (round % 2 == 0 ? MPI_Send : MPI_Ssend)(out.data(), size, MPI_BYTE, other, task,
                                            MPI_COMM_WORLD);
  };
  MPI_Status status;
  if (rank == 0) send();
  if (round % 3 == 0) MPI_Probe(other, task, MPI_COMM_WORLD, &status);
  MPI_Recv(in.data(), size, MPI_BYTE, other, task, MPI_COMM_WORLD, &status);
  if (rank == 1) send();
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  check(count == size && status.MPI_TAG == task, "a status");
  check(in == made(size, other, task, round), "the bytes of a message");
}

// A task and its partner on the other rank both start all their messages and then wait, by an MPI
// call that depends on the round.
void exchange(int task, int round) {
  constexpr int kMessages = 3;
  const int other = 1 - rank;
  Bytes out[kMessages];
  Bytes in[kMessages];
  MPI_Request requests[2 * kMessages];
  for (int i = 0; i < kMessages; ++i) {
    const int size = i == 2 ? kLong / 4 : 10 + i;
    out[i] = made(size, rank, task, round + i);
    in[i].resize(out[i].size());
    MPI_Irecv(in[i].data(), size, MPI_BYTE, other, task, MPI_COMM_WORLD, &requests[i]);
  }
  for (int i = 0; i < kMessages; ++i) {
    MPI_Isend(out[i].data(), static_cast<int>(out[i].size()), MPI_BYTE, other, task, MPI_COMM_WORLD,
              &requests[kMessages + i]);
  }
  if (round % 2 == 0) {
    for (int i = 0; i < 2 * kMessages; ++i) {
      int index = MPI_UNDEFINED;
      MPI_Waitany(2 * kMessages, requests, &index, MPI_STATUS_IGNORE);
      check(index != MPI_UNDEFINED, "an index");
    }
  }
  MPI_Waitall(2 * kMessages, requests, MPI_STATUSES_IGNORE);
  for (int i = 0; i < kMessages; ++i) {
    const int size = static_cast<int>(in[i].size());
    check(in[i] == made(size, other, task, round + i), "the bytes of an exchange");
  }
}

bool play_in_pairs(int tasks, unsigned workers, int rounds) {
  ult::Scheduler scheduler = started(workers);
  const mh::Status ran = scheduler.run([&] {
    ult::Group group;
    for (int task = 0; task < tasks; ++task) {
      group.spawn([=] {
        for (int round = 0; round < rounds; ++round) {
          ping_pong(task, round, round % 4 == 3 ? kLong : 1 + round % 90);
          exchange(task, round);
        }
      });
    }
    (void)group.wait();
  });
  check(ran.ok(), "the tasks ran");
  std::uint64_t parked = 0;
  for (unsigned worker = 0; worker < workers; ++worker) parked += scheduler.counters(worker).parked;
  return parked != 0;
}

bool run(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "waits") == 0) {
    for (const Call& call : kCalls) {
      if (std::strcmp(call.name, argv[2]) == 0) return wait_in(call);
    }
  }
  check(argc == 5 && std::strcmp(argv[1], "pairs") == 0, "the arguments are right");
  return play_in_pairs(std::atoi(argv[2]), static_cast<unsigned>(std::atoi(argv[3])),
                       std::atoi(argv[4]));
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  check(provided == MPI_THREAD_MULTIPLE, "the library has MPI_THREAD_MULTIPLE");
  const bool parked = run(argc, argv);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("right, parked %s\n", parked ? "yes" : "no");
  MPI_Finalize();
}
