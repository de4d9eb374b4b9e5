# SPDX-License-Identifier: BSD-3-Clause
"""Writes C programs whose loops are static, for runs with virtual threads.

The run time itself does the first execution of a case. Every later execution must divide the
iterations in the same way: each iteration sees the same thread number and team size. While the
other ranks wait, rank 0 runs a case until a helper has done iterations, or a few times if the case
does not qualify.
"""

from __future__ import annotations

from openmp import cases

SCHEDULES = {
    "none": "",
    "static": "schedule(static)",
    "static_1": "schedule(static, 1)",
    "static_7": "schedule(static, 7)",
    "simd": "simd",
}
HEAD = """\
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { N = 400, FEW = 8 };
static int most = 3000;
static int seen[N], number[N], first[N];
static long others;

/* An iteration is done: the number and the team that it saw, and whether a helper did it. */
static void visit(int i) {
  char name[16] = "";
  for (volatile int k = 0; k < 150 + i % 50; ++k) continue;
  if (i < 0 || i >= N) return;
  prctl(PR_GET_NAME, name);
  __atomic_fetch_add(&seen[i], 1, __ATOMIC_RELAXED);
  number[i] = omp_get_thread_num() + 100 * omp_get_num_threads() + 10000 * omp_get_level() +
              100000 * omp_in_parallel() + 1000000 * omp_get_max_threads();
  if (strcmp(name, "mh-helper") == 0) __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
}
#define DO(i) visit(i)
"""

TAIL = """\
static const struct { const char* name; int (*run)(int); int shared; } cases[] = {
%s
};

static void play(int which) {
  others = 0;
  int right = 1, times = 0;
  const int enough = cases[which].shared ? most : FEW;
  for (; right && times < enough && (others == 0 || times < FEW); ++times) {
    memset(seen, 0, sizeof seen);
    right = cases[which].run(N);
    for (int i = 0; i < N; ++i) right = right && seen[i] == 1;
    if (times == 0) memcpy(first, number, sizeof first);
    right = right && memcmp(first, number, sizeof first) == 0;
  }
  printf("case %%s %%s %%s\\n", cases[which].name, right ? "ok" : "WRONG",
         others != 0 ? "joined" : "alone");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc > 1) most = atoi(argv[1]);
  for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); ++i) {
    if (rank == 0) play(i);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
"""

# C code of regions that can be shared, although they are not a single parallel loop.
DIVIDED = {
    "by_number": "const int most = omp_get_max_threads();\nlong own[64] = {0};\n"
    "#pragma omp parallel\n{\nconst int me = omp_get_thread_num(), all = omp_get_num_threads();\n"
    "if (all != most || omp_get_max_threads() != most) bad = 1;\n"
    "for (int i = n * me / all; i < n * (me + 1) / all; ++i) { DO(i); own[me] += i; }\n}\n"
    "long s = 0;\nfor (int i = 0; i < most; ++i) s += own[i];\n"
    "if (s != (long)n * (n - 1) / 2) bad = 1;",
    "two_loops": "#pragma omp parallel\n{\n#pragma omp for nowait\n"
    "for (int i = 0; i < n / 2; ++i) DO(i);\n#pragma omp for schedule(static, 3) nowait\n"
    "for (int i = n / 2; i < n; ++i) DO(i);\n}",
    "some_threads": "#pragma omp parallel for num_threads(5)\nfor (int i = 0; i < n; ++i) DO(i);",
    "levels": "#pragma omp parallel for\nfor (int i = 0; i < n; ++i) {\n"
    "if (omp_get_level() != 1 || omp_get_active_level() != 1 || !omp_in_parallel()) bad = 1;\n"
    "DO(i);\n}",
    "fewer_than_threads": "#pragma omp parallel\n{\n#pragma omp for nowait\n"
    "for (int i = 0; i < 3; ++i) DO(i);\n#pragma omp for nowait\n"
    "for (int i = n - 1; i >= 3; --i) DO(i);\n#pragma omp for nowait\n"
    "for (int i = n; i < 3; ++i) bad = 1;\n}",
    "a_lock": "static omp_lock_t lock;\nlong s = 0;\nomp_init_lock(&lock);\n"
    "#pragma omp parallel for\nfor (int i = 0; i < n; ++i) {\nDO(i);\n"
    "omp_set_lock(&lock);\ns += i;\nomp_unset_lock(&lock);\n"
    "}\nomp_destroy_lock(&lock);\nif (s != (long)n * (n - 1) / 2) bad = 1;",
}
# C code of regions with barriers, which can be shared.
MEETINGS = {
    "a_barrier": "int k = 0;\n#pragma omp parallel\n{\n#pragma omp for\n"
    "for (int i = 0; i < n; ++i) DO(i);\n#pragma omp atomic\nk += 1;\n}\n"
    "if (k != omp_get_max_threads()) bad = 1;",
    "many_barriers": "static int a[N], b[N];\nfor (int i = 0; i < n; ++i) a[i] = i;\n"
    "#pragma omp parallel\n{\nfor (int k = 0; k < 5; ++k) {\n#pragma omp for\n"
    "for (int i = 0; i < n; ++i) b[i] = a[n - 1 - i] + 1;\n"
    "#pragma omp for schedule(static, 5)\n"
    "for (int i = 0; i < n; ++i) a[i] = b[(i + 37) % n] + 1;\n}\n"
    "#pragma omp for nowait\nfor (int i = 0; i < n; ++i) DO(i);\n}\n"
    "long s = 0;\nfor (int i = 0; i < n; ++i) s += a[i];\n"
    "if (s != (long)n * (n - 1) / 2 + 10L * n) bad = 1;",
    "sums_between": "long s = 0, t = 0;\n#pragma omp parallel\n{\n"
    "#pragma omp for reduction(+ : s)\nfor (int i = 0; i < n; ++i) { DO(i); s += i; }\n"
    "#pragma omp for reduction(+ : t)\nfor (int i = 0; i < n; ++i) t += s - i;\n}\n"
    "const long all = (long)n * (n - 1) / 2;\nif (s != all || t != n * all - all) bad = 1;",
    "critical_between": "long s = 0;\n#pragma omp parallel\n{\n#pragma omp critical\ns += 1;\n"
    "#pragma omp barrier\nif (s != omp_get_num_threads()) bad = 1;\n#pragma omp barrier\n"
    "#pragma omp for nowait\nfor (int i = 0; i < n; ++i) {\nDO(i);\n#pragma omp critical\n"
    "s += i;\n}\n}\n"
    "if (s != (long)n * (n - 1) / 2 + omp_get_max_threads()) bad = 1;",
}
# C code of a region that adds the same numbers in each execution. LLVM's run time adds in the same
# order each time; GCC's code does not, so only Clang's programs run it.
SAME_BITS = {
    "same_bits": "static double before;\nstatic int times;\ndouble s = 0;\n"
    "#pragma omp parallel for reduction(+ : s)\n"
    "for (int i = 0; i < n; ++i) { DO(i); s += 1.0 / (3 * i + 1); }\n"
    "if (times++ == 0) before = s;\nif (s != before) bad = 1;",
}
# C code of regions that need a team of real threads, so that they must not be shared.
TEAMS = {
    "a_single": "int k = 0;\n#pragma omp parallel\n{\n#pragma omp single nowait\nk += 1;\n"
    "#pragma omp for nowait\nfor (int i = 0; i < n; ++i) DO(i);\n}\nif (k != 1) bad = 1;",
    "a_task": "int k = 0;\n#pragma omp parallel for\nfor (int i = 0; i < n; ++i) {\n"
    "#pragma omp task shared(k)\n{\n#pragma omp atomic\nk += 1;\n}\nDO(i);\n}\n"
    "if (k != n) bad = 1;",
    "a_region": "int k = 0;\n#pragma omp parallel for\nfor (int i = 0; i < n; ++i) {\nDO(i);\n"
    "#pragma omp parallel\n{\n#pragma omp atomic\nk += 1;\n}\n}\nif (k < n) bad = 1;",
}
SOMETIMES = {
    "sometimes_a_barrier": "int k = 0;\nstatic int times;\n++times;\n#pragma omp parallel\n{\n"
    "#pragma omp for nowait\nfor (int i = 0; i < n; ++i) DO(i);\nif (times % 7 == 0) {\n"
    "#pragma omp atomic\nk += 1;\n#pragma omp barrier\n"
    "if (k != omp_get_num_threads()) bad = 1;\n}\n}",
}


