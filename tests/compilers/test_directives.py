# SPDX-License-Identifier: BSD-3-Clause
"""Tests, without a compiler, the text that replaces a directive, and refused directives."""

from __future__ import annotations

import re

import pytest
from manyhands_compilers import clike, fortran
from manyhands_compilers.exclusion import WIDE_ATOMICS, lock_number
from manyhands_compilers.places import Faults, place_of

FOR = "#pragma omp parallel for num_threads(__mh_ws_mark ? __mh_ws_mark({}) : 1) schedule({})"
DO = "!$omp parallel do num_threads(mh_ws_mark({})) schedule(nonmonotonic:guided,1)"


def shared(marks: str, schedule: str = "nonmonotonic:guided,1") -> str:
    """Returns the new directive; a team that the library does not serve uses `schedule`."""
    return FOR.format(marks, schedule)


def dynamic(marks: str, chunk: str) -> str:
    return shared(marks, f"nonmonotonic:dynamic,{chunk}")


ANY = shared("0, 0L, 0, 0L")
LAST = shared("0, 0L, 0, 0L", "monotonic:guided,1")
BY_CALL = shared("3, (long)(f(a, b) + 1), 0, 0L", "nonmonotonic:guided,f(a, b) + 1")

C_TABLE = [
    ("for", ANY),
    ("for private(a, b) collapse(2)", ANY + " private(a, b) collapse(2)"),
    ("for lastprivate(a),private(b)", LAST + " lastprivate(a) private(b)"),
    ("for reduction(+ : s[0:n], t)", ANY + " reduction(+ : s[0:n], t)"),
    ("for schedule(static)", shared("1, 0L, 0, 0L")),
    ("for schedule ( dynamic , 4 )", dynamic("2, 4L, 0, 0L", "4")),
    ("for schedule(guided, f(a, b) + 1)", BY_CALL),
    ("for schedule(runtime)", shared("4, 0L, 0, 0L", "nonmonotonic:runtime")),
    ("for schedule(auto)", shared("5, 0L, 0, 0L")),
    ("for schedule(nonmonotonic: dynamic, a ? b : c)",
     dynamic("2, (long)(a ? b : c), 0, 0L", "a ? b : c")),
    ("for steal_schedule(guided,8)", shared("0, 0L, 3, 8L")),
    ("for schedule(static,n) steal_schedule(dynamic)", dynamic("1, (long)(n), 2, 0L", "n")),
]  # fmt: skip


def c(text: str, **request: object) -> str:
    return clike.rewrite(f'# 1 "a.c"\n{text}\n', clike.Request("c", **request))  # type: ignore[arg-type]


def free(text: str, **request: object) -> str:
    return fortran.rewrite(f'# 1 "a.f90"\n{text}\n', fortran.Request(False, **request))  # type: ignore[arg-type]


def fixed(text: str, **request: object) -> str:
    return fortran.rewrite(f'# 1 "a.f"\n{text}\n', fortran.Request(True, **request))  # type: ignore[arg-type]


@pytest.mark.parametrize(("directive", "line"), C_TABLE)
def test_c(directive: str, line: str) -> None:
    rewritten = c(f"int x;\n  # pragma ws {directive}\n;")
    assert rewritten.splitlines()[-2:] == [line, ";"]


# --- critical and atomic: rewritten to locks --------------------------------------------------

LOCKED = '{{ if ({0}__mh_ws_lock) __mh_ws_lock({1}ULL);\n# 1 "a.c"\n{2}\n{3} '
LOCKED += "if ({0}__mh_ws_unlock) __mh_ws_unlock({1}ULL); }}"
WIDE = lock_number(WIDE_ATOMICS)

