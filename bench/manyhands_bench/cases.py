# SPDX-License-Identifier: BSD-3-Clause
"""The table of cases. Cases of loops are in loop_cases.py, of objects in object_cases.py, of whole
programs in program_cases.py.

A ratio is always the time of the first arm over the time of another arm, so a ratio above 1 means
that the other arm is faster.
"""

from __future__ import annotations

from dataclasses import replace

from manyhands_bench.case import (
    HEAP,
    HELPED,
    LENT,
    MAPPED,
    NO_HEAP,
    OTHERS,
    PLAIN,
    WHOLE_HEAP,
    Arm,
    Case,
    Variant,
    all_cores,
    args,
    ranks,
)
from manyhands_bench.host import Machine
from manyhands_bench.loop_cases import LOOP_CASES
from manyhands_bench.mpis import WITHOUT_CMA, Placement
from manyhands_bench.object_cases import OBJECT_CASES
from manyhands_bench.program_cases import (
    ALL_WINDOWS,
    NO_TCP_END,
    NO_TCP_WINDOWS,
    PROGRAM_CASES,
    TCP,
)

__all__ = ["CASES", "HELPED", "MAPPED", "PLAIN", "Arm", "Case", "select"]

PAPER_SIZES = "64K,128K,256K,512K,1M,2M,4M,8M"
_QUICK = ("--batches", "9", "--batch-ms", "5")
SHORT_SIZES = "8,128,512,1K,2K,4K,8K,16K,32K"
BUSY_SIZES = "8K,16K,32K,64K,256K,1M,4M,8M,64M"
BAR_SIZES = "8,1K,8K,16K,32K,64K,128K,256K,512K,1M,2M,8M"
TEAMS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def _post_access(machine: Machine) -> tuple[str, ...]:
    """Arguments for messages of twice the L2 cache and, if memory suffices, of twice the last-level
    cache. CAB-MPI has messages of 90 MB.
    """
    sizes = [2 * machine.cache_bytes.get(2, 1 << 20)]
    beyond = min(2 * machine.last_level_bytes, 256 << 20)
    if 8 * beyond < machine.memory_bytes:
        sizes.append(beyond)
    text = ",".join(str(size) for size in sorted(set(sizes)))
    return ("--touch", "--no-limit", "--batches", "9", "--sizes", text)


def _teams(machine: Machine) -> tuple[Variant, ...]:
    """The communicating pair alone, and beside growing numbers of waiting ranks, each on its own
    core.
    """
    counts = [count for count in TEAMS if count <= machine.cores] if machine.cores > 2 else [3]
    return tuple(Variant(f"{count} ranks", ranks=count) for count in counts)


def _for_third_ranks(least: str) -> dict[str, str]:
    """The settings with which third ranks take part in messages of `least` bytes and more."""
    return {"MH_HELP_THRESHOLD": least, "MH_MAPPED_HELP_THRESHOLD": least}


def _strategy(name: str) -> Arm:
    settings = {"MH_STRATEGY": name, "MH_CHUNK": "64K", **_for_third_ranks("64K")}
    return Arm(name, environment=settings, moved=OTHERS)


_STEALING_HEAPS = (replace(NO_HEAP, moved=OTHERS), replace(WHOLE_HEAP, moved=OTHERS))
_CHECK_AND_STEAL = Arm(
    "check+steal",
    environment={
        "MH_THRESHOLD": "8K",
        "MH_MAPPED_THRESHOLD": "8K",
        "MH_CHUNK": "4K",
        **_for_third_ranks("8K"),
    },
    moved=OTHERS,
)


def _chunk(kib: int) -> Arm:
    return Arm(f"{kib} KB", environment={"MH_CHUNK": str(kib << 10)})


