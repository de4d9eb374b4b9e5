// SPDX-License-Identifier: BSD-3-Clause
//
// Threads of one rank poll for messages with the same tag, by every probe, with and without
// wildcards, and receive as many bytes as the probe says. Every count and every byte is right: two
// threads that probe the same RTS header must not both take it. Some requests of sends are freed
// while active. Each round has a new communicator.
//
// run: ranks 2
// run: ranks 2 MH_THRESHOLD=64K MH_EXCHANGE_THRESHOLD=8M
// run: ranks 2 helped MH_MEMORY=none
// run: ranks 2 heap
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, WAYS = 4, LARGER = 16000000, ROUNDS = 6 };

// The messages of one round. Each thread sends `count` messages, and each thread receives as many.
static struct {
  int bytes, count;
  MPI_Comm comm;
} round_of_messages;

static int key_of(const unsigned char* data) {
  int key = 0;
  memcpy(&key, data, sizeof key);
  return key;
}

static void* send_all(void* argument) {
  const int thread = (int)(intptr_t)argument, bytes = round_of_messages.bytes;
  MPI_Comm comm = round_of_messages.comm;
  unsigned char** data = malloc((size_t)round_of_messages.count * sizeof *data);
  for (int i = 0; i < round_of_messages.count; ++i) {
    const int key = 100 * thread + i;
    data[i] = filled((size_t)bytes, key);
    memcpy(data[i], &key, sizeof key);
    if (i % 3 == 1) {
      MPI_Request request;
      MPI_Isend(data[i], bytes, MPI_BYTE, 1, TAG, comm, &request);
      MPI_Request_free(&request);
    } else {
      MPI_Send(data[i], bytes, MPI_BYTE, 1, TAG, comm);
    }
  }
  return data;
}

static void receive_one(int way, int source, int tag, unsigned char* data) {
  const int bytes = round_of_messages.bytes;
  MPI_Comm comm = round_of_messages.comm;
  MPI_Status status;
  MPI_Message message = MPI_MESSAGE_NULL;
  int flag = 0, count = -1;
  while (way == 0 && !flag) MPI_Iprobe(source, tag, comm, &flag, &status);
  while (way == 1 && !flag) MPI_Improbe(source, tag, comm, &flag, &message, &status);
  if (way == 2) MPI_Probe(source, tag, comm, &status);
  if (way == 3) MPI_Mprobe(source, tag, comm, &message, &status);
  CHECK(status.MPI_TAG == TAG, "way %d of a probe says tag %d", way, status.MPI_TAG);
  MPI_Get_count(&status, MPI_BYTE, &count);
  CHECK(count == bytes, "way %d of a probe says %d bytes, not %d", way, count, bytes);
  if (message == MPI_MESSAGE_NULL) {
    MPI_Recv(data, count, MPI_BYTE, source, tag, comm, &status);
  } else {
    MPI_Mrecv(data, count, MPI_BYTE, &message, &status);
  }
  check_status(&status, 0, TAG, bytes);
  int key = key_of(data);
  unsigned char* first = filled(sizeof key, key);
  memcpy(data, first, sizeof key);
  free(first);
  check_bytes(data, (size_t)bytes, key, "a probed message");
}

static void* receive_all(void* argument) {
  const int thread = (int)(intptr_t)argument;
  unsigned char* data = blank((size_t)round_of_messages.bytes);
  for (int i = 0; i < round_of_messages.count; ++i) {
    const int source = i % 2 ? MPI_ANY_SOURCE : 0, tag = i % 3 ? TAG : MPI_ANY_TAG;
    receive_one((thread + i) % WAYS, source, tag, data);
  }
  free(data);
  return NULL;
}

static void exchange(int bytes, int count) {
  pthread_t threads[THREADS];
  void* results[THREADS];
  round_of_messages.bytes = bytes;
  round_of_messages.count = count;
  MPI_Comm_dup(MPI_COMM_WORLD, &round_of_messages.comm);
  for (intptr_t i = 0; i < THREADS; ++i) {
    pthread_create(&threads[i], NULL, rank == 0 ? send_all : receive_all, (void*)i);
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], &results[i]);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int i = 0; i < THREADS && rank == 0; ++i) {
    unsigned char** data = results[i];
    for (int j = 0; j < count; ++j) free(data[j]);
    free(data);
  }
  MPI_Comm_free(&round_of_messages.comm);
}

int main(int argc, char** argv) {
  if (!begin_with_threads(&argc, &argv)) return skip("this library has no MPI_THREAD_MULTIPLE");
  for (int i = 0; i < ROUNDS; ++i) exchange(LARGE, 8);
  exchange(LARGER, 2);
  return end();
}
