/* SPDX-License-Identifier: BSD-3-Clause */
/* LCI for C. manyhands/lci.hpp and the headers named there define the words and the contract of
 * each call. Sizes are in bytes, and ranks count from 0. Any thread or light task may call a
 * function; all ranks call a "collective" function together. */
#ifndef MANYHANDS_LCI_H
#define MANYHANDS_LCI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MH_LCI_EXPORT __attribute__((visibility("default")))

/* Answers. Above MH_LCI_RETRY: nothing has happened, and the same call may succeed later. Negative:
 * an error, and the same call would fail again. */
enum {
  MH_LCI_DONE = 0,
  MH_LCI_POSTED = 1,
  MH_LCI_RETRY = 2, /* + the reason: */
  MH_LCI_RETRY_CREDIT = 3,
  MH_LCI_RETRY_PACKET = 4,
  MH_LCI_RETRY_RECORD = 5,
  MH_LCI_RETRY_TABLE = 6,
  MH_LCI_RETRY_NETWORK = 7,
  MH_LCI_MISUSE = -1,
  MH_LCI_GONE = -2,     /* the peer is dead */
  MH_LCI_MISMATCH = -3, /* the ranks do not agree, or a message is longer than its buffer */
  MH_LCI_UNSUPPORTED = -4,
  MH_LCI_FULL = -5, /* no memory */
  MH_LCI_SYSTEM = -6
};

typedef struct mh_lci_job mh_lci_job;
typedef struct mh_lci_device mh_lci_device;
typedef struct mh_lci_communicator mh_lci_communicator;
typedef struct mh_lci_queue mh_lci_queue;
typedef struct mh_lci_message mh_lci_message;

/* Collective. rank -1: from the environment; root NULL: MH_LCI_ROOT. */
MH_LCI_EXPORT int mh_lci_join(int rank, int size, const char* root, mh_lci_job** job);
MH_LCI_EXPORT void mh_lci_leave(mh_lci_job* job);
MH_LCI_EXPORT int mh_lci_rank(const mh_lci_job* job);
MH_LCI_EXPORT int mh_lci_size(const mh_lci_job* job);

/* Collective. provider NULL: the default. */
MH_LCI_EXPORT int mh_lci_device_open(mh_lci_job* job, const char* provider, mh_lci_device** device);
MH_LCI_EXPORT void mh_lci_device_close(mh_lci_device* device);
MH_LCI_EXPORT size_t mh_lci_progress(mh_lci_device* device);
MH_LCI_EXPORT int mh_lci_alive(const mh_lci_device* device, int rank);

/* The MPI-like layer. Collective: open, barrier, broadcast, all_to_all. Blocking calls block the
 * light task. */
MH_LCI_EXPORT int mh_lci_communicator_open(mh_lci_device* device,
                                           mh_lci_communicator** communicator);
MH_LCI_EXPORT void mh_lci_communicator_close(mh_lci_communicator* communicator);
MH_LCI_EXPORT int mh_lci_send(mh_lci_communicator* communicator, int rank, uint32_t tag,
                              const void* data, size_t size);
/* Writes the bytes of the message to `received`, unless NULL. */
MH_LCI_EXPORT int mh_lci_receive(mh_lci_communicator* communicator, int rank, uint32_t tag,
                                 void* buffer, size_t size, size_t* received);
MH_LCI_EXPORT int mh_lci_barrier(mh_lci_communicator* communicator);
MH_LCI_EXPORT int mh_lci_broadcast(mh_lci_communicator* communicator, int root, void* data,
                                   size_t size);
MH_LCI_EXPORT int mh_lci_all_to_all(mh_lci_communicator* communicator, const void* send,
                                    void* receive, size_t block);

/* The queue interface. Collective: open. */
MH_LCI_EXPORT int mh_lci_queue_open(mh_lci_device* device, size_t memory_limit,
                                    mh_lci_queue** queue);
MH_LCI_EXPORT void mh_lci_queue_close(mh_lci_queue* queue);
/* After MH_LCI_POSTED the data must stay until no send is under way (mh_lci_queue_sending). */
MH_LCI_EXPORT int mh_lci_send_enqueue(mh_lci_queue* queue, int rank, uint32_t tag, const void* data,
                                      size_t size);
MH_LCI_EXPORT uint32_t mh_lci_queue_sending(const mh_lci_queue* queue);
/* NULL: no message has arrived. mh_lci_message_free() releases a message. */
MH_LCI_EXPORT mh_lci_message* mh_lci_receive_dequeue(mh_lci_queue* queue);
MH_LCI_EXPORT int mh_lci_message_status(const mh_lci_message* message);
MH_LCI_EXPORT int mh_lci_message_rank(const mh_lci_message* message);
MH_LCI_EXPORT uint32_t mh_lci_message_tag(const mh_lci_message* message);
MH_LCI_EXPORT const void* mh_lci_message_data(const mh_lci_message* message);
MH_LCI_EXPORT size_t mh_lci_message_size(const mh_lci_message* message);
MH_LCI_EXPORT void mh_lci_message_free(mh_lci_message* message);

#ifdef __cplusplus
}
#endif

#endif