CASES = (
    Case(
        "latency",
        "One-way latency of 8 bytes",
        "latency",
        ranks(2),
        args(),
        short=True,
    ),
    Case(
        "pingpong",
        "PingPong of two ranks, blocking",
        "pingpong",
        ranks(2),
        args("--sizes", BAR_SIZES),
        short=True,
    ),
    Case(
        "pingpong-cells",
        "PingPong where the kernel does not copy between processes",
        "pingpong",
        ranks(2),
        args("--sizes", BAR_SIZES),
        arms=(PLAIN, Arm("helped", environment={"MH_MEMORY": "cells"})),
        environment=WITHOUT_CMA,
    ),
    Case(
        "collectives",
        "Short blocking collectives, time a call",
        "collectives",
        all_cores(2),
        args("--sizes", "8,1K,8K"),
        arms=(PLAIN, NO_HEAP),
        short=True,
    ),
    Case(
        "collectives-large",
        "Long blocking collectives, time a call",
        "collectives",
        all_cores(2),
        args("--sizes", "64K,1M,8M", "--batches", "7", "--batch-ms", "10"),
        arms=(PLAIN, NO_HEAP, HEAP),
    ),
    Case(
        "onesided",
        "One-sided operations of rank 0 on rank 1, without and with a shared heap",
        "onesided",
        ranks(2),
        args("--sizes", "128K,512K,1M,2M,8M"),
        arms=(PLAIN, NO_HEAP, HEAP),
    ),
    Case(
        "onesided-helpers",
        "One-sided operations of rank 0 on rank 1, all other cores in a fence",
        "onesided",
        all_cores(2),
        args("--sizes", "128K,1M,8M", "--only", "accumulate"),
        arms=(PLAIN, *_STEALING_HEAPS),
    ),
    Case(
        "threads",
        "Two ranks of many threads under MPI_THREAD_MULTIPLE, time of a message",
        "threads",
        ranks(2),
        args(),
    ),
    Case(
        "threads-rate",
        "Two ranks of many threads, windows of 64 nonblocking sends of 64 bytes",
        "threads",
        ranks(2),
        args("--window", "64", "--threads", "1,2,4,8,16", "--batches", "3", "--batch-ms", "100"),
    ),
    Case(
        "threads-bandwidth",
        "Two ranks of many threads, windows of 8 nonblocking sends of 1 MB",
        "threads",
        ranks(2),
        args("--window", "8", "--bytes", "1048576", "--threads", "1,2,4,8,16", "--batches", "3"),
        arms=(PLAIN, HELPED, WHOLE_HEAP),
    ),
    Case(
        "nonblocking",
        "PingPong with MPI_Isend, MPI_Irecv, MPI_Wait",
        "pingpong",
        ranks(2),
        args("--mode", "nonblocking", "--sizes", BAR_SIZES),
    ),
    Case(
        "polling",
        "PingPong that polls MPI_Test",
        "pingpong",
        ranks(2),
        args("--mode", "test", "--sizes", BAR_SIZES),
    ),
    Case(
        "exchange",
        "Both directions at once, MPI_Waitall",
        "pingpong",
        ranks(2),
        args("--mode", "exchange", "--sizes", PAPER_SIZES),
    ),
    Case(
        "short-exchange",
        "Both directions at once of short messages, without and with a shared heap",
        "pingpong",
        ranks(2),
        args("--mode", "exchange", "--sizes", SHORT_SIZES, "--no-limit"),
        arms=(PLAIN, NO_HEAP, HEAP),
        interleaved=True,
    ),
    Case(
        "busy-exchange",
        "Both directions at once of data just written, without and with a shared heap",
        "pingpong",
        ranks(2),
        args("--mode", "exchange", "--fill", "--sizes", BUSY_SIZES, "--no-limit"),
        arms=(PLAIN, NO_HEAP, HEAP, MAPPED),
        interleaved=True,
    ),
    Case(
        "busy-one-way",
        "One direction at a time of data just written, without and with a shared heap",
        "pingpong",
        ranks(2),
        args("--fill", "--sizes", BUSY_SIZES),
        arms=(PLAIN, NO_HEAP, HEAP),
        interleaved=True,
    ),
    Case(
        "exchanges",
        "Eight long messages each way at a time, MPI_Waitall; time of one message",
        "pingpong",
        ranks(2),
        args("--mode", "exchange", "--depth", "8", "--sizes", "64K,256K,512K,1M,8M", "--no-limit"),
    ),
    Case(
        "windows",
        "Eight short messages each way at a time, MPI_Waitall; time of one message",
        "pingpong",
        ranks(2),
        args("--mode", "exchange", "--depth", "8", "--sizes", "8,128,1K,8K", "--no-limit"),
    ),
    Case(
        "fresh",
        "PingPong of data just written, and read on arrival",
        "pingpong",
        ranks(2),
        args("--fill", "--touch", "--sizes", PAPER_SIZES),
    ),
    Case(
        "cold",
        "PingPong through 256 MB of buffers (cold caches)",
        "pingpong",
        ranks(2),
        args("--cold", "256M", "--sizes", "64K,512K,8M"),
    ),
    Case(
        "helpers",
        "PingPong of two ranks, the others in MPI_Barrier, by number of ranks",
        "pingpong",
        all_cores(3),
        args(*_QUICK, "--sizes", "64K,256K,1M,4M,16M,64M"),
        arms=(PLAIN, *_STEALING_HEAPS),
        variants=_teams,
    ),
    Case(
        "helpers-cells",
        "PingPong through cells, the others in MPI_Barrier, by number of ranks",
        "pingpong",
        all_cores(3),
        args(*_QUICK, "--sizes", "64K,1M,8M,64M"),
        arms=(PLAIN, Arm("cells", environment={"MH_MEMORY": "cells"}, moved=LENT)),
        environment=WITHOUT_CMA,
        variants=_teams,
    ),
    Case(
        "strategies",
        "Stealing strategies, 64 KB chunks, all other cores in MPI_Barrier",
        "pingpong",
        all_cores(3),
        args("--touch", "--no-limit", "--sizes", PAPER_SIZES),
        arms=(PLAIN, _strategy("localized"), _strategy("mixed"), _strategy("throughput")),
    ),
    Case(
        "strategies-numa",
        "Stealing strategies, the pair on two NUMA nodes",
        "pingpong",
        all_cores(3),
        args("--touch", "--no-limit", "--sizes", PAPER_SIZES),
        arms=(PLAIN, _strategy("localized"), _strategy("mixed"), _strategy("throughput")),
        placement=Placement.NUMA,
        numa=True,
    ),
    Case(
        "chunks",
        "Static chunk sizes against the on-demand table",
        "pingpong",
        all_cores(2),
        args("--no-limit", "--sizes", PAPER_SIZES),
        arms=(PLAIN, *(_chunk(kib) for kib in (16, 32, 64, 128, 256)), Arm("on-demand")),
    ),
    Case(
        "order",
        "Claim order and the time of the receiver's first pass over the data",
        "pingpong",
        all_cores(2),
        _post_access,
        arms=(
            PLAIN,
            Arm("random", arguments=("--access", "random")),
            Arm("lo-to-hi", arguments=("--access", "lo-to-hi")),
        ),
    ),
    Case(
        "waiters",
        "A pair moves 8 MB while the others enter a barrier",
        "waiters",
        all_cores(3),
        args(),
        arms=(PLAIN, replace(HELPED, moved=OTHERS)),
    ),
    Case(
        "waiters-late",
        "A pair moves 8 MB, the others arrive 300 us late in an allreduce",
        "waiters",
        all_cores(3),
        args("--wait", "allreduce", "--late", "300"),
        arms=(PLAIN, replace(HELPED, moved=OTHERS)),
    ),
    Case(
        "waiters-self",
        "One rank copies 8 MB to itself while the other waits in a barrier",
        "waiters",
        ranks(2),
        args("--self"),
    ),
    Case(
        "loaded-latency",
        "8 bytes between two ranks while two others move 4 MB messages",
        "latency",
        ranks(4),
        args("--load", "4M", "--batches", "20"),
    ),
    Case(
        "overhead",
        "Cost of the checks, and of helping with short messages, other cores in MPI_Barrier",
        "pingpong",
        all_cores(3),
        args("--no-limit", "--sizes", "8,256,4K,8K,16K,32K"),
        arms=(
            PLAIN,
            Arm("check", environment={"MH_THRESHOLD": str(1 << 30)}),
            _CHECK_AND_STEAL,
        ),
    ),
    Case(
        "planes",
        "X-Z planes of a matrix of doubles, one way",
        "noncontiguous",
        ranks(2),
        args(*_QUICK),
        interleaved=True,
    ),
    Case(
        "planes-heap",
        "X-Z planes of a matrix of doubles, one way, without and with a shared heap",
        "noncontiguous",
        ranks(2),
        args(*_QUICK),
        arms=(NO_HEAP, WHOLE_HEAP),
        interleaved=True,
    ),
    Case(
        "planes-depths",
        "X-Z planes of 32 MB by their depth, one way",
        "noncontiguous",
        ranks(2),
        args(*_QUICK, "--planes", "32M", "--z", "1,2,4,8,16,32,64,128,256,512,1024,2048,4096"),
    ),
    Case(
        "planes-helpers",
        "X-Z planes one way, the others in MPI_Barrier, by number of ranks",
        "noncontiguous",
        all_cores(3),
        args(*_QUICK, "--planes", "1M,32M", "--z", "64", "--helpers"),
        arms=(PLAIN, replace(NO_HEAP, moved=LENT), replace(WHOLE_HEAP, moved=OTHERS)),
        variants=_teams,
    ),
    Case(
        "bundle",
        "Strided on both sides: helped MPI_Pack, message and MPI_Unpack, and one message",
        "noncontiguous",
        ranks(2),
        args("--planes", "32M,1M", "--z", "256"),
        arms=(
            Arm("separate", arguments=("--ways", "separate")),
            Arm("bundle", arguments=("--ways", "bundle")),
        ),
    ),
    Case(
        "bundle-depths",
        "Strided on both sides by depth: helped pack, message, unpack, and one message",
        "noncontiguous",
        ranks(2),
        args(*_QUICK, "--planes", "32M", "--z", "8,32,64,256"),
        arms=(
            Arm("separate", environment={"MH_HEAP": "off"}, arguments=("--ways", "separate")),
            Arm("no heap", environment={"MH_HEAP": "off"}, arguments=("--ways", "bundle")),
            replace(WHOLE_HEAP, arguments=("--ways", "bundle")),
        ),
    ),
    Case(
        "halos",
        "Faces, edges and corners of boxes, from halo to halo, one way",
        "noncontiguous",
        ranks(2),
        args(*_QUICK, "--boxes", "64,128", "--ways", "pack-unpack"),
    ),
    *PROGRAM_CASES,
    Case(
        "planes-nodes",
        "X-Z planes between two nodes over TCP, one way",
        "noncontiguous",
        ranks(4),
        args(*_QUICK, "--apart"),
        environment=TCP,
        crowded=True,
        hosts=2,
        not_under=NO_TCP_END,
    ),
    Case(
        "onesided-nodes",
        "One-sided operations between two nodes over TCP; the other ranks in a fence",
        "onesided",
        ranks(4),
        args("--sizes", "128K,1M,8M", "--batches", "9", "--apart"),
        arms=(PLAIN, ALL_WINDOWS),
        environment=TCP,
        crowded=True,
        hosts=2,
        not_under=NO_TCP_WINDOWS,
    ),
    *OBJECT_CASES,
    *LOOP_CASES,
    Case(
        "streams",
        "Memory bandwidth by number of copying ranks",
        "streams",
        all_cores(2),
        args(),
        arms=(PLAIN,),
    ),
)


def select(only: list[str], short: bool) -> list[Case]:
    """The cases with the names in `only`. If `only` is empty: the short cases if `short` is set,
    else all cases. Raises ValueError for an unknown name.
    """
    by_name = {case.name: case for case in CASES}
    unknown = [name for name in only if name not in by_name]
    if unknown:
        raise ValueError(f"there is no case {', '.join(unknown)}; choose from {', '.join(by_name)}")
    if only:
        return [by_name[name] for name in only]
    return [case for case in CASES if case.short or not short]