STATEMENTS = [
    "x += 1;",
    "{ x += 1; y(); }",
    'if (a) { b(); } else for (;;) c(";");',
    "do x++; while (y(2));",
    "while (a) switch (b) { case 1: c; }",
    "v[f(1, 2)] = (struct s){.a = 1}.a;",
    "if (a) if (b) c(); else d();",
]


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("name", ["", "name"])
def test_a_critical_statement_has_the_lock_of_its_name(statement: str, name: str) -> None:
    words = f"critical({name})" if name else "critical"
    omp = "#pragma omp critical (name)" if name else "#pragma omp critical"
    rewritten = c(f"#pragma ws {words}\n{statement}\nafter();")
    assert LOCKED.format("", lock_number(name), omp, statement) + "\nafter();" in rewritten


def test_every_name_of_a_critical_section_has_a_number_of_its_own() -> None:
    numbers = {lock_number(name) for name in ("", "a", "b", "A", WIDE_ATOMICS)}
    assert len(numbers) == 5
    assert all(0 < number < 1 << 63 for number in numbers)


ATOMICS = [
    ("", "x += 1;", "x"),
    ("", "x[i == 2] <<= a <= b;", "x[i == 2]"),
    ("", "--p->x;", "p->x"),
    ("update", "x = x * f(y = 2);", "x"),
    ("write", "x = y;", "x"),
    ("read", "v = x;", "v", "x"),
    ("capture seq_cst", "v = x++;", "v", "x"),
    ("capture", "v = x += y;", "v", "x"),
    ("capture", "{ v = x; x -= 2; }", "v", "x"),
    ("capture", "{ ++x; v = x; }", "x", "v"),
]


@pytest.mark.parametrize(("clauses", "statement", *"ab"), [(*a, "")[:4] for a in ATOMICS])
def test_a_wide_atomic_update_takes_the_lock_of_all(
    clauses: str, statement: str, a: str, b: str
) -> None:
    widths = " || ".join(f"sizeof({operand}) > 8" for operand in (a, b) if operand)
    omp = f"#pragma omp atomic {clauses}".strip()
    rewritten = c(f"#pragma ws atomic {clauses}\n{statement}")
    assert LOCKED.format(f"({widths}) && ", WIDE, omp, statement) in rewritten


def test_tasks_are_refused_with_what_to_do() -> None:
    for refusal in (lambda: c("#pragma ws task\nf();"), lambda: free("!$ws task\ncall f()")):
        with pytest.raises(Faults, match=r"'task' is refused: .* share a loop over the array"):
            refusal()


def test_line_markers_are_no_part_of_a_variable() -> None:
    rewritten = c('#pragma ws atomic\n# 7 "a.c"\n  x\n# 7 "a.c"\n [3] += 1;')
    assert "(sizeof(x [3]) > 8)" in rewritten


def test_what_is_excluded_must_follow() -> None:
    for directive in ("critical", "atomic"):
        with pytest.raises(Faults) as refused:
            c(f"#pragma ws {directive}\n")
        assert f"a.c:1: error: 'ws {directive}' must be followed by a statement" in str(
            refused.value
        )


# --- the rewritten source as a whole ------------------------------------------------------------


def test_cxx_converts_by_static_cast() -> None:
    text = "#pragma ws for schedule(dynamic, std::max(a, 2))"
    line = clike.rewrite(text, clike.Request("c++")).splitlines()[-1]
    assert line == shared(
        "2, static_cast<long>(std::max(a, 2)), 0, 0L", "nonmonotonic:dynamic,std::max(a, 2)"
    )


def test_declaration_is_between_markers_after_the_lines_that_name_the_source() -> None:
    text = '# 0 "a.c"\n# 0 "/home//"\n# 0 "<built-in>"\n# 1 "a.c"\n#pragma ws atomic\nx++;\n'
    lines = clike.rewrite(text, clike.Request("c++")).splitlines()
    assert lines[:3] == ['# 0 "a.c"', '# 0 "/home//"', '# 1 "<manyhands>" 3']
    assert lines[3].startswith('extern "C" int __mh_ws_mark(int, long, int, long) __attribute__')
    assert lines[4].startswith("# ") and lines[5:7] == ['# 0 "<built-in>"', '# 1 "a.c"']


