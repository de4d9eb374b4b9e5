# SPDX-License-Identifier: BSD-3-Clause
"""Light tasks in gdb: `source tasks_gdb.py`, then

    ult tasks           worker, slot, name and state of every task
    ult backtrace       the same, and all frames of each task that is not running
    ult backtrace W S   the same for the task in slot S of worker W

The script works in a live process and on a core file, with and without debug information (x86-64).
`thread apply all backtrace` shows a running task. If the task runs on the stack of its joiner,
the joiner's frames follow.
"""

from __future__ import annotations

import itertools
import struct
from typing import Any, NamedTuple

import gdb
from gdb.unwinder import Unwinder

STATES = ("free", "ready", "running", "signalled", "blocked")
RUNNING = (2, 3)
# The offsets, in bytes from a saved stack pointer, at which Boost.Context's jump_fcontext() for
# x86-64 saves the registers of a task.
SAVED = {"r12": 0x08, "r13": 0x10, "r14": 0x18, "r15": 0x20, "rbx": 0x28, "rbp": 0x30, "rip": 0x38}
ABOVE = 0x40  # offset of the restored stack pointer, in bytes


class Task(NamedTuple):
    worker: str  # the name of the worker's thread
    number: int  # of the worker in its scheduler
    slot: int
    state: int  # an index into STATES
    name: str  # empty: the program gave none
    context: int  # address of the saved context; 0: not begun, or running


# Reads memory of the debugged program at an address. Returns the values, unpacked by `form`, a
# format of the module `struct`.
def words(address: int, form: str) -> tuple[Any, ...]:
    size = struct.calcsize(form)
    return struct.unpack(form, gdb.selected_inferior().read_memory(address, size).tobytes())


def string(address: int) -> str:
    if address == 0:
        return ""
    return gdb.Value(address).cast(gdb.lookup_type("char").pointer()).string()


def symbol(name: str) -> int:
    try:
        return int(gdb.parse_and_eval(f"(long)&{name}"))
    except gdb.error as error:
        raise gdb.GdbError("this program has no libmanyhands-ult") from error


# Returns the tasks of all schedulers in the debugged program, read from the plain structures of
# debug.hpp.
def tasks() -> list[Task]:
    version, *layout = words(symbol("mh_ult_debug_layout"), "<6I")
    if version != 1:
        raise gdb.GdbError(f"libmanyhands-ult has layout {version}, this script knows 1")
    found = []
    (core,) = words(symbol("mh_ult_debug_cores"), "<Q")
    while core != 0:
        workers, slots, table, core = words(core, "<IIQQ")
        for number in range(workers):
            name, _, records = words(table + 24 * number, "<3Q")
            for slot, record in enumerate(words(records, f"<{slots}Q")):
                if record != 0:
                    found.append(task(string(name), number, slot, record, layout))
    return [one for one in found if one.state != 0]


def task(worker: str, number: int, slot: int, record: int, layout: list[int]) -> Task:
    state_at, _, context_at, stack_at, name_at = layout
    (state,) = words(record + state_at, "<I")
    (context,) = words(record + context_at, "<Q")
    (stack,) = words(record + stack_at, "<Q")
    (name,) = words(record + name_at, "<Q")
    begun = stack != 0 and state not in RUNNING
    return Task(worker, number, slot, state, string(name), context if begun else 0)


class TaskUnwinder(Unwinder):
    """Makes a task's saved registers the caller of the newest frame, while `context` is set."""

    def __init__(self) -> None:
        super().__init__("manyhands-ult")
        self.context = 0
        self.newest = 0  # stack pointer of the frame to start from

    def __call__(self, frame: Any) -> Any:
        sp, pc = frame.read_register("rsp"), frame.read_register("rip")
        if self.context == 0 or int(sp) != self.newest:
            return None
        # The newest frame lies on another stack than the task's frames. The frame id pretends that
        # it lies on the task's stack, because gdb wants callers at higher addresses.
        info = frame.create_unwind_info(FrameId(gdb.Value(self.context).cast(sp.type), pc))
        for register, offset in SAVED.items():
            (value,) = words(self.context + offset, "<Q")
            info.add_saved_register(register, gdb.Value(value).cast(sp.type))
        info.add_saved_register("rsp", gdb.Value(self.context + ABOVE).cast(sp.type))
        return info


class FrameId:
    def __init__(self, sp: Any, pc: Any) -> None:
        self.sp, self.pc = sp, pc


UNWINDER = TaskUnwinder()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)


def frames(one: Task) -> list[str]:
    """Return the lines of gdb's backtrace without the frame from which the unwinder started."""
    UNWINDER.newest = int(gdb.newest_frame().read_register("rsp"))
    UNWINDER.context = one.context
    gdb.invalidate_cached_frames()
    try:
        lines = gdb.execute("backtrace", to_string=True).splitlines()
    finally:
        UNWINDER.context = 0
        gdb.invalidate_cached_frames()
    framed = [line for line in lines if line.startswith("#")][1:]
    return list(itertools.takewhile(lambda line: " in make_fcontext" not in line, framed))


def headline(one: Task) -> str:
    name = f" {one.name}" if one.name else ""
    begun = "" if one.context or one.state in RUNNING else ", not begun"
    return f"{one.worker} slot {one.slot}{name}: {STATES[one.state]}{begun}"


class UltCommand(gdb.Command):
    """Light tasks: ult tasks, ult backtrace [WORKER SLOT]."""

    def __init__(self) -> None:
        super().__init__("ult", gdb.COMMAND_STACK)

    def invoke(self, argument: str, _from_tty: bool) -> None:
        verb, *place = argument.split() or [""]
        if verb not in ("tasks", "backtrace") or len(place) not in (0, 2):
            raise gdb.GdbError("usage: ult tasks | ult backtrace [WORKER SLOT]")
        chosen = tasks()
        if place:
            wanted = (int(place[0]), int(place[1]))
            chosen = [one for one in chosen if (one.number, one.slot) == wanted]
        for one in chosen:
            print(headline(one))
            if verb == "backtrace" and one.context:
                print("\n".join("  " + line for line in frames(one)))
        print(f"{len(chosen)} tasks")


UltCommand()
