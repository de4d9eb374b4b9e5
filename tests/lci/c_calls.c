/* SPDX-License-Identifier: BSD-3-Clause */
/* Every call of manyhands/lci.h, between two ranks. Prints the first error, or "all good". */
#include <manyhands/lci.h>
#include <manyhands/ult.h>
#include <stdatomic.h>
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

static mh_lci_completion_queue* the_queue;

static void start_and_wait(mh_lci_communicator* all, int rank) {
  mh_lci_synchronizer *sent = NULL, *received = NULL;
  CHECK(mh_lci_synchronizer_create(&sent) == MH_LCI_DONE);
  CHECK(mh_lci_synchronizer_create(&received) == MH_LCI_DONE);
  char* out = malloc(kLarge);
  char* in = malloc(kLarge);
  size_t size = 0;
  memset(out, 'a' + rank, kLarge);
  CHECK(mh_lci_start_receive(all, 1 - rank, 3, in, kLarge, received) == MH_LCI_DONE);
  CHECK(mh_lci_start_send(all, 1 - rank, 3, out, kLarge, sent) == MH_LCI_DONE);
  CHECK(mh_lci_wait(all, received, &size) == MH_LCI_DONE && size == kLarge);
  CHECK(mh_lci_wait(all, sent, NULL) == MH_LCI_DONE);
  CHECK(in[0] == 'b' - rank && in[kLarge - 1] == 'b' - rank);
  free(in);
  free(out);
  mh_lci_synchronizer_destroy(received);
  mh_lci_synchronizer_destroy(sent);
}

// An operation for reductions: writes the first letter of `from` behind the first letter of `into`,
// and counts its calls. The operation is not commutative, so the result shows the order of the
// ranks.
static void join_words(void* into, const void* from, size_t size, void* argument) {
  CHECK(size == 2);
  char* word = into;
  word[1] = ((const char*)from)[0];
  ++*(int*)argument;
}

static void reduce(mh_lci_communicator* all, int rank) {
  int calls = 0;
  char word[2] = {rank == 0 ? 'x' : 'y', '-'};
  CHECK(mh_lci_all_reduce(all, word, sizeof word, join_words, &calls) == MH_LCI_DONE);
  CHECK(memcmp(word, "xy", 2) == 0 && calls == (rank == 0 ? 1 : 0));
  int32_t ints[2] = {rank + 1, -rank};
  CHECK(mh_lci_all_reduce_numbers(all, ints, 2, MH_LCI_INT32, MH_LCI_SUM) == MH_LCI_DONE);
  CHECK(ints[0] == 3 && ints[1] == -1);
  int64_t longs[1] = {rank == 0 ? -5 : 7};
  CHECK(mh_lci_all_reduce_numbers(all, longs, 1, MH_LCI_INT64, MH_LCI_MIN) == MH_LCI_DONE);
  CHECK(longs[0] == -5);
  uint32_t small[1] = {(uint32_t)rank};
  CHECK(mh_lci_all_reduce_numbers(all, small, 1, MH_LCI_UINT32, MH_LCI_MAX) == MH_LCI_DONE);
  CHECK(small[0] == 1);
  uint64_t large[1] = {UINT64_C(1) << 40};
  CHECK(mh_lci_all_reduce_numbers(all, large, 1, MH_LCI_UINT64, MH_LCI_SUM) == MH_LCI_DONE);
  CHECK(large[0] == UINT64_C(1) << 41);
  float floats[1] = {rank + 0.5F};
  CHECK(mh_lci_all_reduce_numbers(all, floats, 1, MH_LCI_FLOAT, MH_LCI_MAX) == MH_LCI_DONE);
  CHECK(floats[0] == 1.5F);
  double doubles[1] = {rank + 0.25};
  CHECK(mh_lci_all_reduce_numbers(all, doubles, 1, MH_LCI_DOUBLE, MH_LCI_SUM) == MH_LCI_DONE);
  CHECK(doubles[0] == 1.5);
  const enum mh_lci_type no_type = (enum mh_lci_type)9;
  CHECK(mh_lci_all_reduce_numbers(all, doubles, 1, no_type, MH_LCI_SUM) == MH_LCI_MISUSE);
}

// A light task that exchanges a number with the task of the same tag on the other rank. All tasks
// of a rank wait on its only worker, and no thread serves the LCI device. A blocking call must
// therefore run other tasks and move the messages itself.
struct player {
  mh_lci_communicator* all;
  int rank;
  uint32_t tag;
};

