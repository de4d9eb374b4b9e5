/* SPDX-License-Identifier: BSD-3-Clause */
/* Adds the numbers below 1000 by ten light tasks, in C. */
#include <manyhands/ult.h>
#include <stdio.h>

struct part {
  int from;
  int to;
  int sum;
};

static void add(void* argument) {
  struct part* part = argument;
  part->sum = 0;
  for (int i = part->from; i < part->to; ++i) part->sum += i;
}

static void add_all(void* argument) {
  struct part parts[10];
  mh_ult_task* tasks[10];
  int* sum = argument;
  for (int i = 0; i < 10; ++i) {
    parts[i] = (struct part){100 * i, 100 * (i + 1), 0};
    if (mh_ult_spawn(add, &parts[i], &tasks[i]) != MH_ULT_OK) return;
  }
  for (int i = 0; i < 10; ++i) {
    if (mh_ult_join(tasks[i]) != MH_ULT_OK) return;
    *sum += parts[i].sum;
  }
}

int main(void) {
  int sum = 0;
  mh_ult_scheduler* scheduler = NULL;
  if (mh_ult_start(NULL, &scheduler) != MH_ULT_OK) return 1;
  if (mh_ult_run(scheduler, add_all, &sum) != MH_ULT_OK) return 1;
  mh_ult_finish(scheduler);
  printf("the sum is %d\n", sum);
  return 0;
}
