// SPDX-License-Identifier: BSD-3-Clause
//
// Random one-sided operations, compared with a serial model.
//
//   rma [--seed N] [--rounds N] [--first-round N]
//
// Each round makes a window of a random kind and has one epoch of a random kind. The window of
// every rank has three parts: `common`, to which all origins apply one operation, with overlaps; a
// `slice` for each origin, on which only that origin works, in order; and counters. Every rank
// knows the plan of all ranks. A rank computes the final contents of its own window, with
// MPI_Reduce_local for single elements, and the results that its own operations must fetch. The
// values are chosen so that the order of origins does not change the results.
#include "rma.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPERATIONS = 6, MOST_INCREMENTS = 20, SLICE = 3000, LARGE_SLICE = 30000 };

static Options options = {1, 0, 30};

// ---- The plan of a round ------------------------------------------------------------------------

typedef enum { PUT, GET, ACCUMULATE, GET_ACCUMULATE, FETCH, FORMS } Form;

typedef struct {
  Form form;
  bool with_request;
  bool in_common;
  int target;
  int first;  // `there` begins at this element of the part
  MPI_Op op;
  Places origin, there, result;  // the places of `there` are offsets from `first`
} Operation;

typedef struct {
  int round;
  Kind kind;  // kind of the window
  Epoch epoch;
  Basic basic;    // type of the elements
  MPI_Op common;  // operation on the common part
  int common_elements, slice_elements;
  int operations;
  int increments;  // increments of each counter, by each origin
} Plan;

static Plan plan_of(int round) {
  Random random = random_for(options.seed, round, -1);
  Plan plan = {.round = round,
               .kind = (Kind)below(&random, KINDS),
               .epoch = (Epoch)below(&random, EPOCHS),
               .basic = any_basic(&random)};
  const bool large = below(&random, 4) == 0;
  plan.slice_elements = large ? LARGE_SLICE : SLICE;
  plan.common_elements = plan.slice_elements;
  do {
    plan.common = any_op(&random, plan.basic);
  } while (plan.common == MPI_NO_OP);
  plan.operations = 1 + below(&random, MOST_OPERATIONS);
  plan.increments = below(&random, MOST_INCREMENTS);
  return plan;
}

// Draws an operation. In epochs of locks the operations may overlap in the target's slice for this
// origin, because the origin can flush between them. Otherwise each operation has a part of the
// slice for itself.
static Operation operation_of(const Plan* plan, Random* random, int number) {
  Operation made = {.form = (Form)below(random, FORMS),
                    .with_request = below(random, 3) == 0,
                    .in_common = below(random, 2) == 0,
                    .target = below(random, ranks)};
  made.op = made.in_common ? plan->common : any_op(random, plan->basic);
  if (made.in_common) made.form = ACCUMULATE;
  if (made.form == ACCUMULATE && made.op == MPI_NO_OP) made.op = MPI_REPLACE;
  int room = plan->slice_elements;
  if (!made.in_common && !is_passive(plan->epoch)) {
    room /= MOST_OPERATIONS;
    made.first = number * room;
  }
  const int elements = made.form == FETCH ? 1 : 1 + below(random, room / 4);
  made.there = any_places(random, plan->basic, elements, room);
  made.origin = any_places(random, plan->basic, elements, 2 * room);
  made.result = any_places(random, plan->basic, elements, 2 * room);
  return made;
}

// ---- The parts of a window ----------------------------------------------------------------------

// The offset of the part that all origins share, in bytes from the beginning of a rank's memory.
static size_t common_at(void) { return 64; }
static size_t slice_at(const Plan* plan, int origin) {
  const size_t element = (size_t)plan->basic.extent;
  return 64 + element * ((size_t)plan->common_elements + (size_t)origin * plan->slice_elements);
}
static size_t window_bytes(const Plan* plan) { return slice_at(plan, ranks) + 64; }
static size_t part_of(const Plan* plan, const Operation* operation, int origin) {
  const size_t part = operation->in_common ? common_at() : slice_at(plan, origin);
  return part + (size_t)operation->first * (size_t)plan->basic.extent;
}

// ---- The serial model ---------------------------------------------------------------------------

static void apply(const Plan* plan, MPI_Op op, void* target, const void* origin) {
  if (op == MPI_NO_OP) return;
  if (op == MPI_REPLACE) {
    memcpy(target, origin, (size_t)plan->basic.extent);
  } else {
    MPI_Reduce_local(origin, target, 1, plan->basic.type, op);
  }
}

// Fills the origin buffer of an operation. In the part that all origins share, operations of
// different origins overlap. A replacing operation therefore writes a value that depends on the
// place alone.
static void fill_origin(const Plan* plan, const Operation* operation, Random* random,
                        unsigned char* buffer) {
  const size_t extent = (size_t)plan->basic.extent;
  for (int i = 0; i < operation->origin.elements; ++i) {
    unsigned char* at = buffer + extent * (size_t)operation->origin.offset[i];
    if (operation->in_common && operation->op == MPI_REPLACE) {
      write_value(plan->basic, at, operation->there.offset[i] % 100 + 1, operation->op);
    } else {
      write_value(plan->basic, at, below(random, 200), operation->op);
    }
  }
}