def _loop(clause: cases.Clause, schedule: str, name: str) -> str:
    words = f"{clause.words} {'' if schedule == 'simd' else schedule}"
    simd = "simd" if schedule == "simd" else ""
    number = "" if " i = " in clause.index else "int i = k; "
    return "\n".join(
        [
            f"static int {name}(int n) {{",
            "int bad = 0;",
            clause.before,
            f"#pragma omp parallel for {simd} {words}",
            f"for ({clause.index}) {{ {number}{clause.work} DO(i); }}",
            f"(void)n; return !bad && ({clause.right});",
            "}",
        ]
    )


def _clauses(schedule: str) -> list[cases.Clause]:
    if schedule != "simd":
        return cases.CLAUSES
    return [clause for clause in cases.CLAUSES if clause.name in {"none", "constant", "private"}]


def _row(name: str, shared: bool) -> str:
    return f'{{"{name}", {name}, {int(shared)}}},'


def one_case(region: str, before: str = "") -> str:
    """Returns a program with a single case, the function `divided`."""
    body = f"static int divided(int n) {{\nint bad = 0;\n{region}\nreturn !bad;\n}}"
    return "\n".join([HEAD, before, body, TAIL % '{"divided", divided, 1},'])


def program(compiler: str) -> str:
    """Returns all cases as one C program for this compiler."""
    functions, table = [HEAD], []
    for schedule, words in SCHEDULES.items():
        for clause in _clauses(schedule):
            name = f"{clause.name}_{schedule}"
            functions.append(_loop(clause, words, name).replace(", seen)", ")"))
            table.append(_row(name, qualifies(name)))
    for name, region in regions(compiler).items():
        functions.append(f"static int {name}(int n) {{\nint bad = 0;\n{region}\nreturn !bad;\n}}")
        table.append(_row(name, qualifies(name)))
    return "\n".join([*functions, TAIL % "\n".join(table)])


def regions(compiler: str) -> dict[str, str]:
    more = SAME_BITS if compiler.startswith("clang") else {}
    return {**DIVIDED, **MEETINGS, **SOMETIMES, **more, **TEAMS}


def qualifies(name: str) -> bool:
    return name not in TEAMS


def is_long(name: str) -> bool:
    """Returns whether a helper has time to join: not if barriers are a few microseconds apart."""
    return name not in MEETINGS and not name.startswith("first_and_last")