static void play(void* argument) {
  const struct player* me = argument;
  uint32_t ball = me->tag;
  for (int round = 0; round < 20; ++round) {
    if (me->rank == 0) CHECK(mh_lci_send(me->all, 1, me->tag, &ball, sizeof ball) == MH_LCI_DONE);
    CHECK(mh_lci_receive(me->all, 1 - me->rank, me->tag, &ball, sizeof ball, NULL) == MH_LCI_DONE);
    CHECK(ball == me->tag);
    if (me->rank == 1) CHECK(mh_lci_send(me->all, 0, me->tag, &ball, sizeof ball) == MH_LCI_DONE);
  }
}

static void tasks_without_a_server(mh_lci_communicator* all, int rank) {
  enum { kTasks = 10 };
  mh_ult_scheduler* scheduler = NULL;
  mh_ult_task* tasks[kTasks];
  struct player players[kTasks];
  const mh_ult_config one = {.workers = 1};
  CHECK(mh_ult_start(&one, &scheduler) == MH_ULT_OK);
  for (uint32_t i = 0; i < kTasks; ++i) {
    players[i] = (struct player){all, rank, 100 + i};
    CHECK(mh_ult_spawn_on(scheduler, 0, play, &players[i], &tasks[i]) == MH_ULT_OK);
  }
  for (int i = 0; i < kTasks; ++i) CHECK(mh_ult_join(tasks[i]) == MH_ULT_OK);
  mh_ult_finish(scheduler);
}

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
  start_and_wait(all, rank);
  reduce(all, rank);
  tasks_without_a_server(all, rank);
  mh_lci_communicator_close(all);
}

// --- endpoints of an LCI device ---

static void with_synchronizers(mh_lci_device* device, int rank) {
  mh_lci_endpoint* endpoint = NULL;
  mh_lci_synchronizer* done = NULL;
  char data[8] = "";
  CHECK(mh_lci_endpoint_open(device, NULL, &endpoint) == MH_LCI_DONE);
  CHECK(mh_lci_synchronizer_create(&done) == MH_LCI_DONE);
  CHECK(mh_lci_post_send(endpoint, 1 - rank, 1, data, sizeof data, NULL, NULL) == MH_LCI_MISUSE);
  if (rank == 0) {
    CHECK(mh_lci_post_send(endpoint, 1, 1, "balloon", 8, NULL, done) == MH_LCI_DONE);
  } else {
    int answer = mh_lci_post_receive(endpoint, 0, 1, data, sizeof data, NULL, done);
    CHECK(answer == MH_LCI_POSTED || answer == MH_LCI_DONE);
    mh_lci_synchronizer_wait(done);  // main() has started a server
    CHECK(mh_lci_synchronizer_test(done) == 1);
    mh_lci_message* message = mh_lci_synchronizer_result(done);
    CHECK(message != NULL && mh_lci_message_size(message) == 8 && strcmp(data, "balloon") == 0);
    mh_lci_message_free(message);
  }
  mh_lci_synchronizer_destroy(done);
  mh_lci_endpoint_close(endpoint);
}

static atomic_int allocated, handled;

static void* allocate(size_t size, void* argument) {
  atomic_fetch_add((atomic_int*)argument, 1);
  return malloc(size);
}
static void release(void* memory, void* argument) {
  atomic_fetch_sub((atomic_int*)argument, 1);
  free(memory);
}

static void with_a_queue(mh_lci_device* device, int rank) {
  mh_lci_completion_queue* queue = NULL;
  mh_lci_endpoint* endpoint = NULL;
  CHECK(mh_lci_completion_queue_create(0, &queue) == MH_LCI_DONE);
  const mh_lci_endpoint_config config = {.buffers = MH_LCI_DYNAMIC,
                                         .completion = MH_LCI_QUEUE,
                                         .queue = queue,
                                         .allocate = allocate,
                                         .release = release,
                                         .allocator_argument = &allocated};
  CHECK(mh_lci_endpoint_open(device, &config, &endpoint) == MH_LCI_DONE);
  char* data = calloc(1, kLarge);
  mh_lci_message* message = NULL;
  if (rank == 0) {
    int answer;
    while ((answer = mh_lci_post_send(endpoint, 1, 9, data, kLarge, &queue, NULL)) > MH_LCI_RETRY)
      continue;
    CHECK(answer == MH_LCI_POSTED);
    while ((message = mh_lci_completion_queue_pop(queue)) == NULL) continue;
    CHECK(mh_lci_message_kind(message) == MH_LCI_SENT);
    CHECK(mh_lci_message_context(message) == &queue);
  } else {
    while ((message = mh_lci_completion_queue_pop(queue)) == NULL) continue;
    CHECK(mh_lci_message_kind(message) == MH_LCI_RECEIVED && mh_lci_message_rank(message) == 0);
    CHECK(mh_lci_message_tag(message) == 9 && mh_lci_message_size(message) == kLarge);
    CHECK(atomic_load(&allocated) == 1);
    void* kept = mh_lci_message_take(message);
    CHECK(kept != NULL);
    release(kept, &allocated);
  }
  mh_lci_message_free(message);
  CHECK(atomic_load(&allocated) == 0);
  free(data);
  mh_lci_endpoint_close(endpoint);
  the_queue = queue;  // stays in use until the device is closed
}

