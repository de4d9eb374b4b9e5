/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call of manyhands/lci.h, between two ranks. Prints the first error, or "all good". */
#include <manyhands/lci.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) {                                      \
      printf("line %d: not so: %s\n", __LINE__, #condition); \
      exit(1);                                               \
    }                                                        \
  } while (0)

enum { kLarge = 50000, kMessages = 20 };

static void communicate(mh_lci_device* device, int rank) {
  mh_lci_communicator* all = NULL;
  CHECK(mh_lci_communicator_open(device, &all) == MH_LCI_DONE);
  CHECK(mh_lci_barrier(all) == MH_LCI_DONE);
  int number = rank + 10;
  int got = 0;
  size_t size = 0;
  if (rank == 0) {
    CHECK(mh_lci_send(all, 1, 5, &number, sizeof number) == MH_LCI_DONE);
    CHECK(mh_lci_receive(all, 1, 6, &got, sizeof got, &size) == MH_LCI_DONE);
    CHECK(got == 11 && size == sizeof got);
  } else {
    CHECK(mh_lci_receive(all, 0, 5, &got, sizeof got, NULL) == MH_LCI_DONE);
    CHECK(got == 10);
    CHECK(mh_lci_send(all, 0, 6, &number, sizeof number) == MH_LCI_DONE);
  }
  CHECK(mh_lci_send(all, 7, 0, &number, sizeof number) == MH_LCI_MISUSE);
  int data[2] = {rank, rank + 1};
  CHECK(mh_lci_broadcast(all, 1, data, sizeof data) == MH_LCI_DONE);
  CHECK(data[0] == 1 && data[1] == 2);
  int mine[2] = {10 * rank, 10 * rank + 1};
  int theirs[2] = {0, 0};
  CHECK(mh_lci_all_to_all(all, mine, theirs, sizeof mine[0]) == MH_LCI_DONE);
  CHECK(theirs[0] == rank && theirs[1] == 10 + rank);
  mh_lci_communicator_close(all);
}

static void enqueue(mh_lci_queue* queue, mh_lci_device* device) {
  char* data = malloc(kLarge);
  memset(data, 'x', kLarge);
  for (uint32_t tag = 0; tag < kMessages; ++tag) {
    const size_t size = tag % 4 == 0 ? kLarge : tag;
    int answer;
    while ((answer = mh_lci_send_enqueue(queue, 1, tag, data, size)) >= MH_LCI_RETRY) {
      mh_lci_progress(device);
      CHECK(mh_lci_receive_dequeue(queue) == NULL);
    }
    CHECK(answer == MH_LCI_DONE || answer == MH_LCI_POSTED);
  }
  while (mh_lci_queue_sending(queue) != 0) {
    mh_lci_progress(device);
    CHECK(mh_lci_receive_dequeue(queue) == NULL);
  }
  free(data);
}

static void dequeue(mh_lci_queue* queue, mh_lci_device* device) {
  int seen[kMessages] = {0};
  for (int count = 0; count < kMessages;) {
    mh_lci_progress(device);
    mh_lci_message* message = mh_lci_receive_dequeue(queue);
    if (message == NULL) continue;
    const uint32_t tag = mh_lci_message_tag(message);
    const size_t size = mh_lci_message_size(message);
    CHECK(mh_lci_message_status(message) == MH_LCI_DONE);
    CHECK(mh_lci_message_rank(message) == 0);
    CHECK(tag < kMessages && ++seen[tag] == 1);
    CHECK(size == (tag % 4 == 0 ? kLarge : tag));
    if (size > 0) CHECK(((const char*)mh_lci_message_data(message))[size - 1] == 'x');
    mh_lci_message_free(message);
    ++count;
  }
}

int main(void) {
  mh_lci_job* job = NULL;
  mh_lci_device* device = NULL;
  mh_lci_queue* queue = NULL;
  CHECK(mh_lci_join(5, 2, "/tmp/nowhere", &job) == MH_LCI_MISUSE);
  CHECK(mh_lci_join(-1, -1, NULL, &job) == MH_LCI_DONE);
  const int rank = mh_lci_rank(job);
  CHECK(mh_lci_size(job) == 2);
  CHECK(mh_lci_device_open(job, "no_such_provider", &device) == MH_LCI_UNSUPPORTED);
  CHECK(mh_lci_device_open(job, NULL, &device) == MH_LCI_DONE);
  CHECK(mh_lci_alive(device, 1 - rank) == 1);
  communicate(device, rank);
  CHECK(mh_lci_queue_open(device, 1 << 20, &queue) == MH_LCI_DONE);
  if (rank == 0) {
    enqueue(queue, device);
  } else {
    dequeue(queue, device);
  }
  mh_lci_queue_close(queue);
  mh_lci_device_close(device);
  mh_lci_leave(job);
  printf("all good\n");
  return 0;
}
