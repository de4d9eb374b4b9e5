// SPDX-License-Identifier: BSD-3-Clause
//
// A differential fuzzer for point-to-point messages and collectives.
//
// usage: mpiexec -n N fuzz [--seed S] [--rounds R] [--first-round F] [--steps K] [--max-bytes B]
//                          [--threads T] [--crowd T] [--timeout SECONDS] [--stats] [--verbose] [--list]
//
// On success rank 0 prints a line with messages, bytes, and a hash over all observations. The hash
// depends on the seed and the options alone, so it is the same, plain and helped, under all MPI
// libraries for which the fuzzer is compiled with the same calls and types. On failure the program
// prints the message and the command to repeat the round, and aborts with 3. If a round does not
// finish in time, each rank prints its place (round, step, call) and ends with 86.
#include "fuzz.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Options options = {.seed = 1, .rounds = 20, .max_bytes = 3u << 20, .timeout_s = 60, .steps = 40};

const char* const send_names[] = {SEND_MODES(AS_NAME)};
const char* const recv_names[] = {RECV_MODES(AS_NAME)};
const char* const exchange_names[] = {EXCHANGES(AS_NAME)};
const char* const completion_names[] = {COMPLETIONS(AS_NAME)};
const char* const step_names[] = {STEPS(AS_NAME)};
const char* const collective_names[] = {COLLECTIVES(AS_NAME)};
const char* const comm_names[] = {"world", "dup", "split", "reversed", "self", "intercomm"};

static void list_names(const char* title, const char* const* names, int count) {
  printf("%s:", title);
  for (int i = 0; i < count; ++i) printf(" %s", names[i]);
  printf("\n");
}

static void list_features(void) {
  list_names("steps", step_names, STEP_COUNT);
  list_names("sends", send_names, SEND_MODE_COUNT);
  list_names("receives", recv_names, RECV_MODE_COUNT);
  list_names("exchanges", exchange_names, EXCHANGE_COUNT);
  list_names("completions", completion_names, COMPLETION_COUNT);
  list_names("collectives", collective_names, COLLECTIVE_COUNT);
  list_names("communicators", comm_names, COMMS);
  printf("elements:");
  for (int i = 0; i < element_kinds(); ++i) printf(" %s", element_name_of(i));
  printf("\n");
}

static int usage(const char* word) {
  fprintf(stderr, "fuzz: %s: unknown option or missing value (see the head of fuzz.c)\n", word);
  return 2;
}

// Parses the arguments. Returns the exit status if the program must end at once, else -1.
static int parse(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const char* word = argv[i];
    if (strcmp(word, "--stats") == 0) {
      options.stats = true;
    } else if (strcmp(word, "--verbose") == 0) {
      options.verbose = true;
    } else if (strcmp(word, "--list") == 0) {
      list_features();
      return 0;
    } else if (i + 1 >= argc) {
      return usage(word);
    } else {
      unsigned long long value = strtoull(argv[++i], NULL, 0);
      if (strcmp(word, "--seed") == 0)
        options.seed = value;
      else if (strcmp(word, "--rounds") == 0)
        options.rounds = (int)value;
      else if (strcmp(word, "--first-round") == 0)
        options.first_round = (int)value;
      else if (strcmp(word, "--steps") == 0)
        options.steps = (int)value;
      else if (strcmp(word, "--max-bytes") == 0)
        options.max_bytes = (size_t)value;
      else if (strcmp(word, "--threads") == 0)
        options.threads = (int)value;
      else if (strcmp(word, "--crowd") == 0)
        options.crowd = (int)value;
      else if (strcmp(word, "--timeout") == 0)
        options.timeout_s = (int)value;
      else
        return usage(word);
    }
  }
  return -1;
}

static void* play(void* argument) {
  Player* player = argument;
  for (int i = 0; i < options.rounds; ++i) {
    if (options.verbose && player->rank == 0) {
      fprintf(stderr, "fuzz: player %d round %d\n", player->thread, options.first_round + i);
    }
    if (options.crowd > 0) {
      play_crowd(player, options.first_round + i);
    } else {
      play_round(player, options.first_round + i);
    }
    watch_progress();
  }
  return NULL;
}

static void players_make(Player* players, int count) {
  for (int i = 0; i < count; ++i) {
    Player* player = &players[i];
    player->thread = i;
    player->seed = mix2(options.seed, (uint64_t)i);
    // MPI has a single buffer for buffered sends in a process, so only the first player (an
    // independent run of the plan, in its own thread) may make such sends.
    player->bsend_allowed = i == 0;
    MPI_Comm_dup(MPI_COMM_WORLD, &player->parent);
    MPI_Comm_rank(player->parent, &player->rank);
    MPI_Comm_size(player->parent, &player->ranks);
    comms_make(player);
  }
}

static void players_run(Player* players, int count) {
  if (options.threads == 0) {
    play(&players[0]);
    return;
  }
  pthread_t threads[64];
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, play, &players[i]);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

static void print_used(const char* title, const char* const* names, const uint64_t* used,
                       int count) {
  printf("%s:", title);
  for (int i = 0; i < count; ++i) printf(" %s %llu", names[i], (unsigned long long)used[i]);
  printf("\n");
}

static void print_stats(const Player* player) {
  print_used("steps", step_names, player->used_step, STEP_COUNT);
  print_used("sends", send_names, player->used_send, SEND_MODE_COUNT);
  print_used("receives", recv_names, player->used_recv, RECV_MODE_COUNT);
  print_used("exchanges", exchange_names, player->used_exchange, EXCHANGE_COUNT);
  print_used("completions", completion_names, player->used_completion, COMPLETION_COUNT);
  print_used("collectives", collective_names, player->used_collective, COLLECTIVE_COUNT);
}

static void report(Player* players, int count) {
  uint64_t mine[3] = {0, 0, 0}, all[3];
  for (int i = 0; i < count; ++i) {
    mine[0] += players[i].messages;
    mine[1] += players[i].bytes;
    mine[2] += players[i].hash;
  }
  MPI_Allreduce(mine, all, 3, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (players[0].rank != 0) return;
  if (options.stats) print_stats(&players[0]);
  printf("fuzz: ok seed %llu ranks %d threads %d rounds %d messages %llu bytes %llu hash %016llx\n",
         (unsigned long long)options.seed, players[0].ranks, options.threads, options.rounds,
         (unsigned long long)all[0], (unsigned long long)all[1], (unsigned long long)all[2]);
}

int main(int argc, char** argv) {
  int early = parse(argc, argv);
  if (early >= 0) return early;
  const bool has_threads = options.threads > 0 || options.crowd > 0;
  int wanted = has_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, provided;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  if (provided < wanted) {
    printf("SKIP this MPI library has no MPI_THREAD_MULTIPLE\n");
    MPI_Finalize();
    return 0;
  }
  int count = options.threads > 0 ? options.threads : 1;
  if (count > 64) return usage("--threads");
  if (options.crowd > 16) return usage("--crowd");
  Player* players = calloc((size_t)count, sizeof *players);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  players_make(players, count);
  watch_start(players, count);
  players_run(players, count);
  report(players, count);
  for (int i = 0; i < count; ++i) {
    comms_free(&players[i]);
    MPI_Comm_free(&players[i].parent);
    free(players[i].pending);
    free(players[i].resting);
  }
  free(players);
  MPI_Finalize();
  return 0;
}
