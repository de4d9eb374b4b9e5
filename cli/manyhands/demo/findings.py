# SPDX-License-Identifier: BSD-3-Clause
"""The results of a case's rounds, as numbers and as sentences.

A ratio is plain over helped in the same round, so that a slow drift of the machine cancels; a ratio
above 1 is a gain. Rounds are summarized by their median and the range that contains it with 95 %
confidence (a sign test). A gain is claimed only if the whole range is above 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import mean, median
from typing import Any

from manyhands_bench.rounds import left_aside

from manyhands.demo.problem import Case
from manyhands.demo.runs import Result

SMALLEST_CLAIM = 0.01  # fraction of the time; a smaller change is called no difference
FEWEST_ROUNDS = 6  # chance alone puts six of six rounds on the same side in 3 of 100 cases
PARTS = ("seconds", "compute_s", "pack_s", "mpi_s", "wait_s")


@dataclass(frozen=True)
class Ratio:
    """The median over rounds, and the range that contains it with 95 % confidence (smallest and
    largest ratio if the rounds are few).
    """

    median: float
    low: float
    high: float

    def gained(self) -> bool:
        return self.low > 1 and self.median >= 1 + SMALLEST_CLAIM

    def lost(self) -> bool:
        return self.high < 1 and self.median <= 1 - SMALLEST_CLAIM


@dataclass(frozen=True)
class Did:
    """The work of Manyhands in a helped run, as the library's summary reports it, summed over
    ranks.
    """

    messages: int
    bytes: int
    by_owners: int
    by_others: int
    help_s: float
    resends: int
    why_not: str


@dataclass(frozen=True)
class Finding:
    case: Case
    ranks: int
    steps: int
    message_bytes: int
    bytes_per_step: int  # sent by all ranks together
    plain: dict[str, float]  # seconds for each of PARTS; all but "seconds" are means over ranks
    helped: dict[str, float]
    speedup: Ratio
    communication: Ratio
    rounds: int
    identical: bool
    did: Did | None
    one_gb_per_s: float
    together_gb_per_s: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def parts(result: Result) -> dict[str, float]:
    """The time of a run: "seconds" is that of the slowest rank, the parts are means over
    the ranks.
    """
    ranks = result.times["times"]
    means = {part: mean(rank[part] for rank in ranks) for part in PARTS[1:]}
    return {"seconds": result.times["seconds"], **means}


def ratio(plain: list[float], helped: list[float]) -> Ratio:
    ratios = sorted(p / h if h > 0 else 1.0 for p, h in zip(plain, helped, strict=True))
    aside = left_aside(len(ratios))
    return Ratio(median(ratios), ratios[aside], ratios[-1 - aside])


def did(summary: dict[str, Any] | None) -> Did | None:
    if summary is None:
        return None
    total = summary["total"]
    return Did(
        messages=total["messages_by_rendezvous"],
        bytes=total["bytes_by_rendezvous"],
        by_owners=total["own_bytes"],
        by_others=total["others_bytes"],
        help_s=total["help_s"],
        resends=total["resends"],
        why_not=summary.get("not_helping_because", ""),
    )


def add_up(case: Case, plain: list[Result], helped: list[Result]) -> Finding:
    before, after = [parts(r) for r in plain], [parts(r) for r in helped]
    first = plain[0].times

    def both(part: str) -> tuple[list[float], list[float]]:
        return [p[part] for p in before], [p[part] for p in after]

    def memcpy(which: str) -> float:
        return median(r.times["memcpy"][which] for r in plain)

    return Finding(
        case=case,
        ranks=first["ranks"],
        steps=first["measured_steps"],
        message_bytes=first["largest_message_bytes"],
        bytes_per_step=first["bytes_sent_per_step"],
        plain={part: median(both(part)[0]) for part in PARTS},
        helped={part: median(both(part)[1]) for part in PARTS},
        speedup=ratio(*both("seconds")),
        communication=ratio(*both("mpi_s")),
        rounds=len(plain),
        identical=len({r.checksum for r in (*plain, *helped)}) == 1,
        did=did(helped[-1].summary),
        one_gb_per_s=memcpy("one_gb_per_s"),
        together_gb_per_s=memcpy("together_gb_per_s"),
    )


# --- a finding in words -----------------------------------------------------------------------


def percent(part: float) -> str:
    return f"{100 * part:.0f} %" if abs(part) >= 0.0995 else f"{100 * part:.1f} %"


def share(finding: Finding, part: str) -> float:
    return finding.plain[part] / finding.plain["seconds"]


def sentence(finding: Finding, control: bool = False) -> str:
    """The finding in a sentence for users, with the reason if there is no gain."""
    if not finding.identical:
        return "The results DIFFER: this is a bug of Manyhands, please report it."
    if finding.rounds < FEWEST_ROUNDS:
        return (
            f"{finding.rounds} rounds are too few to tell a difference from noise: use --rounds "
            f"{FEWEST_ROUNDS} or more."
        )
    speedup = finding.speedup
    if speedup.gained():
        verdict = f"Help made the program {percent(speedup.median - 1)} faster "
        verdict += f"({percent(speedup.low - 1)} to {percent(speedup.high - 1)})."
        cause = gain(finding)
    elif speedup.lost():
        verdict = f"Help made the program {percent(1 - speedup.median)} slower "
        verdict += f"({percent(1 - speedup.high)} to {percent(1 - speedup.low)})."
        cause = bound(finding)
    else:
        verdict = "No difference beyond the noise of this machine"
        verdict += f" ({speedup.low:.2f}x to {speedup.high:.2f}x)."
        cause = bound(finding)
    return verdict if control else f"{verdict} {cause}"


def gain(finding: Finding) -> str:
    saved = 1 - 1 / finding.communication.median
    text = f"Communication took {percent(share(finding, 'mpi_s'))} of the plain run"
    return f"{text}; it is {percent(saved)} shorter with help." if saved > 0 else f"{text}."


def bound(finding: Finding) -> str:
    action = finding.did
    if action is None:
        return "Manyhands wrote no summary: it was not active in this run."
    if action.why_not:
        return f"Manyhands did not help: {action.why_not}."
    if action.messages == 0:
        return (
            "Manyhands copied no message. When two busy ranks exchange contiguous messages below "
            "8 MB outside the shared heap, the MPI library copies the messages. The default heap "
            "has a budget for new memory; MH_HEAP=on has none."
        )
    reach = (
        f"Help shortens only communication, which took {percent(share(finding, 'mpi_s'))} of the "
        f"plain run, with at least {percent(share(finding, 'wait_s'))} of the run spent waiting"
    )
    if not finding.communication.gained():
        return f"{reach}."
    saved = 1 - 1 / finding.communication.median
    return f"{reach}. Communication is {percent(saved)} shorter with help."