def test_lines_are_kept() -> None:
    text = "int a;\n#pragma ws for\nfor (;;) {}\n#pragma ws critical\n{}\nint last;"
    rewritten = c(text)
    for line, words in enumerate(text.splitlines(), 1):
        if "#" not in words and words in rewritten:
            assert place_of(rewritten, rewritten.rindex(words)) == ("a.c", line)


def test_omp_pragmas_of_the_user_stay_only_with_openmp() -> None:
    text = "#pragma ws atomic\nx++;\n#pragma omp parallel\n#pragma omp simd\nint last;"
    assert "omp parallel" not in c(text) and "omp simd" not in c(text)
    assert "omp parallel" in c(text, openmp=True) and "omp simd" in c(text, openmp=True)
    assert "omp parallel" not in c(text, openmp_simd=True)
    assert "omp simd" in c(text, openmp_simd=True)


def test_declared_reductions_stay() -> None:
    declaration = "#pragma omp declare reduction(sum : struct s : add(&omp_out, &omp_in))"
    assert declaration in c(f"{declaration}\n#pragma ws atomic\nx++;")
    declaration = "!$omp declare reduction(add : t : &\n!$omp omp_out%x)"
    assert declaration in free(f"{declaration}\n!$omp master\n!$ws atomic\nx = x + 1")
    declaration = "!$omp declare reduction(add : t :\n!$omp& omp_out%x)"
    assert declaration in fixed(f"{declaration}\n!$omp master\n!$ws atomic\n      x = x + 1")


def test_what_only_looks_like_a_directive_is_left_alone() -> None:
    raw = 'const char* a = R"x( "quoted"\n#pragma ws nonsense\n#pragma omp nonsense\n)x";'
    text = f"#pragma ws atomic\nx++;\n{raw}\n/*\n#pragma ws nonsense\n*/"
    assert raw in c(text)


def test_sections_become_a_loop_over_a_switch() -> None:
    block = "{\nf();\n#pragma ws section\n{ g(); }\n#pragma ws section\nh('}');\n}"
    rewritten = c(f"#pragma ws sections private(p)\n{block}")
    assert (
        shared("2, 1L, 2, 1L", "nonmonotonic:dynamic,1") + " private(p)\nfor (__mh_ws_section = 0;"
        in rewritten
    )
    expected = (
        "{ case 0: {\nf();\n} break; case 1: {\n{ g(); }\n} break; case 2: {\nh('}');\n} break; }"
    )
    assert "__mh_ws_section < 3;" in rewritten and expected in rewritten


def test_first_section_may_have_its_directive() -> None:
    rewritten = c("#pragma ws sections\n{\n#pragma ws section\nf();\n#pragma ws section\ng();\n}")
    assert "{\ncase 0: {\nf();\n} break; case 1: {\ng();\n} break; }" in rewritten


# --- rewritten Fortran ------------------------------------------------------------------------

FORTRAN_TABLE = [
    ("do", DO.format("0_4, 0_8, 0_4, 0_8")),
    ("DO Private(a)", DO.format("0_4, 0_8, 0_4, 0_8") + " private(a)"),
    ("end do", "!$omp end parallel do"),
    ("enddo", "!$omp end parallel do"),
    ("atomic write", "!$omp atomic write"),
    ("end atomic", "!$omp end atomic"),
    ("critical (x) ! why", "!$omp critical (x)"),
    ("critical (X)", f"      call mh_ws_lock({lock_number('x')}_8)"),
    ("critical\n!$ws end critical", f"      call mh_ws_unlock({lock_number('')}_8)"),
    ("end critical (x)", "!$omp end critical (x)"),
]


def unwrapped(text: str) -> str:
    """Joins the lines of each OpenMP directive, and removes needless blanks."""
    joined = re.sub(r"\s*&\n!\$omp ", " ", re.sub(r"\n!\$omp&", "", text))
    return re.sub(r"(?<=[(,]) +| +(?=[(,)])", "", joined)


