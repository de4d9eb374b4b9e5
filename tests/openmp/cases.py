# SPDX-License-Identifier: BSD-3-Clause
"""Writes C programs that combine every clause with every schedule; each case checks its result.

A *case* is a function with one parallel loop, or with a region that must not be shared. The
function returns whether the result is right. While the other ranks wait, rank 0 runs a shared case
until a helper has done iterations, and any other case a few times. Then rank 0 prints
`case NAME ok|WRONG joined|alone`.
"""

from __future__ import annotations

from dataclasses import dataclass

SCHEDULES = {
    "dynamic": "dynamic",
    "dynamic_4": "dynamic, 4",
    "guided": "guided",
    "guided_8": "guided, 8",
    "monotonic": "monotonic: dynamic, 2",
    "nonmonotonic": "nonmonotonic: dynamic, 3",
    "runtime": "runtime",
}


@dataclass(frozen=True)
class Clause:
    """A clause. `work` runs in every iteration, `right` is the check after the loop."""

    name: str
    before: str
    words: str
    work: str
    right: str
    index: str = "int i = 0; i < n; ++i"


CLAUSES = [
    Clause("none", "", "", "", "1"),
    Clause("constant", "", "", "", "1", "int i = 0; i < 400; ++i"),
    Clause("sum", "long s = 0;", "reduction(+ : s)", "s += i;", "s == (long)n * (n - 1) / 2"),
    Clause(
        "sum_and_most",
        "long s = 0; int m = -1;",
        "reduction(+ : s) reduction(max : m)",
        "s += 2 * i; if (i > m) m = i;",
        "s == (long)n * (n - 1) && m == n - 1",
    ),
    Clause(
        "sums",
        "long s[5] = {0, 0, 0, 0, 0};",
        "reduction(+ : s[:5])",
        "s[i % 5] += i;",
        "s[0] + s[1] + s[2] + s[3] + s[4] == (long)n * (n - 1) / 2",
    ),
    Clause("product", "double p = 1;", "reduction(* : p)", "p *= i % 2 ? 2 : 0.5;", "p == 1"),
    Clause("private", "int t = -1;", "private(t)", "t = i; if (t != i) bad = 1;", "t == -1"),
    Clause(
        "firstprivate", "int t = 7;", "firstprivate(t)", "if (t < 7) bad = 1; t += 1;", "t == 7"
    ),
    Clause("lastprivate", "int t = -1;", "lastprivate(t)", "t = 3 * i;", "t == 3 * (n - 1)"),
    Clause(
        "first_and_last",
        "int t = 7;",
        "firstprivate(t) lastprivate(t)",
        "if (t < 7) bad = 1; t = 7 + i;",
        "t == 7 + n - 1",
    ),
    Clause("shared_list", "long s = 0;", "default(none) shared(s, n, bad, seen)",
           "_Pragma(\"omp atomic\") s += i;", "s == (long)n * (n - 1) / 2"),
    Clause("critical", "long s = 0;", "", "_Pragma(\"omp critical\") s += i;",
           "s == (long)n * (n - 1) / 2"),
    Clause("named_critical", "long s = 0;", "", "_Pragma(\"omp critical(name)\") s += i;",
           "s == (long)n * (n - 1) / 2"),
    Clause("wide_atomic", "long double s = 0;", "", "_Pragma(\"omp atomic\") s += i;",
           "s == (long double)n * (n - 1) / 2"),
    Clause("condition", "long s = 0;", "if (n > 1) reduction(+ : s)", "s += i;",
           "s == (long)n * (n - 1) / 2"),
    Clause("team", "long s = 0;", "num_threads(2) reduction(+ : s)", "s += i;",
           "s == (long)n * (n - 1) / 2"),
    Clause("collapsed", "", "collapse(2)", "i = i * 20 + j;", "1",
           "int k = 0; k < 20; ++k) for (int j = 0; j < 20; ++j"),
    Clause("down", "int t = -1;", "lastprivate(t)", "t = i;", "t == 0",
           "int i = n - 1; i >= 0; --i"),
    Clause("down_by_3", "int t = -1;", "lastprivate(t)", "t = i; i /= 3;", "t == 0",
           "int k = 3 * (n - 1); k >= 0; k -= 3"),
    Clause("by_7", "", "", "i = k / 7;", "1", "long k = 0; k < 7L * n - 3; k += 7"),
    Clause("unsigned", "", "", "", "1", "unsigned i = 0; i < (unsigned)n; ++i"),
    Clause("wide", "", "", "i = (int)(k - (1UL << 63));", "1",
           "unsigned long k = 1UL << 63; k < (1UL << 63) + (unsigned)n; ++k"),
    Clause("wide_down", "", "", "i = (int)(k - (1UL << 63)) - 1;", "1",
           "unsigned long k = (1UL << 63) + (unsigned)n; k > 1UL << 63; --k"),
    Clause("negative", "", "", "i = (int)(k + 1000);", "1",
           "long k = -1000; k < n - 1000; ++k"),
]  # fmt: skip

