# SPDX-License-Identifier: BSD-3-Clause
"""Tests the checks of scripts/lint: arrows, licence lines, prose and commit subjects."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def lint() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("lint", str(ROOT / "scripts" / "lint"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("lint", loader))
    loader.exec_module(module)
    return module


@pytest.fixture
def repository(lint: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_a_type_name_is_used_once(lint: ModuleType, repository: Path) -> None:
    write(repository, "src/base/a.hpp", "struct Way;\nclass Way final {\n  struct Part {};\n};\n")
    write(repository, "libs/ult/b.hpp", "class Way;\nenum class Shape : int { round };\n")
    write(repository, "tests/unit/c.cpp", "struct Way {};\nstruct Part {};\n")
    assert lint.type_faults() == []
    write(repository, "libs/ult/d.cpp", "struct alignas(64) Way : Base {\n};\nunion Shape {};\n")
    assert lint.type_faults() == [
        "libs/ult/d.cpp: libs/ult/b.hpp has a type Shape, too: rename one of them",
        "src/base/a.hpp: libs/ult/d.cpp has a type Way, too: rename one of them",
    ]


@pytest.mark.parametrize(
    ("file", "includes", "fault"),
    [
        ("src/base/a.hpp", "steal/job.hpp", "src/base may not use src/steal"),
        ("src/steal/a.hpp", "base/x.hpp", None),
        ("src/steal/a.hpp", "steal/x.hpp", None),
        ("src/steal/a.hpp", "wait/x.hpp", "src/steal may not use src/wait"),
        ("src/steal/a.hpp", "../wait/x.hpp", "src/steal may not use src/wait"),
        ("src/mpi/front/a.c", "p2p/x.hpp", None),
        ("src/mpi/calls/a.cpp", "mpi/rndv/x.hpp", None),
        (
            "src/mpi/datatype/a.cpp",
            "mpi/rndv/x.hpp",
            "src/mpi/datatype may not use src/mpi/rndv",
        ),
        ("tests/unit/a.cpp", "mpi/x.hpp", None),
        ("src/observe/a.cpp", "base/generated.inc", None),
        ("src/p2p/a.cpp", "mpi/generated.inc", "src/p2p may not use src/mpi"),
        ("libs/lci/a.cpp", "ult/x.hpp", None),
        ("libs/ult/a.cpp", "base/x.hpp", None),
        (
            "libs/tasks/a.cpp",
            "ult/x.hpp",
            "libs/tasks may not use libs/ult, which stands beside it",
        ),
        ("libs/ult/a.cpp", "wait/x.hpp", "libs/ult may not use src/wait"),
        ("src/wait/a.cpp", "ult/x.hpp", "src/wait may not use libs/ult"),
        ("src/base/a.hpp", "../../libs/ult/x.hpp", "src/base may not use libs/ult"),
        ("tests/unit/a.cpp", "ult/x.hpp", None),
    ],
)
def test_arrows(
    lint: ModuleType, repository: Path, file: str, includes: str, fault: str | None
) -> None:
    write(repository, "src/wait/x.hpp", "")
    write(repository, "libs/ult/x.hpp", "")
    write(repository, file, f'// text\n#include "{includes}"\n')
    faults = lint.arrow_faults()
    if fault is None:
        assert faults == []
    else:
        assert len(faults) == 1
        assert faults[0].startswith(f"{file}:2: {fault}")


def test_files_of_one_room_have_an_order(lint: ModuleType, repository: Path) -> None:
    write(repository, "src/wait/a.hpp", "")
    write(repository, "src/wait/a.cpp", '#include "wait/a.hpp"\n#include "wait/b.hpp"\n')
    write(repository, "src/wait/b.hpp", "")
    assert lint.arrow_faults() == []
    write(repository, "src/wait/b.cpp", '#include "wait/b.hpp"\n#include "wait/a.hpp"\n')
    faults = lint.arrow_faults()
    assert len(faults) == 1
    assert "src/wait/a" in faults[0]
    assert "src/wait/b" in faults[0]


def test_a_file_of_the_library_has_a_limit(lint: ModuleType, repository: Path) -> None:
    write(repository, "src/wait/long.cpp", "\n" * (lint.MOST_LINES + 1))
    write(repository, "libs/ult/long.cpp", "\n" * (lint.MOST_LINES + 1))
    write(repository, "src/wait/short.cpp", "\n" * lint.MOST_LINES)
    write(repository, "tests/unit/long.cpp", "\n" * (lint.MOST_LINES + 1))
    too_long = [fault.split(":")[0] for fault in lint.length_faults()]
    assert too_long == ["libs/ult/long.cpp", "src/wait/long.cpp"]


def test_a_room_without_a_place_is_a_fault(lint: ModuleType, repository: Path) -> None:
    write(repository, "src/cellar/a.hpp", "")
    write(repository, "libs/cellar/a.hpp", "")
    assert lint.arrow_faults() == [
        f"{folder}/cellar/a.hpp: scripts/lint lists no such folder; add it to an order"
        for folder in ("libs", "src")
    ]


def test_the_command_line_imports_no_tests(lint: ModuleType, repository: Path) -> None:
    write(repository, "cli/manyhands/a.py", "import json\nfrom tests import x\n")
    assert len(lint.arrow_faults()) == 1


@pytest.mark.parametrize(
    ("file", "module", "good"),
    [
        ("cli/manyhands/a.py", "manyhands_bench.cases", True),
        ("cli/manyhands/a.py", "manyhands_compilers.main", False),
        ("cli/manyhands_compilers/a.py", "manyhands_unix.streams", True),
        ("cli/manyhands_compilers/a.py", "manyhands.say", False),
        ("cli/manyhands_unix/a.py", "manyhands", False),
        ("bench/manyhands_bench/a.py", "manyhands.machine", True),
        ("bench/manyhands_bench/a.py", "manyhands.commands.bench", False),
        ("bench/manyhands_bench/a.py", "tests.harness", False),
        ("tests/a.py", "manyhands_bench.cases", True),
        ("src/base/a.py", "manyhands_unix", False),
    ],
)
def test_packages_import_downwards(
    lint: ModuleType, repository: Path, file: str, module: str, good: bool
) -> None:
    write(repository, file, f"from {module} import x\n")
    assert (lint.arrow_faults() == []) is good


def test_licence_lines(lint: ModuleType, repository: Path) -> None:
    write(repository, "good.py", "# SPDX-License-Identifier: BSD-3-Clause\n")
    write(repository, "good", "#!/bin/sh\n# SPDX-License-Identifier: BSD-3-Clause\n")
    write(repository, "late.c", "\n// SPDX-License-Identifier: BSD-3-Clause\n")
    write(repository, "bad", "#!/bin/sh\ntrue\n")
    write(repository, "data.txt", "no source\n")
    assert [fault.split(":")[0] for fault in lint.licence_faults()] == ["bad", "late.c"]


# --- checks of prose -------------------------------------------------------------------------

LONG = " ".join(["word"] * 36)


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.hpp", "// Who comes late waits.\nint a;\n", "does not open with 'Who'"),
        ("a.hpp", "/* That is\n * all. */\nint a;\n", "does not open with 'That'"),
        ("a.hpp", "// SPDX-License-Identifier: BSD-3-Clause\n// Of a file.\n", "'Of'"),
        ("a.hpp", "// A rank waits. So does its peer.\nint a;\n", None),
        ("a.hpp", "int a;  // One of many\n", None),
        ("a.hpp", 'const char* a = "// Who";\n', None),
        ("a.hpp", f"// A {LONG}.\n", "a sentence of 37 words"),
        ("a.hpp", f"// {LONG[:60]}.\n// A {LONG[60:]}.\n", None),
        ("a.hpp", "// States\n//   " + LONG + "\n//   " + LONG + "\n", None),
        ("a.hpp", "// A look at the send queue.\n", "'send queue' is not used any more"),
        ("a.hpp", "// A file.\nint polled_in_vain();\n", "note_failed_poll"),
        ("a.py", '"""As it is."""\n', "does not open with 'As'"),
        ("a.py", 'def f():\n    """Where it is."""\n', "does not open with 'Where'"),
        ("a.py", "x = 1  # one\n# What it is\n", "does not open with 'What'"),
        ("a.py", 'x = "# What"\n', None),
        ("a.sh", "# One for all\n", "does not open with 'One'"),
        ("tool", "#!/usr/bin/env python3\n# So it is\n", "does not open with 'So'"),
        ("CMakeLists.txt", "# What is built\n", "does not open with 'What'"),
        ("a.md", "Who reads this?\n", None),
    ],
)
def test_prose(lint: ModuleType, repository: Path, name: str, text: str, fault: str | None) -> None:
    write(repository, name, text)
    faults = lint.lint_prose.prose_faults(repository, lint.tracked(), fix=False)
    if fault is None:
        assert faults == []
    else:
        assert len(faults) == 1
        assert faults[0].startswith(f"{name}:")
        assert fault in faults[0]


def allow(root: Path, allowed: dict[str, int]) -> None:
    write(root, "scripts/lint_allowance.json", json.dumps(allowed))


def test_a_file_may_keep_the_faults_it_has_but_gets_no_more(
    lint: ModuleType, repository: Path
) -> None:
    write(repository, "a.hpp", "// Who?\nint a;\n// What?\nint b;\n")
    allow(repository, {"a.hpp": 2})
    assert lint.lint_prose.prose_faults(repository, lint.tracked(), fix=False) == []
    allow(repository, {"a.hpp": 1})
    assert len(lint.lint_prose.prose_faults(repository, lint.tracked(), fix=False)) == 2
    assert len(lint.lint_prose.prose_faults(repository, lint.tracked(), fix=True)) == 2
    assert lint.lint_prose.read_allowance(repository) == {"a.hpp": 1}


def test_an_allowance_that_is_not_used_up_is_lowered(lint: ModuleType, repository: Path) -> None:
    write(repository, "a.hpp", "// Who?\nint a;\n")
    allow(repository, {"a.hpp": 3, "gone.hpp": 1})
    faults = lint.lint_prose.prose_faults(repository, lint.tracked(), fix=False)
    assert [fault.split(": ")[1] for fault in faults] == [
        "a.hpp has 1 faults",
        "gone.hpp has 0 faults",
    ]
    assert lint.lint_prose.prose_faults(repository, lint.tracked(), fix=True) == []
    assert lint.lint_prose.read_allowance(repository) == {"a.hpp": 1}


def test_a_file_that_moves_keeps_its_allowance(lint: ModuleType, repository: Path) -> None:
    write(repository, "libs/lci/a.hpp", "// Who?\nint a;\n")
    write(repository, "libs/ult/a.hpp", "// Who?\nint a;\n// What?\nint b;\n")
    allow(repository, {"src/lci/a.hpp": 2, "src/ult/a.hpp": 2})
    assert lint.lint_prose.prose_faults(repository, lint.tracked(), fix=True) == []
    assert lint.lint_prose.read_allowance(repository) == {"libs/lci/a.hpp": 1, "libs/ult/a.hpp": 2}


@pytest.mark.parametrize(
    ("subject", "is_good"),
    [
        ("heap: realloc copies the usable size", True),
        ("node, memory: plain names", True),
        ("mpi/calls: one loop", True),
        ("Heap: realloc copies", False),
        ("realloc copies the usable size", False),
        ("heap:realloc", False),
        ("heap: " + "x" * 66, True),
        ("heap: " + "x" * 67, False),
    ],
)
def test_commit_subjects(lint: ModuleType, repository: Path, subject: str, is_good: bool) -> None:
    def commit(text: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", *identity, "commit", "-q", "--allow-empty", "-m", text]
        subprocess.run(command, cwd=repository, check=True)

    commit("A commit of long ago is not looked at")
    first = lint.git("rev-parse", "HEAD")
    commit(subject)
    assert (lint.lint_prose.commit_faults(repository, first) == []) is is_good


def test_commits_without_their_base_are_not_looked_at(lint: ModuleType, repository: Path) -> None:
    assert lint.lint_prose.commit_faults(repository, "461fb75") == []
