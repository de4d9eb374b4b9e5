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

/* Answers of the functions that return int. A value of MH_LCI_RETRY or more means that nothing has
 * happened and that the same call may succeed later. A negative value means an error: the same call
 * would fail again. */
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
typedef struct mh_lci_endpoint mh_lci_endpoint;
typedef struct mh_lci_completion_queue mh_lci_completion_queue;
typedef struct mh_lci_synchronizer mh_lci_synchronizer;
typedef struct mh_lci_server mh_lci_server;

/* Collective. rank -1: from the environment; root NULL: MH_LCI_ROOT, else through the launcher. */
MH_LCI_EXPORT int mh_lci_join(int rank, int size, const char* root, mh_lci_job** job);
MH_LCI_EXPORT void mh_lci_leave(mh_lci_job* job);
MH_LCI_EXPORT int mh_lci_rank(const mh_lci_job* job);
MH_LCI_EXPORT int mh_lci_size(const mh_lci_job* job);

/* Collective. provider NULL: the default. */
MH_LCI_EXPORT int mh_lci_device_open(mh_lci_job* job, const char* provider, mh_lci_device** device);
MH_LCI_EXPORT void mh_lci_device_close(mh_lci_device* device);
MH_LCI_EXPORT size_t mh_lci_progress(mh_lci_device* device);
MH_LCI_EXPORT int mh_lci_alive(const mh_lci_device* device, int rank);
MH_LCI_EXPORT size_t mh_lci_eager_limit(const mh_lci_device* device);
MH_LCI_EXPORT size_t mh_lci_credits(const mh_lci_device* device); /* messages, for each peer */

/* Progress. mh_lci_server_start() starts a thread that makes progress until mh_lci_server_stop().
 * mh_lci_serve() makes progress in the caller, a thread or a light task, until another caller has
 * called mh_lci_stop_serving(). No later mh_lci_serve() on the same device serves then. */
MH_LCI_EXPORT int mh_lci_server_start(mh_lci_device* device, mh_lci_server** server);
MH_LCI_EXPORT void mh_lci_server_stop(mh_lci_server* server);
MH_LCI_EXPORT void mh_lci_serve(mh_lci_device* device);
MH_LCI_EXPORT void mh_lci_stop_serving(mh_lci_device* device);

/* The completion of one operation, for one task or thread that waits. */
MH_LCI_EXPORT int mh_lci_synchronizer_create(mh_lci_synchronizer** done);
MH_LCI_EXPORT void mh_lci_synchronizer_destroy(mh_lci_synchronizer* done);
MH_LCI_EXPORT int mh_lci_synchronizer_test(const mh_lci_synchronizer* done); /* 1: complete */
/* Parks the light task, or lets the thread sleep. A server must make progress. */
MH_LCI_EXPORT void mh_lci_synchronizer_wait(mh_lci_synchronizer* done);
/* Returns the completion of the operation. Call it once, after the operation is complete.
 * mh_lci_message_free() releases the result; NULL: no memory. */
MH_LCI_EXPORT mh_lci_message* mh_lci_synchronizer_result(mh_lci_synchronizer* done);

/* The MPI-like layer. Collective: open, barrier, broadcast, all_to_all, all_reduce. Blocking calls
 * block the light task. */
MH_LCI_EXPORT int mh_lci_communicator_open(mh_lci_device* device,
                                           mh_lci_communicator** communicator);
MH_LCI_EXPORT void mh_lci_communicator_close(mh_lci_communicator* communicator);
MH_LCI_EXPORT int mh_lci_send(mh_lci_communicator* communicator, int rank, uint32_t tag,
                              const void* data, size_t size);
/* Writes the bytes of the message to `received`, unless NULL. */
MH_LCI_EXPORT int mh_lci_receive(mh_lci_communicator* communicator, int rank, uint32_t tag,
                                 void* buffer, size_t size, size_t* received);
/* Start an operation. mh_lci_wait() completes it, and writes the bytes of a received message to
 * `received`, unless NULL. */
MH_LCI_EXPORT int mh_lci_start_send(mh_lci_communicator* communicator, int rank, uint32_t tag,
                                    const void* data, size_t size, mh_lci_synchronizer* done);
MH_LCI_EXPORT int mh_lci_start_receive(mh_lci_communicator* communicator, int rank, uint32_t tag,
                                       void* buffer, size_t size, mh_lci_synchronizer* done);
MH_LCI_EXPORT int mh_lci_wait(mh_lci_communicator* communicator, mh_lci_synchronizer* done,
                              size_t* received);
MH_LCI_EXPORT int mh_lci_barrier(mh_lci_communicator* communicator);
MH_LCI_EXPORT int mh_lci_broadcast(mh_lci_communicator* communicator, int root, void* data,
                                   size_t size);
MH_LCI_EXPORT int mh_lci_all_to_all(mh_lci_communicator* communicator, const void* send,
                                    void* receive, size_t block);

/* Combines the data of all ranks, in a fixed order of ranks; all ranks get the result. `combine`
 * combines all `size` bytes of `from` into `into`, and must be associative. */
typedef void mh_lci_combine(void* into, const void* from, size_t size, void* argument);
MH_LCI_EXPORT int mh_lci_all_reduce(mh_lci_communicator* communicator, void* data, size_t size,
                                    mh_lci_combine* combine, void* argument);
