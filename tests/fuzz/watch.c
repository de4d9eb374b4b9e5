// SPDX-License-Identifier: BSD-3-Clause
//
// The reports of the fuzzer: a failed check with the command to repeat it, and the place of each
// rank when a round does not finish in time.
//
// A rank that has not finished a round for `timeout` seconds gets SIGALRM. The rank then prints its
// place (round, step and call) and waits a moment, so that the launcher does not end other ranks
// before their output.
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"

static Player* watched;
static int watched_count;

void describe(const Message* message, char* out, size_t room) {
  if (message == NULL) {
    snprintf(out, room, "no message");
    return;
  }
  snprintf(out, room,
           "message %016llx: %d -> %d on %s, tag %d, %zu bytes (%zu x %s), %s%s to %s%s%s%s%s",
           (unsigned long long)message->id, message->source, message->target,
           comm_names[message->comm], message->tag, message->bytes, message->elements,
           element_name_of(message->element), send_names[message->send],
           message->send_bottom ? " from MPI_BOTTOM" : "", recv_names[message->recv],
           message->any_source ? " any source" : "", message->any_tag ? " any tag" : "",
           message->recv_bottom ? " at MPI_BOTTOM" : "",
           message->extra_items ? " with room to spare" : "");
}

static int place(const Player* player, char* out, size_t room) {
  char what[400];
  describe(player->at, what, sizeof what);
  return snprintf(out, room,
                  "fuzz: rank %d player %d round %d step %d (%s): %s, %d pending; %s\n"
                  "fuzz: repeat with --seed %llu --first-round %d --rounds 1 --steps %d "
                  "--max-bytes %zu --threads %d --crowd %d, ranks %d\n",
                  player->rank, player->thread, player->round, player->step,
                  player->now != NULL ? step_names[player->now->kind] : "?",
                  player->doing != NULL ? player->doing : "?", player->pending_count, what,
                  (unsigned long long)options.seed, player->round, options.steps, options.max_bytes,
                  options.threads, options.crowd, player->ranks);
}

static void say(const char* text, int length) {
  if (write(STDERR_FILENO, text, (size_t)length) < 0) _exit(87);
}

static void on_alarm(int signal_number) {
  (void)signal_number;
  char text[1200];
  say("fuzz: nothing moves\n", 20);
  for (int i = 0; i < watched_count; ++i) say(text, place(&watched[i], text, sizeof text));
  sleep(2);
  _exit(86);
}

void watch_start(Player* players, int count) {
  watched = players;
  watched_count = count;
  signal(SIGALRM, on_alarm);
  watch_progress();
}

void watch_progress(void) { alarm((unsigned)options.timeout_s); }

_Noreturn void fail(const Player* player, const Message* message, const char* format, ...) {
  char text[2400], what[400];
  va_list arguments;
  va_start(arguments, format);
  int length = snprintf(text, sizeof text, "fuzz: FAILED: ");
  length += vsnprintf(text + length, 900, format, arguments);
  va_end(arguments);
  describe(message, what, sizeof what);
  length += snprintf(text + length, sizeof text - (size_t)length, "\nfuzz: in %s\n", what);
  length += place(player, text + length, sizeof text - (size_t)length);
  say(text, length);
  MPI_Abort(MPI_COMM_WORLD, 3);
  _exit(3);
}