# C code of parallel regions whose loops Manyhands must not share.
NOT_SHARED = {
    "fixed": "#pragma omp parallel for schedule(static)\nfor (int i = 0; i < n; ++i) DO(i);",
    "fixed_chunks": "#pragma omp parallel for schedule(static, 2)\n"
    "for (int i = 0; i < n; ++i) DO(i);",
    "ordered": "int last = -1;\n#pragma omp parallel for ordered schedule(dynamic)\n"
    "for (int i = 0; i < n; ++i) {\nDO(i);\n#pragma omp ordered\n"
    "{ if (i != last + 1) bad = 1; last = i; }\n}",
    "one_thread": "#pragma omp parallel for num_threads(1) schedule(dynamic)\n"
    "for (int i = 0; i < n; ++i) DO(i);",
    "if_not": "#pragma omp parallel for if (n < 0) schedule(dynamic)\n"
    "for (int i = 0; i < n; ++i) DO(i);",
    "two_loops": "#pragma omp parallel\n{\n#pragma omp for schedule(dynamic) nowait\n"
    "for (int i = 0; i < n / 2; ++i) DO(i);\n#pragma omp for schedule(dynamic) nowait\n"
    "for (int i = n / 2; i < n; ++i) DO(i);\n}",
    "single_first": "int k = 0;\n#pragma omp parallel\n{\n#pragma omp single\nk = 1;\n"
    "#pragma omp for schedule(dynamic)\nfor (int i = 0; i < n; ++i) { if (k != 1) bad = 1; DO(i); }"
    "\n}",
    "thread_number": "int own[64] = {0};\n#pragma omp parallel\n{\n"
    "own[omp_get_thread_num()] = 1;\n#pragma omp for schedule(dynamic)\n"
    "for (int i = 0; i < n; ++i) { if (own[omp_get_thread_num()] != 1) bad = 1; DO(i); }\n}",
    "barrier_between": "int k = 0;\n#pragma omp parallel\n{\n#pragma omp for schedule(dynamic)\n"
    "for (int i = 0; i < n; ++i) DO(i);\n#pragma omp barrier\n#pragma omp atomic\nk += 1;\n}\n"
    "if (k != omp_get_max_threads()) bad = 1;",
    "cancel": "int k = 0;\n#pragma omp parallel for schedule(dynamic)\n"
    "for (int i = 0; i < n; ++i) {\nDO(i);\n#pragma omp cancel for if (k == 1)\n}",
    "level": "#pragma omp parallel\n{\n#pragma omp for schedule(dynamic)\n"
    "for (int i = 0; i < n; ++i) { if (omp_get_level() != 1) bad = 1; DO(i); }\n}",
    "tasks": "#pragma omp parallel\n{\n#pragma omp for schedule(dynamic)\n"
    "for (int i = 0; i < n; ++i) {\n#pragma omp task firstprivate(i)\nDO(i);\n}\n}",
    "sections": "#pragma omp parallel\n{\n#pragma omp sections nowait\n{\n#pragma omp section\n"
    "DO(0);\n#pragma omp section\nDO(1);\n}\n#pragma omp for schedule(dynamic)\n"
    "for (int i = 2; i < n; ++i) DO(i);\n}",
    "doacross_after": "int a[N];\nmemset(a, 0, sizeof a);\n#pragma omp parallel\n{\n"
    "#pragma omp for schedule(dynamic) nowait\nfor (int i = 0; i < n; ++i) DO(i);\n"
    "#pragma omp for ordered(1) schedule(dynamic) nowait\nfor (int i = 0; i < n; ++i) {\n"
    "#pragma omp ordered depend(sink : i - 1)\na[i] = i == 0 ? 1 : a[i - 1] + 1;\n"
    "#pragma omp ordered depend(source)\n}\n}\n"
    "for (int i = 0; i < n; ++i) if (a[i] != i + 1) bad = 1;",
    "doacross_before": "int a[N];\nmemset(a, 0, sizeof a);\n#pragma omp parallel\n{\n"
    "#pragma omp for ordered(1) schedule(dynamic) nowait\nfor (int i = 0; i < n; ++i) {\n"
    "#pragma omp ordered depend(sink : i - 1)\na[i] = i == 0 ? 1 : a[i - 1] + 1;\n"
    "#pragma omp ordered depend(source)\n}\n"
    "#pragma omp for schedule(dynamic) nowait\nfor (int i = 0; i < n; ++i) DO(i);\n}\n"
    "for (int i = 0; i < n; ++i) if (a[i] != i + 1) bad = 1;",
    "doacross_alone": "int a[N];\nmemset(a, 0, sizeof a);\n"
    "#pragma omp parallel for ordered(1) schedule(dynamic)\n"
    "for (int i = 0; i < n; ++i) {\nDO(i);\n#pragma omp ordered depend(sink : i - 1)\n"
    "a[i] = i == 0 ? 1 : a[i - 1] + 1;\n#pragma omp ordered depend(source)\n}\n"
    "for (int i = 0; i < n; ++i) if (a[i] != i + 1) bad = 1;",
    "doacross_wide": "int a[N];\nmemset(a, 0, sizeof a);\na[0] = 1;\n#pragma omp parallel\n{\n"
    "#pragma omp for schedule(guided) nowait\nfor (int i = 0; i < n; ++i) DO(i);\n"
    "#pragma omp for ordered(1) schedule(guided) nowait\n"
    "for (unsigned long i = 1; i < (unsigned long)n; ++i) {\n"
    "#pragma omp ordered depend(sink : i - 1)\na[i] = a[i - 1] + 1;\n"
    "#pragma omp ordered depend(source)\n}\n}\n"
    "for (int i = 0; i < n; ++i) if (a[i] != i + 1) bad = 1;",
    "ordered_after": "int last = n / 2 - 1;\n#pragma omp parallel\n{\n"
    "#pragma omp for schedule(dynamic) nowait\nfor (int i = 0; i < n / 2; ++i) DO(i);\n"
    "#pragma omp for ordered schedule(dynamic) nowait\nfor (int i = n / 2; i < n; ++i) {\n"
    "DO(i);\nif (i % 2) {\n#pragma omp ordered\n"
    "{ if (i <= last) bad = 1; last = i; }\n}\n}\n}",
    "static_after": "#pragma omp parallel\n{\n#pragma omp for schedule(dynamic) nowait\n"
    "for (int i = 0; i < n / 2; ++i) DO(i);\n#pragma omp for schedule(static) nowait\n"
    "for (int i = n / 2; i < n; ++i) DO(i);\n}",
    "taskloop": "#pragma omp parallel\n{\n#pragma omp for schedule(dynamic) nowait\n"
    "for (int i = 0; i < n / 2; ++i) DO(i);\n#pragma omp master\n#pragma omp taskloop\n"
    "for (int i = n / 2; i < n; ++i) DO(i);\n}",
    "copied": "int k = 0;\n#pragma omp parallel firstprivate(k)\n{\n"
    "#pragma omp for schedule(dynamic) nowait\nfor (int i = 0; i < n; ++i) DO(i);\n"
    "#pragma omp single copyprivate(k)\nk = 1;\nif (k != 1) bad = 1;\n}",
    "nested": "#pragma omp parallel for schedule(dynamic, 50)\n"
    "for (int k = 0; k < n; k += 50) {\n#pragma omp parallel for schedule(dynamic)\n"
    "for (int i = k; i < k + 50; ++i) DO(i);\n}",
}  # fmt: skip
# Cases of NOT_SHARED that a helper may join all the same. "nested": the outer loop is shared, and
# each thread runs the inner loop alone. "cancel": Clang's code does not call the run time while the
# condition of the `cancel` directive is false.
MAY_JOIN = {"nested", "cancel"}