static bool fetches(const Operation* operation) {
  return operation->form == GET || operation->form == GET_ACCUMULATE || operation->form == FETCH;
}

static MPI_Op op_applied(const Operation* operation) {
  if (operation->form == PUT) return MPI_REPLACE;
  return operation->form == GET ? MPI_NO_OP : operation->op;
}

// Applies one operation to a model of the target's memory, and writes what the operation must fetch
// to `result`, which may be null.
static void play_on_model(const Plan* plan, const Operation* operation, unsigned char* part,
                          const unsigned char* origin, unsigned char* result) {
  const size_t extent = (size_t)plan->basic.extent;
  for (int i = 0; i < operation->there.elements; ++i) {
    unsigned char* target = part + extent * (size_t)operation->there.offset[i];
    if (result != NULL && fetches(operation)) {
      memcpy(result + extent * (size_t)operation->result.offset[i], target, extent);
    }
    apply(plan, op_applied(operation), target,
          origin + extent * (size_t)operation->origin.offset[i]);
  }
}

// ---- Playing a round ----------------------------------------------------------------------------

static void issue(const Plan* plan, const Operation* op, const Window* window, void* origin,
                  void* result, MPI_Request* request) {
  const MPI_Aint at = displacement(window, op->target, part_of(plan, op, rank));
  const Places *o = &op->origin, *t = &op->there, *r = &op->result;
  const bool asked = op->with_request && is_passive(plan->epoch);
  *request = MPI_REQUEST_NULL;
  switch (op->form) {
    case PUT:
      if (asked) {
        MPI_Rput(origin, 1, o->type, op->target, at, 1, t->type, window->win, request);
      } else {
        MPI_Put(origin, 1, o->type, op->target, at, 1, t->type, window->win);
      }
      break;
    case GET:
      if (asked) {
        MPI_Rget(result, 1, r->type, op->target, at, 1, t->type, window->win, request);
      } else {
        MPI_Get(result, 1, r->type, op->target, at, 1, t->type, window->win);
      }
      break;
    case ACCUMULATE:
      if (asked) {
        MPI_Raccumulate(origin, 1, o->type, op->target, at, 1, t->type, op->op, window->win,
                        request);
      } else {
        MPI_Accumulate(origin, 1, o->type, op->target, at, 1, t->type, op->op, window->win);
      }
      break;
    case GET_ACCUMULATE:
      if (asked) {
        MPI_Rget_accumulate(origin, 1, o->type, result, 1, r->type, op->target, at, 1, t->type,
                            op->op, window->win, request);
      } else {
        MPI_Get_accumulate(origin, 1, o->type, result, 1, r->type, op->target, at, 1, t->type,
                           op->op, window->win);
      }
      break;
    default: {
      const MPI_Aint extent = plan->basic.extent;
      MPI_Fetch_and_op(
          (char*)origin + extent * o->offset[0], (char*)result + extent * r->offset[0],
          plan->basic.type, op->target,
          displacement(window, op->target,
                       part_of(plan, op, rank) + (size_t)extent * (size_t)t->offset[0]),
          op->op, window->win);
    }
  }
}

// All ranks increment two counters at the beginning of rank 0's window: the first by
// MPI_Fetch_and_op, the second by MPI_Compare_and_swap.
static void count(const Plan* plan, const Window* window, long* fetched) {
  const MPI_Aint added = displacement(window, 0, 0);
  const MPI_Aint swapped = displacement(window, 0, sizeof(long));
  static const long one = 1;
  for (int i = 0; i < plan->increments; ++i) {
    MPI_Fetch_and_op(&one, &fetched[i], MPI_LONG, 0, added, MPI_SUM, window->win);
  }
  for (int i = 0; is_passive(plan->epoch) && i < plan->increments; ++i) {
    for (long expected = 0, before = -1;; expected = before) {
      const long wanted = expected + 1;
      MPI_Compare_and_swap(&wanted, &expected, &before, MPI_LONG, 0, swapped, window->win);
      MPI_Win_flush(0, window->win);
      if (before == expected) break;
    }
  }
}

typedef struct {
  Operation operation;
  unsigned char *origin, *result, *expected;
} Step;

// Starts this rank's operations. Applies them to its models of the slices (the parts of the
// targets' memory that only this rank accesses).
static int play(const Plan* plan, const Window* window, Step* steps, unsigned char** slices,
                long* fetched) {
  Random random = random_for(options.seed, plan->round, rank);
  const size_t bytes = 2 * (size_t)plan->slice_elements * (size_t)plan->basic.extent;
  MPI_Request requests[MOST_OPERATIONS];
  begin_epoch(window, plan->epoch);
  for (int i = 0; i < plan->operations; ++i) {
    Step* step = &steps[i];
    step->operation = operation_of(plan, &random, i);
    step->origin = calloc(1, bytes);
    step->result = malloc(bytes);
    step->expected = malloc(bytes);
    memset(step->result, 0xee, bytes);
    memset(step->expected, 0xee, bytes);
    fill_origin(plan, &step->operation, &random, step->origin);
    const Operation* operation = &step->operation;
    if (!operation->in_common) {
      unsigned char* part = slices[operation->target];
      part += (size_t)operation->first * (size_t)plan->basic.extent;
      play_on_model(plan, operation, part, step->origin, step->expected);
    }
    issue(plan, operation, window, step->origin, step->result, &requests[i]);
    if (is_passive(plan->epoch)) MPI_Win_flush(operation->target, window->win);
  }
  count(plan, window, fetched);
  MPI_Waitall(plan->operations, requests, MPI_STATUSES_IGNORE);
  end_epoch(window, plan->epoch);
  return plan->operations;
}