/* mh_lci_all_reduce_numbers() does the same for `count` numbers of a type. */
enum mh_lci_type {
  MH_LCI_INT32 = 0,
  MH_LCI_INT64 = 1,
  MH_LCI_UINT32 = 2,
  MH_LCI_UINT64 = 3,
  MH_LCI_FLOAT = 4,
  MH_LCI_DOUBLE = 5
};
enum mh_lci_operation { MH_LCI_SUM = 0, MH_LCI_MIN = 1, MH_LCI_MAX = 2 };
MH_LCI_EXPORT int mh_lci_all_reduce_numbers(mh_lci_communicator* communicator, void* data,
                                            size_t count, enum mh_lci_type type,
                                            enum mh_lci_operation operation);

/* Endpoints. An endpoint lives as long as its device; mh_lci_endpoint_close() frees the handle. */
enum mh_lci_buffers { MH_LCI_EXPLICIT_ADDRESS = 0, MH_LCI_PIGGY_BACK = 1, MH_LCI_DYNAMIC = 2 };
enum mh_lci_completion { MH_LCI_SYNCHRONIZER = 0, MH_LCI_QUEUE = 1, MH_LCI_HANDLER = 2 };
/* The message ends with the call; the handler must not free it. */
typedef void mh_lci_handler(mh_lci_message* message, void* argument);
typedef void* mh_lci_allocate(size_t size, void* argument);
typedef void mh_lci_release(void* memory, void* argument);

/* A zero field has its default value (mh::lci::EndpointConfig). */
typedef struct mh_lci_endpoint_config {
  enum mh_lci_buffers buffers;
  enum mh_lci_completion completion;
  mh_lci_completion_queue* queue; /* of MH_LCI_QUEUE */
  mh_lci_handler* handler;        /* of MH_LCI_HANDLER */
  void* handler_argument;
  mh_lci_allocate* allocate; /* of MH_LCI_DYNAMIC; NULL: malloc and free */
  mh_lci_release* release;
  void* allocator_argument;
  size_t grant_bytes;
} mh_lci_endpoint_config;

/* Collective. config NULL: all defaults. */
MH_LCI_EXPORT int mh_lci_endpoint_open(mh_lci_device* device, const mh_lci_endpoint_config* config,
                                       mh_lci_endpoint** endpoint);
MH_LCI_EXPORT void mh_lci_endpoint_close(mh_lci_endpoint* endpoint);
/* With MH_LCI_SYNCHRONIZER pass `done`, else `context`; the other argument is NULL. With a
 * synchronizer and buffers other than MH_LCI_EXPLICIT_ADDRESS a receive has no buffer. */
MH_LCI_EXPORT int mh_lci_post_send(mh_lci_endpoint* endpoint, int rank, uint32_t tag,
                                   const void* data, size_t size, void* context,
                                   mh_lci_synchronizer* done);
MH_LCI_EXPORT int mh_lci_post_receive(mh_lci_endpoint* endpoint, int rank, uint32_t tag,
                                      void* buffer, size_t size, void* context,
                                      mh_lci_synchronizer* done);

/* A completion queue must outlive the devices whose endpoints use it. capacity 0: the default. */
MH_LCI_EXPORT int mh_lci_completion_queue_create(size_t capacity, mh_lci_completion_queue** queue);
MH_LCI_EXPORT void mh_lci_completion_queue_destroy(mh_lci_completion_queue* queue);
/* NULL: the queue is empty. mh_lci_message_free() releases a message. */
MH_LCI_EXPORT mh_lci_message* mh_lci_completion_queue_pop(mh_lci_completion_queue* queue);

/* The queue interface. Collective: open. */
MH_LCI_EXPORT int mh_lci_queue_open(mh_lci_device* device, size_t memory_limit,
                                    mh_lci_queue** queue);
/* A zero field has its default value (mh::lci::QueueConfig). */
typedef struct mh_lci_queue_config {
  size_t memory_limit; /* bytes; 0: no limit */
  size_t grant_bytes;
  mh_lci_allocate* allocate; /* NULL: malloc and free */
  mh_lci_release* release;
  void* allocator_argument;
} mh_lci_queue_config;
MH_LCI_EXPORT int mh_lci_queue_open_with(mh_lci_device* device, const mh_lci_queue_config* config,
                                         mh_lci_queue** queue);
MH_LCI_EXPORT void mh_lci_queue_close(mh_lci_queue* queue);
/* After MH_LCI_POSTED the data must stay unchanged until mh_lci_queue_sending() is 0: no send is
 * under way. This rank need not dequeue a message for that. */
MH_LCI_EXPORT int mh_lci_send_enqueue(mh_lci_queue* queue, int rank, uint32_t tag, const void* data,
                                      size_t size);
MH_LCI_EXPORT uint32_t mh_lci_queue_sending(const mh_lci_queue* queue);
/* NULL: no message has arrived. mh_lci_message_free() releases a message. */
MH_LCI_EXPORT mh_lci_message* mh_lci_receive_dequeue(mh_lci_queue* queue);
enum mh_lci_kind { MH_LCI_RECEIVED = 0, MH_LCI_SENT = 1, MH_LCI_PEER_GONE = 2 };
MH_LCI_EXPORT enum mh_lci_kind mh_lci_message_kind(const mh_lci_message* message);
MH_LCI_EXPORT void* mh_lci_message_context(const mh_lci_message* message);
/* Passes memory of MH_LCI_DYNAMIC to the caller, who releases it. NULL: the memory cannot be kept;
 * always so for messages of an mh_lci_queue. */
MH_LCI_EXPORT void* mh_lci_message_take(mh_lci_message* message);
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
