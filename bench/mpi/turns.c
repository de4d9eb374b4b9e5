// SPDX-License-Identifier: BSD-3-Clause
// Takes turns between launches by bytes in FIFOs. See turns.h.
#define _GNU_SOURCE
#include "turns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure.h"

enum { kRoom = 4096 };
static int own = -1;   // read end of this rank's FIFO; -1: this launch takes no turns
static int next = -1;  // write end of the FIFO of the same rank of the next launch

static int fifo(const char* place, size_t length, int rank, int how) {
  char path[kRoom];
  snprintf(path, sizeof path, "%.*s.%d", (int)length, place, rank);
  const int fd = open(path, how | O_CLOEXEC);
  if (fd < 0) fail("BENCH_TURN names a place without a FIFO for this rank");
  return fd;
}

static void wait_for_turn(void) {
  char turn;
  ssize_t got;
  do {
    got = read(own, &turn, 1);
  } while (got < 0 && errno == EINTR);
  if (got != 1) fail("the launches beside this one are gone");
}

static void give_on(void) {
  ssize_t given;
  do {
    given = write(next, "t", 1);
  } while (given < 0 && errno == EINTR);
  if (given != 1) fail("the turn cannot be given on");
}

void turns_next(void) {
  if (own < 0) return;
  give_on();
  wait_for_turn();
}

void turns_begin(int rank) {
  const char* places = getenv("BENCH_TURN");
  if (places == NULL) return;
  const char* comma = strchr(places, ',');
  if (comma == NULL) fail("BENCH_TURN is PLACE,NEXT");
  own = fifo(places, (size_t)(comma - places), rank, O_RDONLY);
  next = fifo(comma + 1, strlen(comma + 1), rank, O_WRONLY);
  wait_for_turn();
  turns_next();  // returns after every launch has started MPI
}

void turns_end(void) {
  if (own < 0) return;
  turns_next();  // returns after every launch has measured
  give_on();
}
