/* SPDX-License-Identifier: BSD-3-Clause */
/* A helper has the owner's thread state, as far as a loop body can see it. In each case every
 * iteration of a loop checks one part of the state; the loop runs until helpers have done
 * iterations.
 *
 * Prints `case NAME ok|WRONG joined|alone`. */
#include <errno.h>
#include <fenv.h>
#include <float.h>
#include <immintrin.h>
#include <locale.h>
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { N = 300, MOST = 4000, ENOUGH = 20 };
static long others, wrong;
static locale_t locale;
static char* pages;
static long page;

static int is_helper(void) {
  static __thread int known = -1;
  if (known < 0) {
    char name[16] = "";
    prctl(PR_GET_NAME, name);
    known = strcmp(name, "mh-helper") == 0;
  }
  return known;
}

static void work(int i, int right) {
  for (volatile int k = 0; k < 500 + i % 50; ++k) continue;
  if (is_helper()) __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
  if (!right) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

#define OVER(name, right)                                                                        \
  __attribute__((noinline)) static void name(void) {                                             \
    _Pragma("omp parallel for schedule(dynamic, 2)") for (int i = 0; i < N; ++i) work(i, right); \
  }

static volatile double zero = 0, one = 1, three = 3, tiny = DBL_MIN, infinite;
static volatile long double wide_one = 1, wide_three = 3;
static double third;
static long double wide_third;

OVER(nothing, i >= 0) /* the first case, in which helpers are made */
OVER(rounding, fegetround() == FE_UPWARD && one / three == third)
OVER(wide, wide_one / wide_three == wide_third)
OVER(flushing, tiny / 4 == 0)
OVER(locales, uselocale((locale_t)0) == locale)
OVER(errors, errno == ERANGE)

static void round_upward(void) {
  fesetround(FE_UPWARD);
  third = one / three;
}
static void narrow(void) {
  unsigned short control;
  __asm__ volatile("fnstcw %0" : "=m"(control));
  control &= (unsigned short)~0x300; /* a precision of 24 bits */
  __asm__ volatile("fldcw %0" : : "m"(control));
  wide_third = wide_one / wide_three;
}
static void flush(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
static void choose_locale(void) {
  uselocale(locale = newlocale(LC_ALL_MASK, "C.UTF-8", (locale_t)0));
}
static void fail(void) { errno = ERANGE; }
static void restore(void) {
  fesetenv(FE_DFL_ENV);
  uselocale(LC_GLOBAL_LOCALE);
}

/* The program sees a floating-point exception that only helpers raise. */
static void raise_nothing(void) { feclearexcept(FE_ALL_EXCEPT); }
__attribute__((noinline)) static void exceptions(void) {
  long raised = 0;
  feclearexcept(FE_ALL_EXCEPT);
#pragma omp parallel for schedule(dynamic, 2) reduction(+ : raised)
  for (int i = 0; i < N; ++i) {
    work(i, 1);
    if (!is_helper()) continue;
    infinite = one / zero;
    ++raised;
  }
  work(0, (fetestexcept(FE_DIVBYZERO) != 0) == (raised != 0));
}

/* The program handles its own page faults, also those of iterations by a helper. */
static void answer(int signal, siginfo_t* info, void* context) {
  (void)signal, (void)context;
  char* const at = (char*)((size_t)info->si_addr & -(size_t)page);
  if (at < pages || at >= pages + N * page) _exit(9);
  mprotect(at, (size_t)page, PROT_READ | PROT_WRITE);
}
static void answer_faults(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  page = sysconf(_SC_PAGESIZE);
  pages = mmap(NULL, (size_t)(N * page), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
__attribute__((noinline)) static void faults(void) {
  mprotect(pages, (size_t)(N * page), PROT_NONE);
#pragma omp parallel for schedule(dynamic, 2)
  for (int i = 0; i < N; ++i) {
    pages[i * page] = 7;
    work(i, pages[i * page] == 7);
  }
}

static const struct {
  const char* name;
  void (*before)(void);
  void (*run)(void);
} cases[] = {{"nothing", restore, nothing},
             {"rounding", round_upward, rounding},
             {"wide", narrow, wide},
             {"flushing", flush, flushing},
             {"locales", choose_locale, locales},
             {"errors", fail, errors},
             {"exceptions", raise_nothing, exceptions},
             {"faults", answer_faults, faults}};

static void play(int which) {
  others = wrong = 0;
  cases[which].before();
  for (int times = 0; times < MOST && (others < ENOUGH || times < 5); ++times) {
    if (cases[which].run == errors) errno = ERANGE;
    cases[which].run();
  }
  restore();
  printf("case %s %s %s\n", cases[which].name, wrong == 0 ? "ok" : "WRONG",
         others != 0 ? "joined" : "alone");
}

int main(int argc, char** argv) {
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); ++i) {
    if (rank == 0) play(i);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