# Cases for which both compilers emit a barrier, because no thread may write before all threads have
# read.
HAS_BARRIER = {"first_and_last"}

LASTPRIVATE = {c.name for c in CLAUSES if "lastprivate" in c.words}

HEAD = """\
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { N = 400 };
static int most = 3000; /* executions in which a helper may join; the first argument */
static int seen[N];
static long others;
static pid_t self;

/* No helper has joined for long: on a busy machine another thread may need this core for it. */
static int patient;

/* An iteration is done: some hundred nanoseconds, and which thread did it. */
static void visit(int i) {
  if (patient && i % 64 == 0) sched_yield();
  for (volatile int k = 0; k < 150 + i % 50; ++k) continue;
  if (i < 0 || i >= N) return;
  __atomic_fetch_add(&seen[i], 1, __ATOMIC_RELAXED);
  if ((pid_t)syscall(SYS_gettid) != self) __atomic_fetch_add(&others, 1, __ATOMIC_RELAXED);
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
  for (; right && times < (cases[which].shared ? most : 40); ++times) {
    memset(seen, 0, sizeof seen);
    patient = times > 500;
    right = cases[which].run(N);
    for (int i = 0; i < N; ++i) right = right && seen[i] == 1;
    if (others != 0 && times > 4) break;
  }
  printf("case %%s %%s %%s\\n", cases[which].name, right ? "ok" : "WRONG",
         others != 0 ? "joined" : "alone");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (argc > 1) most = atoi(argv[1]);
  self = (pid_t)syscall(SYS_gettid);
  for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); ++i) {
    if (rank == 0) play(i);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
"""