static void handle(mh_lci_message* message, void* argument) {
  CHECK(mh_lci_message_kind(message) == MH_LCI_RECEIVED && mh_lci_message_size(message) == 3);
  CHECK(memcmp(mh_lci_message_data(message), "abc", 3) == 0);
  atomic_fetch_add((atomic_int*)argument, 1);
}

static void with_a_handler(mh_lci_device* device, int rank) {
  const mh_lci_endpoint_config config = {.buffers = MH_LCI_PIGGY_BACK,
                                         .completion = MH_LCI_HANDLER,
                                         .handler = handle,
                                         .handler_argument = &handled};
  mh_lci_endpoint* endpoint = NULL;
  CHECK(mh_lci_endpoint_open(device, &config, &endpoint) == MH_LCI_DONE);
  CHECK(mh_lci_post_send(endpoint, 1 - rank, 0, "abc", 3, NULL, NULL) == MH_LCI_DONE);
  while (atomic_load(&handled) == 0) continue;
  CHECK(atomic_load(&handled) == 1);
  mh_lci_endpoint_close(endpoint);
}

// Serves the LCI device in a light task: the tests above this function use a server thread for
// that.
static void serve(void* device) { mh_lci_serve(device); }

static void with_endpoints(mh_lci_device* device, int rank) {
  mh_lci_server* server = NULL;
  CHECK(mh_lci_server_start(device, &server) == MH_LCI_DONE);
  with_synchronizers(device, rank);
  with_a_queue(device, rank);
  mh_lci_server_stop(server);
  mh_ult_scheduler* scheduler = NULL;
  mh_ult_task* task = NULL;
  const mh_ult_config one = {.workers = 1};
  CHECK(mh_ult_start(&one, &scheduler) == MH_ULT_OK);
  CHECK(mh_ult_spawn_on(scheduler, 0, serve, device, &task) == MH_ULT_OK);
  with_a_handler(device, rank);
  mh_lci_stop_serving(device);
  CHECK(mh_ult_join(task) == MH_ULT_OK);
  mh_ult_finish(scheduler);
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
  while (mh_lci_queue_sending(queue) != 0) mh_lci_progress(device);
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
    CHECK(mh_lci_message_take(message) == NULL);
    if (size > 0) CHECK(((const char*)mh_lci_message_data(message))[size - 1] == 'x');
    mh_lci_message_free(message);
    ++count;
  }
}

static void run_queue(mh_lci_queue* queue, mh_lci_device* device, int rank) {
  if (rank == 0) {
    enqueue(queue, device);
  } else {
    dequeue(queue, device);
  }
  mh_lci_queue_close(queue);
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
  with_endpoints(device, rank);
  CHECK(mh_lci_eager_limit(device) > 0 && mh_lci_credits(device) > 0);
  const mh_lci_queue_config config = {.memory_limit = 1 << 20,
                                      .allocate = allocate,
                                      .release = release,
                                      .allocator_argument = &allocated};
  CHECK(mh_lci_queue_open_with(device, &config, &queue) == MH_LCI_DONE);
  run_queue(queue, device, rank);
  CHECK(atomic_load(&allocated) == 0);
  CHECK(mh_lci_queue_open(device, 1 << 20, &queue) == MH_LCI_DONE);
  run_queue(queue, device, rank);
  mh_lci_device_close(device);
  mh_lci_completion_queue_destroy(the_queue);
  mh_lci_leave(job);
  printf("all good\n");
  return 0;
}