@pytest.mark.parametrize(("directive", "line"), FORTRAN_TABLE)
def test_fortran(directive: str, line: str) -> None:
    for rewritten in (free(f"x = 1\n   !$ws {directive}"), fixed(f"      x = 1\nc$ws {directive}")):
        # The wanted line must be a line of its own. A line marker, which restores the compiler's
        # line number, may follow it.
        assert unwrapped(line) in unwrapped(rewritten).splitlines()


FORTRAN_ATOMICS = [
    ("!$ws atomic\nx(i) = x(i) + f('=')\ny = 2", "x(i)", "y = 2"),
    ("!$ws atomic\nx = x + &\n  1\n!$ws end atomic\ny = 2", "x", "y = 2"),
    ("!$ws atomic read\nv = z%x", "v", "z%x", ""),
    ("!$ws atomic capture\nv = x\nx = y\n!$ws end atomic\ny = 2", "v", "x", "y", "y = 2"),
    ("!$ws atomic\nx = 1\n!$ws atomic\nx = 2", "x", "!$omp atomic"),
]


@pytest.mark.parametrize("case", FORTRAN_ATOMICS)
def test_a_wide_atomic_update_of_fortran_is_locked(case: tuple[str, ...]) -> None:
    text, *variables, after = case
    rewritten = re.sub(r" &\n *", " ", free(text))
    widths = " .or. ".join(f"storage_size({variable}) > 64" for variable in variables)
    before, behind = (f"if ({widths}) call mh_ws_{what}({WIDE}_8)" for what in ("lock", "unlock"))
    assert re.sub(r"\s+", "", before) in re.sub(r"\s+", "", rewritten)
    assert rewritten.index("!$omp atomic") > rewritten.index("mh_ws_lock")
    unlocked = rewritten[rewritten.index("mh_ws_unlock") :]
    assert re.sub(r"\s+", "", behind) in re.sub(r"\s+", "", rewritten)
    assert after in unlocked and "!$omp end atomic" not in unlocked


def test_fortran_chunk_is_converted() -> None:
    rewritten = unwrapped(free("!$ws do schedule(dynamic, n) steal_schedule(static, 3)"))
    assert "mh_ws_mark(2_4,int(n,8),1_4,3_8)" in rewritten


def test_free_form_continuation() -> None:
    text = "!$ws do schedule(dynamic, & ! why\n  !$ws & n) &\n!$ws private(q)\ndo i = 1, n"
    rewritten = unwrapped(free(text))
    assert "mh_ws_mark(2_4,int(n,8),0_4,0_8)" in rewritten and "private(q)" in rewritten
    assert rewritten.splitlines()[-2:] == ['# 4 "a.f90"', "do i = 1,n"]


@pytest.mark.parametrize("sentinel", ["c$ws", "C$WS", "*$ws", "!$ws"])
@pytest.mark.parametrize("mark", [" &", "&", " 1", " +"])
def test_fixed_form_continuation(sentinel: str, mark: str) -> None:
    rewritten = unwrapped(
        fixed(f"{sentinel} do private(p,\n{sentinel}{mark} q)\n      do i = 1, n")
    )
    assert "private(p,q)" in rewritten
    assert rewritten.splitlines()[-1] == "      do i = 1,n"


def test_fixed_form_keeps_to_72_columns() -> None:
    names = ", ".join(f"some_variable_{number}" for number in range(20))
    rewritten = fixed(f"      x = 1\n!$ws do private({names}) \n      do i = 1, n", columns=0)
    assert max(len(line) for line in rewritten.splitlines()) <= 72
    assert unwrapped(f"private({names})") in unwrapped(rewritten)


