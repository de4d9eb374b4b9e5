# SPDX-License-Identifier: BSD-3-Clause
"""Advice from a profile: where the time goes, and which setting can help."""

from __future__ import annotations

from typing import Any

from manyhands.profiling.record import Profile, Row

NOTICEABLE = 0.03  # part of the run, or of the bytes by rendezvous
LONG = 64 << 10  # bytes: longer messages gain by the heap


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole > 0 else "0 %"


def size_text(size: int) -> str:
    for bits, unit in ((20, "MB"), (10, "KB")):
        if size >> bits:
            return f"{size >> bits} {unit}"
    return f"{size} B"


def _loops(summary: dict[str, Any] | None) -> str:
    loops = (summary or {}).get("total", {}).get("loops", {})
    shared = loops.get("regions_shared", 0)
    if shared:
        return f"waiting ranks could work in {shared} shared loops of the program meanwhile"
    return (
        "if the program has OpenMP loops, MH_OPENMP=1 lets waiting ranks run iterations of them "
        "(`mh doctor PROGRAM` counts the loops)"
    )


def _latest(profile: Profile) -> int | None:
    return max(profile.late_s, key=profile.late_s.__getitem__, default=None)


def _on_waiting(profile: Profile) -> str | None:
    if profile.waiting_s < NOTICEABLE * profile.elapsed_s:
        return None
    part = percent(profile.waiting_s, profile.elapsed_s)
    latest = _latest(profile)
    total = sum(profile.late_s.values())
    whom = "late ranks"
    if latest is not None and profile.late_s[latest] > 0.5 * total:
        whom = f"rank {latest}"
    return f"{part} of the run is waiting for {whom}: {_loops(profile.summary)}."


def _is_long_message(row: Row) -> bool:
    return row.bytes_at_most is None or row.bytes_at_most > LONG


def _on_collectives(total: dict[str, Any]) -> str:
    if not total:
        return (
            "Without --plain, the ranks of a node move the data of blocking collectives themselves."
        )
    if total["collectives_direct"]:
        return "The ranks already carry out collectives themselves where they can."
    return "The MPI library moved the data of collectives in this run."


def _on_heap(total: dict[str, Any]) -> str:
    if not total.get("heap_peak_bytes", 0):
        return "The shared heap, not used here, lets the ranks copy such messages directly."
    sent, outside = total["bytes_by_rendezvous"], total.get("bytes_outside_heap", 0)
    if outside <= NOTICEABLE * sent:
        return ""
    return (
        f"{percent(outside, sent)} of the bytes by rendezvous had a buffer outside of the shared "
        "heap. With MH_HEAP=on the heap takes blocks of any size, and the ranks copy such messages "
        "directly."
    )


def _on_transfer(profile: Profile) -> str | None:
    if profile.transfer_s < NOTICEABLE * profile.elapsed_s:
        return None
    part = percent(profile.transfer_s, profile.elapsed_s)
    top = max(profile.rows, key=lambda row: row.transfer_s)
    text = f"{part} of the run is transfer, most of it in {top.call}."
    helped = profile.summary is not None and not profile.summary.get("not_helping_because")
    total = profile.summary["total"] if profile.summary is not None and helped else {}
    if top.is_collective:
        return f"{text} {_on_collectives(total)}"
    if _is_long_message(top):
        return f"{text} {_on_heap(total)}".rstrip()
    return text


def advice(profile: Profile) -> list[str]:
    found = [text for text in (_on_waiting(profile), _on_transfer(profile)) if text]
    if found:
        return found
    part = percent(profile.mpi_s, profile.elapsed_s)
    return [f"{part} of the run is spent in MPI: there is little to gain here."]


def taken_over(profile: Profile) -> str:
    """The work that ranks did for each other in this run, in words."""
    if profile.summary is None:
        return "unknown"
    total = profile.summary["total"]
    why_not = profile.summary.get("not_helping_because", "")
    if why_not:
        return f"nothing ({why_not})"
    done = []
    messages, moved = total["messages_by_rendezvous"], total["bytes_by_rendezvous"]
    if messages:
        done.append(f"{messages} messages ({size_text(moved)}) by rendezvous")
    if total["collectives_direct"]:
        done.append(f"{total['collectives_direct']} collective calls")
    if total["others_bytes"]:
        done.append(f"{size_text(total['others_bytes'])} copied by third ranks")
    if total["one_sided_operations"]:
        done.append(f"{total['one_sided_operations']} one-sided operations")
    if total["loops"]["units_by_others"]:
        done.append(f"{total['loops']['units_by_others']} units of loops run by waiting ranks")
    if total["messages_exchanged"]:
        done.append(f"{total['messages_exchanged']} exchanged messages left to the MPI library")
    return "; ".join(done) or "nothing: no message was long enough, and no loop was shared"