def _shared_case(name: str, clause: Clause, schedule: str) -> str:
    lines = [f"static int {name}(int n) {{", "int bad = 0;", clause.before]
    lines += [f"#pragma omp parallel for {clause.words} schedule({schedule})"]
    number = "" if " i = " in clause.index else "int i = k; "
    lines += [f"for ({clause.index}) {{ {number}{clause.work} DO(i); }}"]
    lines += [f"(void)n; return !bad && ({clause.right});", "}"]
    return "\n".join(lines)


def _other_case(name: str, region: str) -> str:
    return f"static int {name}(int n) {{\nint bad = 0;\n{region}\nreturn !bad;\n}}"


# The schedules of marked loops (`ws` directives). `steal_schedule` decides the chunks of helpers.
MARKED_SCHEDULES = {
    "static": "schedule(static)",
    "dynamic": "schedule(dynamic) steal_schedule(dynamic, 16)",
    "dynamic_4": "schedule(dynamic, 4) steal_schedule(guided, 2)",
    "guided": "schedule(guided) steal_schedule(static, 5)",
    "runtime": "schedule(runtime)",
    "unspecified": "",
}
OMP_ONLY = {"shared_list", "condition", "team"}
MARKED_CLAUSES = [clause for clause in CLAUSES if clause.name not in OMP_ONLY]


def _marked_case(name: str, clause: Clause, schedule: str) -> str:
    text = _shared_case(name, clause, "X").replace("schedule(X)", schedule)
    return text.replace("#pragma omp parallel for", "#pragma ws for").replace('("omp ', '("ws ')


def marked_program() -> str:
    """Returns the program with marked loops, all of which are shared."""
    functions, table = [HEAD], []
    for schedule, words in MARKED_SCHEDULES.items():
        for clause in MARKED_CLAUSES:
            name = f"{clause.name}_{schedule}"
            functions.append(_marked_case(name, clause, words))
            table.append(f'{{"{name}", {name}, {int(clause.name not in HAS_BARRIER)}}},')
    return "\n".join([*functions, TAIL % "\n".join(table)])


def program() -> str:
    """Returns all cases as one C program."""
    functions, table = [HEAD], []
    for schedule, words in SCHEDULES.items():
        for clause in CLAUSES:
            name = f"{clause.name}_{schedule}"
            functions.append(_shared_case(name, clause, words))
            table.append(f'{{"{name}", {name}, {int(clause.name not in HAS_BARRIER)}}},')
    for name, region in NOT_SHARED.items():
        functions.append(_other_case(name, region))
        table.append(f'{{"{name}", {name}, 0}},')
    return "\n".join([*functions, TAIL % "\n".join(table)])


def named_like(clauses: set[str]) -> set[str]:
    return {f"{clause}_{schedule}" for clause in clauses for schedule in SCHEDULES}


def expected() -> dict[str, set[str]]:
    """Returns the allowed results of each case."""
    ends = {
        f"{c.name}_{s}": {"alone"} if c.name in HAS_BARRIER else {"joined"}
        for s in SCHEDULES
        for c in CLAUSES
    }
    for name in NOT_SHARED:
        ends[name] = {"alone", "joined"} if name in MAY_JOIN else {"alone"}
    return ends
