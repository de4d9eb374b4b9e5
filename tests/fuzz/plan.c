// SPDX-License-Identifier: BSD-3-Clause
//
// The plan of a fuzzer round: the acts of every rank, which every rank computes from the seed
// alone.
//
// Rules that keep a plan free of deadlock and of undetermined matching:
//   - ranks walk through the steps in a global order, and post receives and start sends in that
//     order, so the order of the steps determines the match of MPI_ANY_TAG with a given source;
//   - MPI_ANY_SOURCE appears only in steps that gather messages: a single receiver, no other
//     messages in between, and a single tag, or any tag and a barrier after the step;
//   - a ready send has its own tag, and its receive is posted before a barrier at the beginning of
//     the round (STEP_PREPOST);
//   - a message of a rank to itself has at least one side that does not block.
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { TAG_GATHER = 500, TAG_READY = 1000, TAG_PERSISTENT = 2000, TAG_EXCHANGE = 3000 };

static size_t near(Rng* rng, size_t middle, int spread) {
  int shift = rng_range(rng, -spread, spread);
  return shift < 0 && (size_t)-shift > middle ? 0 : middle + (size_t)(ptrdiff_t)shift;
}

// Draws the size of a message. Most sizes are near a value at which Manyhands changes its protocol:
// 0, the length of an RTS header, the threshold of rendezvous, a multiple of a chunk.
size_t pick_bytes(Rng* rng, size_t most) {
  static const size_t chunks[] = {131072, 262144, 524288, 1048576, 2097152};
  int way = rng_range(rng, 0, 99);
  size_t bytes;
  if (way < 5) {
    bytes = 0;
  } else if (way < 20) {
    bytes = 1 + rng_below(rng, 128);
  } else if (way < 42) {
    bytes = near(rng, 96 * (size_t)rng_range(rng, 1, 10), 1);
  } else if (way < 50) {
    bytes = (size_t)rng_range(rng, 90, 1000);
  } else if (way < 70) {
    bytes = near(rng, 65536, rng_chance(rng, 60) ? 1 : 200);
  } else if (way < 82) {
    bytes = near(rng, chunks[rng_below(rng, 5)], rng_chance(rng, 60) ? 1 : 5000);
  } else if (way < 90) {
    bytes = 1000 + rng_below(rng, 64000);
  } else if (way < 98) {
    bytes = 65536 + rng_below(rng, 600000);
  } else {
    bytes = 65536 + (size_t)(rng_next(rng) % (most + 1));
  }
  return bytes > most ? most - rng_below(rng, 64) % (most + 1) : bytes;
}

int rank_in(const Player* player, CommKind comm, int from, int to) {
  int half = player->ranks / 2;
  switch (comm) {
    case COMM_BASE:
    case COMM_DUP:
      return to;
    case COMM_REVERSED:
      return player->ranks - 1 - to;
    case COMM_SPLIT:
      return from % 2 == to % 2 ? to / 2 : -1;
    case COMM_SELF:
      return from == to ? 0 : -1;
    case COMM_INTER:
      if (half == 0 || (from < half) == (to < half)) return -1;
      return to < half ? to : to - half;
    default:
      return -1;
  }
}

int rank_of_comm(const Player* player, CommKind comm, int source_rank_in_comm, int receiver) {
  for (int from = 0; from < player->ranks; ++from) {
    if (rank_in(player, comm, receiver, from) == source_rank_in_comm) return from;
  }
  return -1;
}

static CommKind pick_comm(const Player* player, Rng* rng, int source, int target) {
  for (;;) {
    CommKind comm = (CommKind)rng_below(rng, COMMS);
    if (rank_in(player, comm, source, target) >= 0) return comm;
  }
}

// Draws the datatypes and the length of a message: bytes, rounded to whole items of the sender's
// type.
static void pick_data(Message* message, Rng* rng, size_t most) {
  size_t bytes = pick_bytes(rng, most);
  bool plain = rng_chance(rng, 35);
  bool exact = plain && rng_chance(rng, 60);
  message->element = exact ? 0 : (int)rng_below(rng, (uint32_t)element_kinds());
  message->send_contiguous = rng_chance(rng, 50);
  message->recv_contiguous = rng_chance(rng, 50);
  message->send_layout = plain ? 0 : rng_next(rng) | 1;
  message->recv_layout = plain && rng_chance(rng, 70) ? 0 : rng_next(rng) | 1;
  if (rng_chance(rng, 25)) {
    message->recv_layout = message->send_layout;
    message->recv_contiguous = message->send_contiguous;
  }
  Layout* layout = layout_make(message->send_layout, message->element, message->send_contiguous);
  // Messages of many small blocks take long, so most of those above 200 KB are cut to less than 300
  // KB.
  if (layout->block_count > 6 && bytes > 200000 && !rng_chance(rng, 12)) {
    bytes = 200000 + bytes % 100000;
  }
  message->elements = bytes / layout->size * (size_t)layout->elements;
  message->bytes = message->elements * layout->element_size;
  layout_free(layout);
  message->extra_items = rng_chance(rng, 60) ? 0 : 1 + rng_below(rng, 40);
  if (rng_chance(rng, 5)) message->extra_items += 70000 / element_size_of(message->element) / 20;
  message->send_bottom = rng_chance(rng, 6);
  message->recv_bottom = rng_chance(rng, 6);
  message->ignore_status = rng_chance(rng, 20);
}

