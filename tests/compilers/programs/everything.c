// SPDX-License-Identifier: BSD-3-Clause
// A C program with every `ws` directive and clause, in a few loops. It prints numbers that do not
// depend on the threads that run the iterations, so a compiler that ignores the pragmas gives the
// same numbers.
#include <stdio.h>
#include <stdlib.h>

#define CHUNK 4
#define SIZE(n) ((n) / 50 + CHUNK)
#define NEST collapse(2)
#define PRAGMA(words) _Pragma(#words)
#define SHARED_LOOP(i, n) PRAGMA(ws for schedule(dynamic, CHUNK)) for (int i = 0; i < (n); ++i)

enum { N = 1000 };
static int data[N];
static double other[N];

struct pair {
  long a, b;
};

static void clauses(int n) {
  long sum = 0, product = 1;
  int last = -1, scratch = 7, offset = 3, both = 5;
#pragma ws for private(scratch) firstprivate(offset) lastprivate(last) \
    reduction(+ : sum) reduction(* : product) schedule(guided, SIZE(n)) \
    steal_schedule(dynamic, n / 100)
  for (int i = 0; i < n; ++i) {
    scratch = i + offset;
    sum += scratch;
    product *= i % 100 == 0 ? 2 : 1;
    last = i;
    data[i] = scratch;
  }
#pragma ws for firstprivate(both) lastprivate(both)
  for (int i = n - 1; i >= 0; i -= 3) both = i;
  printf("clauses %ld %ld %d %d %d\n", sum, product, last, data[n - 1], both);
}

static void nests(int n) {
  int histogram[8] = {0};
  unsigned long index;
#pragma ws for NEST reduction(+ : histogram[:8])
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) histogram[(i * j) % 8]++;
  for (int k = 0; k < 8; ++k) printf("%d ", histogram[k]);
  unsigned long long many = 0;
#pragma ws for schedule(static) reduction(+ : many)
  for (index = 3; index < 2000UL; index += 7) many += index;
  printf("%llu\n", many);
}

static void exclusions(int n) {
  int count = 0, read = 0;
  struct pair pair = {0, 0};
  long captured = 0;
  SHARED_LOOP(i, n) {
    int old;
#pragma ws atomic
    count += 2;
#pragma ws atomic capture
    old = read++;
#pragma ws critical
    {
      pair.a += i;
      captured += old;
    }
#pragma ws critical(of_b)
    pair.b -= i;
  }
  int seen;
#pragma ws atomic read
  seen = count;
  printf("exclusions %d %d %ld %ld %ld\n", seen, read, pair.a, pair.b, captured);
}

static void sections(int n) {
  int a = 0, b = 0, c = 0, last = 0;
  long sum = 0;
#pragma ws sections lastprivate(last) reduction(+ : sum)
  {
    a = n;
    last = 1;
    sum += 1;
#pragma ws section
    {
      for (int i = 0; i < n; ++i) {
        if (i == 3) continue;
        b += i;
        if (i > 10) break;
      }
      last = 2;
      sum += 10;
    }
#pragma ws section
    c = '}';
    last = 3;
    sum += 100;
  }
  printf("sections %d %d %d %d %ld\n", a, b, c, last, sum);
}

static void depends(int yes, int n) {
  long sum = 0;
  if (yes)
#pragma ws for reduction(+ : sum)
    for (int i = 0; i < n; ++i) sum += i;
  else
#pragma ws sections
  {
    sum = -1;
  }
  printf("depends %ld\n", sum);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : N;
#pragma omp parallel for
  for (int i = 0; i < n; ++i) other[i] = i;
  clauses(n);
  nests(30);
  exclusions(n);
  sections(n);
  depends(1, n);
  depends(0, n);
  printf("other %g\n", other[n - 1]);
  return 0;
}
