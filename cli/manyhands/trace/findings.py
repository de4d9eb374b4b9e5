# SPDX-License-Identifier: BSD-3-Clause
"""Sentences about a traced run: the work of the job, why work was left to the MPI library, and
advice.
"""

from __future__ import annotations

from typing import Any

from manyhands.profiling import advice as profiled
from manyhands.profiling.advice import percent
from manyhands.trace.run import Run
from manyhands.units import size_text

# Counters of the summary (MH_SUMMARY=1) that count work left to the MPI library, each with the
# reason that `mh report` prints.
REFUSALS = (
    ("messages_exchanged", "messages of an exchange: both ends were busy"),
    ("messages_without_slot", "messages that found the send table full"),
    ("messages_ended", "messages after rendezvous had ended on the node"),
    ("resends", "messages sent again, because a copy failed"),
    ("windows_left", "windows left to the MPI library: ranks out of reach, or MH_WINDOWS=none"),
)
LEFT = {  # the same reasons, as the events of a trace name them
    "exchanged": REFUSALS[0][1],
    "no_slot": REFUSALS[1][1],
    "ended": REFUSALS[2][1],
}


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def _latest(run: Run) -> int | None:
    latest = max(run.late_s, key=run.late_s.__getitem__, default=None)
    if latest is None or run.late_s[latest] <= 0.5 * sum(run.late_s.values()):
        return None
    return latest


def _time(run: Run) -> str:
    whole = run.elapsed_s
    waiting, transfer = run.mean_s("waiting_s"), run.mean_s("transfer_s")
    latest = _latest(run)
    whom = "for late ranks" if latest is None else f"mostly for rank {latest}"
    return (
        f"{_plural(len(run.ranks), 'rank')} on {_plural(run.nodes, 'node')} ran for {whole:.3g} s. "
        f"A rank spent {percent(waiting + transfer, whole)} of the run in MPI: "
        f"{percent(transfer, whole)} moving data, "
        f"{percent(waiting, whole)} waiting {whom}."
    )


def _messages(run: Run) -> str:
    sent = run.total("sent")
    if not sent.events:
        return "No message went by rendezvous."
    return f"{_plural(sent.events, 'message')} of {size_text(sent.bytes)} went by rendezvous."


def _help(run: Run) -> str:
    helped, lent = run.total("helped"), run.total("lent")
    done = []
    if helped.bytes:
        done.append(f"copied {size_text(helped.bytes)} for other ranks")
    if lent.count:
        done.append(f"lent their cores for {_plural(lent.count, 'unit')}")
    spent = sum(rank.helping_s for rank in run.ranks)
    if not done:
        return "No rank helped another rank."
    return f"Waiting ranks {' and '.join(done)}: {spent:.3g} s of waiting became work."


def _partial(run: Run) -> str:
    texts = []
    if len(run.ranks) < run.world:
        texts.append(f"The folder has traces of only {len(run.ranks)} of {run.world} ranks.")
    open_ranks = [rank.rank for rank in run.ranks if not rank.complete]
    if open_ranks:
        names = ", ".join(map(str, open_ranks[:8])) + (" ..." if len(open_ranks) > 8 else "")
        texts.append(
            f"The trace has no end for rank{'s' * (len(open_ranks) > 1)} {names}: the job was "
            "killed or still runs, and the times reach to the last event."
        )
    if run.lost:
        texts.append(
            f"{run.lost} events were overwritten by later ones. The timeline lacks them; "
            "the sums of help, messages and time in MPI include them."
        )
    return " ".join(texts)


def paragraph(run: Run) -> str:
    parts = (_time(run), _messages(run), _help(run), _partial(run))
    return " ".join(part for part in parts if part)


def refusals(run: Run) -> list[tuple[str, str]]:
    """The work that was left to the MPI library: the amount and the reason of each kind."""
    if run.profile is None or run.profile.summary is None:
        return [
            (f"{messages} ({size_text(size)})", LEFT.get(reason, reason))
            for reason, (messages, size) in sorted(run.left.items())
        ]
    summary = run.profile.summary
    rows = (
        [("everything", summary["not_helping_because"])] if summary["not_helping_because"] else []
    )
    rows += [
        (str(summary["total"][key]), text) for key, text in REFUSALS if summary["total"].get(key)
    ]
    return rows + [_region(each) for each in summary.get("not_shared", [])]


def _region(each: dict[str, Any]) -> tuple[str, str]:
    reason = each["advice"] or each["reason"].replace("_", " ")
    return f"the loop {each['region']} ({each['time_s']:.3g} s)", reason


def advice(run: Run) -> list[str]:
    if run.profile is not None:
        return profiled.advice(run.profile)
    return [
        "There is no advice, because the run did not reach MPI_Finalize and wrote no profile. The "
        "table 'Waiting by call' shows where the ranks spent their time in MPI."
    ]


def collectives(run: Run) -> list[tuple[str, int]]:
    """The number of collectives that the ranks carried out, and that went through the arrival
    barrier.
    """
    if run.profile is None or run.profile.summary is None:
        return []
    total = run.profile.summary["total"]
    direct = total.get("collectives_direct", 0)
    return [
        ("carried out by the ranks", direct),
        ("through the arrival barrier of the node", total["collectives_with_arrival_barrier"]),
    ]