static bool is_ready(SendMode mode) {
  return mode == RSEND || mode == IRSEND || mode == RSEND_INIT;
}

static SendMode pick_send(const Player* player, Rng* rng) {
  for (;;) {
    SendMode mode = rng_chance(rng, 45) ? (rng_chance(rng, 50) ? SEND : ISEND)
                                        : (SendMode)rng_below(rng, SEND_MODE_COUNT);
    bool buffered = mode == BSEND || mode == IBSEND || mode == BSEND_INIT;
    if (buffered && !player->bsend_allowed) continue;
#ifndef HAVE_MPI4
    if (mode == SEND_C || mode == ISEND_C) continue;
#endif
    return mode;
  }
}

static RecvMode pick_recv(Rng* rng) {
  for (;;) {
    RecvMode mode = rng_chance(rng, 45) ? (rng_chance(rng, 50) ? RECV : IRECV)
                                        : (RecvMode)rng_below(rng, RECV_MODE_COUNT);
#ifndef HAVE_MPI4
    if (mode == RECV_C || mode == IRECV_C) continue;
#endif
    return mode;
  }
}

static void pick_self_modes(Message* message, Rng* rng) {
  static const SendMode free_sends[] = {ISEND, SEND_INIT, ISSEND};
  static const RecvMode free_recvs[] = {IRECV, RECV_INIT};
  message->recv_first = rng_chance(rng, 50);
  if (message->recv_first) {
    message->recv = free_recvs[rng_below(rng, 2)];
  } else {
    message->send = free_sends[rng_below(rng, 3)];
  }
}

// Replaces the buffered send modes by unbuffered ones, since MPICH 4.0 and 5.0 get the size or
// signature of buffered messages of pair types wrong.
static SendMode unbuffered(SendMode mode) {
  if (mode == BSEND) return SEND;
  if (mode == IBSEND) return ISEND;
  return mode == BSEND_INIT ? SEND_INIT : mode;
}

static Message message_make(const Player* player, Rng* rng, int round, int step) {
  static const int tags[] = {0, 1, 2, 7, 32767};
  Message message;
  memset(&message, 0, sizeof message);
  message.id = mix2(mix2(player->seed, (uint64_t)round), rng_next(rng));
  message.source = (int)rng_below(rng, (uint32_t)player->ranks);
  message.target = (int)rng_below(rng, (uint32_t)player->ranks);
  if (message.source == message.target && rng_chance(rng, 75)) {
    message.target = (message.source + 1) % player->ranks;
  }
  message.comm = pick_comm(player, rng, message.source, message.target);
  message.tag = tags[rng_below(rng, 5)];
  message.any_tag = rng_chance(rng, 15);
  message.send = pick_send(player, rng);
  message.recv = pick_recv(rng);
  if (message.source == message.target) pick_self_modes(&message, rng);
  if (is_ready(message.send)) {
    message.tag = TAG_READY + step;
    message.comm = COMM_BASE;  // other communicators may change between the receive and the send
    message.recv = rng_chance(rng, 50) ? IRECV : RECV_INIT;
    message.any_tag = false;
    message.recv_first = true;
  }
  pick_data(&message, rng, options.max_bytes);
  if (element_is_composed(message.element)) message.send = unbuffered(message.send);
  return message;
}

static void plan_message(const Player* player, Step* step, Rng* rng, int round, int index) {
  step->count = 1;
  step->messages = malloc(sizeof(Message));
  step->messages[0] = message_make(player, rng, round, index);
}

static void plan_gather(const Player* player, Step* step, Rng* rng, int round, int index) {
  if (player->ranks == 1) {
    plan_message(player, step, rng, round, index);
    step->kind = STEP_MESSAGE;
    return;
  }
  step->target = (int)rng_below(rng, (uint32_t)player->ranks);
  do {
    step->comm = (CommKind)rng_below(rng, COMMS);
  } while (step->comm == COMM_SELF || step->comm == COMM_SPLIT);
  step->count = rng_range(rng, 1, 4 * player->ranks);
  step->messages = calloc((size_t)step->count, sizeof(Message));
  bool any_tag = rng_chance(rng, 50);
  int element, kept = 0;
  do {
    element = (int)rng_below(rng, (uint32_t)element_kinds());
  } while (element_is_composed(element));
  for (int i = 0; i < step->count; ++i) {
    Message message = message_make(player, rng, round, index);
    do {
      message.source = (int)rng_below(rng, (uint32_t)player->ranks);
    } while (message.source == step->target);
    message.target = step->target;
    message.comm = step->comm;
    if (rank_in(player, step->comm, message.source, message.target) < 0) continue;
    message.tag = TAG_GATHER + (any_tag ? (int)rng_below(rng, 4) : index);
    message.any_tag = any_tag;
    message.any_source = true;
    message.ignore_status = false;
    if (is_ready(message.send)) message.send = ISEND;
    if (message.recv == RECVSENDRECV) message.recv = RECV;
    size_t bytes = message.bytes;
    Layout* layout = layout_make(message.send_layout, element, message.send_contiguous);
    message.element = element;
    message.elements = bytes / layout->size * (size_t)layout->elements;
    message.bytes = message.elements * layout->element_size;
    layout_free(layout);
    step->messages[kept++] = message;
  }
  step->count = kept;
}