UNITS = """\
module m
  use a
  implicit none
  interface
    subroutine s(x)
      integer :: x
    end subroutine
    module procedure t
  end interface
contains
  recursive integer(kind=4) function f(x, &
      y)
    use b, only: c
    implicit none
    integer :: x
    !$ws do
    do i = 1, 2
    end do
  contains
    subroutine g
    end subroutine
  end function f
end module m
"""


def test_declarations_go_where_the_procedure_allows_them() -> None:
    lines = free(UNITS).splitlines()
    at = lines.index("      interface")
    assert lines[at - 1] == "    implicit none" and lines[at - 2] == "    use b, only: c"
    assert lines[at + 6 : at + 8] == ['# 15 "a.f90"', "    integer :: x"]
    assert lines.count("      interface") == 1


def test_use_within_a_block_construct_is_no_place_for_declarations() -> None:
    text = "program p\nimplicit none\nx = 1\nblock\nuse m\nend block\n!$ws do\ndo i = 1, 2\nend do"
    lines = free(text).splitlines()
    assert lines[lines.index("      interface") - 1] == "implicit none"


def test_main_program_without_a_statement() -> None:
    lines = fixed("      implicit none\n      integer i\nc$ws do\n      do i = 1, 2").splitlines()
    assert lines[1] == "      implicit none" and lines[2] == "      interface"


def test_fortran_sections() -> None:
    text = "x = 1\n!$ws sections\na = 1\n!$ws section\nb = 1\n!$ws end sections\ny = 1"
    for rewritten in (free(text), fixed(text.replace("\n", "\n      ").replace("      !", "!"))):
        words = [line.strip() for line in rewritten.splitlines()]
        begin = words.index("do mh_ws_section = 0, 1")
        end = words.index("y = 1")
        body = [w for w in words[begin + 1 : end] if not w.startswith("#")]
        assert body == [
            *("select case (mh_ws_section)", "case (0)", "a = 1", "case (1)", "b = 1"),
            *("end select", "end do", "!$omp end parallel do"),
        ]
        assert words[end - 1].startswith("# 7 ")


def test_openmp_of_fortran_stays_only_if_asked_for() -> None:
    text = "!$ws do\ndo i = 1, 2\nend do\n  !$ x = 1\n!$omp parallel\n!$acc loop"
    assert "  !- x = 1\n!-omp parallel\n!$acc loop" in free(text)
    assert "  !$ x = 1\n!$omp parallel\n" in free(text, openmp=True)


# --- directives that are refused --------------------------------------------------------------

REFUSED = [
    ("for nowait", "'nowait' is refused: a shared loop ends only when .* remove 'nowait'"),
    ("for ordered", "'ordered' is refused: .* any order"),
    ("for ordered(1)", "'ordered' is refused"),
    ("ordered", "'ordered' is refused"),
    ("cancel for", "'cancel' is refused"),
    ("for num_threads(2)", "'num_threads' is refused"),
    (
        "for reduction(task, + : s)",
        r"'reduction\(task, ...\)' is refused: .* without this modifier",
    ),
    ("for reduction(inscan, + : s)", r"'reduction\(inscan, ...\)' is refused"),
    ("for privat(a)", "unknown clause 'privat' of 'ws for': did you mean 'private'?"),
    ("for shared(a)", "unknown clause 'shared' of 'ws for'"),
    ("fro", "unknown directive 'fro': did you mean 'for'?"),
    ("parallel for", "unknown directive 'parallel'"),
    ("", "a directive is missing after 'ws'"),
    ("for steal_schedule(static) steal_schedule(static)", "'steal_schedule' is given twice"),
    ("for schedule(static) schedule(static)", "'schedule' is given twice"),
    ("for schedule(dynamik)", "unknown kind 'dynamik' of 'schedule': did you mean 'dynamic'?"),
    ("for steal_schedule(runtime)", "unknown kind 'runtime' of 'steal_schedule'"),
    ("for schedule(dynamic,)", "a chunk size is missing"),
    ("for schedule(runtime, 2)", "'runtime' takes no chunk size"),
    ("for schedule(monotonic: dynamic)", "'monotonic' of 'schedule' is refused"),
    ("for schedule(sometimes: dynamic)", "unknown modifier 'sometimes'"),
    ("for schedule", "'schedule' needs an argument"),
    ("for private", "'private' needs an argument"),
    ("for collapse(2", "a parenthesis is not closed"),
    ("for + 3", "expected a clause before"),
    ("atomic reed", "unknown clause 'reed' of 'ws atomic': did you mean 'read'?"),
    ("atomic read(3)", "'read' takes no argument"),
    ("critical (a, b)", "expected a name in parentheses or nothing after 'critical'"),
    ("section", "'ws section' outside of 'ws sections'"),
    ("sections schedule(static)", "unknown clause 'schedule' of 'ws sections'"),
    ("sections", "'ws sections' must be followed by a block in braces"),
]


