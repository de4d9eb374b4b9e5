// SPDX-License-Identifier: BSD-3-Clause
// SHARED_FOR, the directive of a shared loop. The three builds of a program differ in nothing else.
//
// -DWORKSHARE=plain   no directive: the loop of an ordinary MPI program
// -DWORKSHARE=openmp  `#pragma omp parallel for`: threads of the rank take part (-fopenmp)
// -DWORKSHARE=shared  `#pragma ws for`: waiting ranks of the node take part (mhcc)
//
// SHARED_FOR(clauses) stands on its own line before a canonical `for` and takes the clauses that
// OpenMP and Workshare have in common. The clause CHUNKS(size) hands out chunks of `size`
// iterations while the loop runs; -DSTATIC_LOOPS leaves this clause out. With
// -DSTEAL_SCHEDULE="guided,4" every shared loop has the clause steal_schedule(guided,4). Limit: a
// variable that only a clause mentions is unused in the plain build, so the clauses of the programs
// name members of structures.
#ifndef WORKSHARE_LOOPS_H
#define WORKSHARE_LOOPS_H

#define LOOPS_plain 1
#define LOOPS_openmp 2
#define LOOPS_shared 3
#define LOOPS_NUMBER_OF(word) LOOPS_##word
#define LOOPS_NUMBER(word) LOOPS_NUMBER_OF(word)
#define LOOPS_TEXT_OF(...) #__VA_ARGS__
#define LOOPS_TEXT(...) LOOPS_TEXT_OF(__VA_ARGS__)
#define LOOPS_PRAGMA(text) _Pragma(text)
#define LOOPS_DIRECTIVE(...) LOOPS_PRAGMA(LOOPS_TEXT(__VA_ARGS__))

#if LOOPS_NUMBER(WORKSHARE) == LOOPS_plain
#define SHARED_FOR(...)
#elif LOOPS_NUMBER(WORKSHARE) == LOOPS_openmp
#define SHARED_FOR(...) LOOPS_DIRECTIVE(omp parallel for __VA_ARGS__)
#elif LOOPS_NUMBER(WORKSHARE) == LOOPS_shared && defined(STEAL_SCHEDULE)
#define SHARED_FOR(...) LOOPS_DIRECTIVE(ws for __VA_ARGS__ steal_schedule(STEAL_SCHEDULE))
#elif LOOPS_NUMBER(WORKSHARE) == LOOPS_shared
#define SHARED_FOR(...) LOOPS_DIRECTIVE(ws for __VA_ARGS__)
#else
#error "say how loops are run: -DWORKSHARE=plain, -DWORKSHARE=openmp or -DWORKSHARE=shared"
#endif

#ifdef STATIC_LOOPS
#define CHUNKS(size)
#else
#define CHUNKS(size) schedule(dynamic, size)
#endif

// The name of this build: "plain", "openmp" or "shared".
#define LOOPS_VARIANT LOOPS_TEXT(WORKSHARE)

// Returns the number of OpenMP threads of this rank that run a loop (build `openmp`), or 1 (the
// other builds). Helpers on lent cores do not count.
#if LOOPS_NUMBER(WORKSHARE) == LOOPS_openmp
#include <omp.h>
static inline int loops_threads(void) { return omp_get_max_threads(); }
#else
static inline int loops_threads(void) { return 1; }
#endif

#endif