// Applies the operations of all origins to the model of this rank's memory.
static void play_all_on_model(const Plan* plan, unsigned char* memory) {
  const size_t bytes = 2 * (size_t)plan->slice_elements * (size_t)plan->basic.extent;
  unsigned char* buffer = calloc(1, bytes);
  for (int origin = 0; origin < ranks; ++origin) {
    Random random = random_for(options.seed, plan->round, origin);
    for (int i = 0; i < plan->operations; ++i) {
      Operation operation = operation_of(plan, &random, i);
      fill_origin(plan, &operation, &random, buffer);
      if (operation.target == rank) {
        play_on_model(plan, &operation, memory + part_of(plan, &operation, origin), buffer, NULL);
      }
      forget_places(&operation.origin);
      forget_places(&operation.there);
      forget_places(&operation.result);
    }
  }
  if (rank == 0) {
    ((long*)memory)[0] = (long)plan->increments * ranks;
    ((long*)memory)[1] = is_passive(plan->epoch) ? (long)plan->increments * ranks : 0;
  }
  free(buffer);
}

static void fill_memory(const Plan* plan, unsigned char* memory) {
  memset(memory, 0, window_bytes(plan));
  const size_t elements = (size_t)plan->common_elements + (size_t)ranks * plan->slice_elements;
  for (size_t i = 0; i < elements; ++i) {
    write_value(plan->basic, memory + common_at() + i * (size_t)plan->basic.extent, (int)(i % 100),
                MPI_SUM);
  }
}

static void check(const Plan* plan, const unsigned char* got, const unsigned char* wanted,
                  size_t bytes, const char* what) {
  // A long double of x86 has ten bytes of value and six bytes of padding, which are not compared.
  const bool padded = plan->basic.type == MPI_LONG_DOUBLE && LDBL_MANT_DIG == 64;
  for (size_t i = 0; i < bytes; ++i) {
    if (padded && i % 16 >= 10) continue;
    CHECK(got[i] == wanted[i],
          "%s: byte %zu of %zu is %02x, not %02x; round %d: %s window, %s, %s elements", what, i,
          bytes, got[i], wanted[i], plan->round, name_of_kind(plan->kind),
          name_of_epoch(plan->epoch), plan->basic.name);
  }
}

static void play_round(int round) {
  const Plan plan = plan_of(round);
  const size_t bytes = window_bytes(&plan);
  Window window = make_window(plan.kind, bytes);
  unsigned char* expected = malloc(bytes);
  fill_memory(&plan, window.memory);
  fill_memory(&plan, expected);
  unsigned char** slices = malloc((size_t)ranks * sizeof(unsigned char*));
  for (int target = 0; target < ranks; ++target) {
    const size_t size = (size_t)plan.slice_elements * (size_t)plan.basic.extent;
    slices[target] = malloc(size);
    memcpy(slices[target], expected + slice_at(&plan, rank), size);
  }
  Step steps[MOST_OPERATIONS];
  long fetched[MOST_INCREMENTS] = {0};
  MPI_Barrier(MPI_COMM_WORLD);
  const int played = play(&plan, &window, steps, slices, fetched);
  play_all_on_model(&plan, expected);
  check(&plan, window.memory, expected, bytes, "the window");
  for (int i = 0; i < played; ++i) {
    const size_t size = 2 * (size_t)plan.slice_elements * (size_t)plan.basic.extent;
    check(&plan, steps[i].result, steps[i].expected, size, "what was fetched");
    forget_places(&steps[i].operation.origin);
    forget_places(&steps[i].operation.there);
    forget_places(&steps[i].operation.result);
    free(steps[i].origin);
    free(steps[i].result);
    free(steps[i].expected);
  }
  long own = 0;
  long sum = 0;
  for (int i = 0; i < plan.increments; ++i) own += fetched[i];
  MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  const long all = (long)plan.increments * ranks;
  CHECK(sum == all * (all - 1) / 2, "round %d: the fetched counts sum up to %ld", round, sum);
  for (int target = 0; target < ranks; ++target) free(slices[target]);
  free(slices);
  free(expected);
  free_window(&window);
}

int main(int argc, char** argv) {
  begin(&argc, &argv);
  options = read_options(argc, argv);
  for (int round = options.first_round; round < options.first_round + options.rounds; ++round) {
    play_round(round);
  }
  return end();
}