@pytest.mark.parametrize(("directive", "message"), REFUSED)
def test_refused(directive: str, message: str) -> None:
    with pytest.raises(Faults) as caught:
        c(f'int x;\n# 20 "in\\"c.h"\n\n#pragma ws {directive}\nx = 1;\n')
    assert re.match(rf'in"c.h:21: error: .*{message}', caught.value.lines[0]), caught.value.lines


def test_all_faults_are_told() -> None:
    with pytest.raises(Faults) as caught:
        c("#pragma ws for nowait\n;\n#pragma ws atomic what\n;")
    assert [line.split(" error")[0] for line in caught.value.lines] == ["a.c:1:", "a.c:3:"]


def test_conditional_lastprivate_depends_on_the_compiler() -> None:
    text = "#pragma ws for lastprivate(conditional: x)\nfor (;;) {}"
    assert "lastprivate(conditional: x)" in c(text)
    with pytest.raises(Faults, match="refused with Clang: .* use GCC"):
        c(text, clang=True)


LOOP = "#pragma ws for\nfor (int i = 0; i < n; ++i)"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{LOOP} {{\n{LOOP} f();\n}}", 3),
        (f"{LOOP}\n{LOOP} f();", 3),
        (f"{LOOP} {{\n#pragma ws sections\n{{ f(); }}\n}}", 3),
        (f"#pragma ws sections\n{{\n{LOOP} f();\n}}", 3),
    ],
)
def test_nested(text: str, line: int) -> None:
    with pytest.raises(Faults, match=rf"a.c:{line}: .* within the 'ws \w+' of line 1 is refused"):
        c(text)
    assert c(f"{LOOP} f();\n{LOOP} {{ g(); }}\n#pragma ws sections\n{{ f(); }}")


def test_cancel_of_openmp_within() -> None:
    text = f"{LOOP} {{\n#pragma omp cancel for\n}}"
    assert c(text)
    with pytest.raises(Faults, match="a.c:3: error: 'cancel' is refused"):
        c(text, openmp=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n!$ws end do nowait", "a.f90:2: error: 'nowait' is refused"),
        ("x = 1\n!$ws for", "a.f90:2: error: unknown directive 'for'"),
        ("x = 1\n!$ws do &\n!$ws privat(x)", "a.f90:2: error: .* did you mean 'private'?"),
        ("!$ws sections\nx = 1", "a.f90:1: error: .* without 'ws end sections'; add 'ws end"),
        ("!$ws section", "a.f90:1: error: .* without 'ws sections' before it"),
        (
            "!$ws do\ndo i=1,2\n!$ws do\ndo j=1,2\nend do\nend do",
            "a.f90:3: error: .* line 1 is ref",
        ),
    ],
)
def test_fortran_refused(text: str, message: str) -> None:
    with pytest.raises(Faults, match=message):
        free(text)


def test_fortran_loops_one_after_the_other_are_not_nested() -> None:
    loop = "!$ws do\ndo i = 1, 2\ndo j = 1, 2\nend do\nend do"
    assert free(f"x = 1\n{loop}\n!$ws end do\n{loop}\n{loop}")