// Plans an exchange: each rank sends to the next in a permutation of the ranks. Some sends and
// receives are with MPI_PROC_NULL (target -1) instead.
static void plan_exchange(const Player* player, Step* step, Rng* rng, int round, int index) {
  static const CommKind comms[] = {COMM_BASE, COMM_DUP, COMM_REVERSED};
  int ranks = player->ranks;
  step->comm = comms[rng_below(rng, 3)];
  step->count = ranks;
  step->messages = malloc(sizeof(Message) * (size_t)ranks);
  step->repeats = rng_chance(rng, 50);  // all messages have one size and type
  int* to = malloc(sizeof(int) * (size_t)ranks);
  for (int i = 0; i < ranks; ++i) to[i] = i;
  for (int i = ranks - 1; i > 0; --i) {
    int j = (int)rng_below(rng, (uint32_t)i + 1), keep = to[i];
    to[i] = to[j];
    to[j] = keep;
  }
  for (int i = 0; i < ranks; ++i) {
    Message message = message_make(player, rng, round, index);
    uint64_t id = message.id;
    if (step->repeats && i > 0) message = step->messages[0];
    message.id = id;
    message.source = i;
    message.target = rng_chance(rng, 8) ? -1 : to[i];
    message.comm = step->comm;
    message.tag = TAG_EXCHANGE + index;
    message.any_tag = false;
    if (step->repeats) {
      message.recv_layout = message.send_layout;
      message.recv_contiguous = message.send_contiguous;
      message.extra_items = 0;
      message.send_bottom = message.recv_bottom = false;
    }
    step->messages[i] = message;
  }
  free(to);
}

static void plan_persistent(const Player* player, Step* step, Rng* rng, int round, int index) {
  static const SendMode sends[] = {SEND_INIT, SEND_INIT, SSEND_INIT, ISEND};
  static const RecvMode recvs[] = {RECV_INIT, RECV_INIT, IRECV};
  step->repeats = rng_range(rng, 2, 5);
  step->count = rng_range(rng, 1, 6);
  step->messages = malloc(sizeof(Message) * (size_t)step->count);
  for (int i = 0; i < step->count; ++i) {
    Message* message = &step->messages[i];
    *message = message_make(player, rng, round, index);
    message->send = sends[rng_below(rng, 4)];
    message->recv = recvs[rng_below(rng, 3)];
    message->tag = TAG_PERSISTENT + i;
    message->any_tag = false;
  }
}

static StepKind pick_step(Rng* rng) {
  int way = rng_range(rng, 0, 99);
  if (way < 60) return STEP_MESSAGE;
  if (way < 64) return STEP_PACK;
  if (way < 70) return STEP_GATHER;
  if (way < 78) return STEP_EXCHANGE;
  if (way < 83) return STEP_PERSISTENT;
  if (way < 94) return STEP_COLLECTIVE;
  if (way < 96) return STEP_CANCEL;
  if (way < 98) return STEP_NULL;
  return STEP_RENEW;
}

static void plan_step(const Player* player, Step* step, Rng* rng, int round, int index) {
  memset(step, 0, sizeof *step);
  step->kind = index == 0 ? STEP_PREPOST : pick_step(rng);
  step->seed = rng_next(rng);
  switch (step->kind) {
    case STEP_MESSAGE:
    case STEP_PACK:
      plan_message(player, step, rng, round, index);
      break;
    case STEP_GATHER:
      plan_gather(player, step, rng, round, index);
      break;
    case STEP_EXCHANGE:
      plan_exchange(player, step, rng, round, index);
      break;
    case STEP_PERSISTENT:
      plan_persistent(player, step, rng, round, index);
      break;
    case STEP_COLLECTIVE:
      step->collective = (Collective)rng_below(rng, COLLECTIVE_COUNT);
      step->comm = (CommKind)rng_below(rng, COMM_INTER);
      if (step->collective == INTER_BCAST) step->comm = COMM_INTER;
      break;
    case STEP_RENEW:
      step->comm = (CommKind)rng_below(rng, COMMS);
      break;
    default:
      break;
  }
}

Plan plan_make(const Player* player, int round) {
  Rng rng = {mix2(player->seed, 0x706c616eu + (uint64_t)round)};
  Plan plan;
  plan.count = options.steps;
  plan.steps = malloc(sizeof(Step) * (size_t)plan.count);
  for (int i = 0; i < plan.count; ++i) plan_step(player, &plan.steps[i], &rng, round, i);
  return plan;
}

void plan_free(Plan* plan) {
  for (int i = 0; i < plan->count; ++i) free(plan->steps[i].messages);
  free(plan->steps);
}
