# SPDX-License-Identifier: BSD-3-Clause
"""Numbers of the paper, shown beside those of the simulator.

Lifflander, Krishnamoorthy, Kale: Work Stealing and Persistence-based Load Balancers for Iterative
Overdecomposed Applications, HPDC 2012. This file has numbers from the paper's text and table 3, and
none read off its figures.
"""

from __future__ import annotations

from manyhands.simulating.lines import Line

# Section 7.2 of the paper: lower bounds of the efficiency in the last iteration of retentive
# stealing, for the problem HF-Be512, by machine and number of cores.
EFFICIENCY = {("hopper", 76_800): 0.90, ("intrepid", 163_840): 0.91, ("titan", 128_000): 0.81}

# Section 7.4 of the paper, problem HF-Be512 on the machine Hopper: attempts to steal and steals per
# core (averages), by iteration and number of cores.
ATTEMPTS = {
    1: {9_600: 5661, 38_400: 5471, 76_800: 14_898},
    5: {38_400: 1430, 76_800: 1537},
}
STEALS = {5: {9_600: 0.3, 19_200: 0.3, 38_400: 0.4, 76_800: 0.4}}

# Table 3 of the paper, problem HF-Be256 on the machine Hopper. The key (n, m) is the name of a row
# in the table. Each row has an entry for each number of CORES. The entry has the value of the
# central balancer, a slash, and the value of the balancer with a tree of ranks: seconds in
# _SECONDS, percent over the ideal time in _OVER.
CORES = (2_400, 4_800, 9_600, 19_200, 38_400)
_SECONDS = {
    (1, 1): "1.57/1.42 1.98/1.12 5.76/1.08 14.8/1.92 35.6/1.04",
    (2, 2): "4.83/0.07 6.33/0.16 8.42/0.81 13.0/0.77 43.8/1.00",
    (2, 4): "7.40/0.35 10.0/0.66 13.0/0.33 18.3/0.31 37.7/1.14",
    (2, 8): "9.24/0.34 11.4/0.30 13.0/0.33 18.4/1.62 45.2/4.40",
    (4, 2): "1.40/0.08 2.00/0.30 3.82/0.48 16.9/0.82 39.5/0.75",
    (4, 4): "2.84/0.09 4.13/0.20 6.65/0.56 13.4/0.36 37.0/0.65",
    (4, 8): "4.34/0.28 6.27/0.97 9.07/0.58 15.1/0.26 43.0/0.85",
    (8, 2): "0.45/0.04 0.75/0.11 2.73/0.25 15.0/0.79 36.2/0.36",
    (8, 4): "0.98/0.06 1.52/0.07 3.03/0.19 11.9/0.65 38.1/0.55",
    (8, 8): "1.88/0.06 2.70/0.10 5.01/0.49 11.4/0.38 36.7/0.63",
}
_OVER = {
    (1, 1): "0.03/0.06 0.03/0.18 0.03/0.4 0.03/2.0 5.8/12",
    (2, 2): "0.03/0.14 0.03/0.54 0.03/1.1 1.7/6.6 5.8/12",
    (2, 4): "0.03/0.26 0.03/0.68 0.03/4.0 0.03/7.1 5.8/12",
    (2, 8): "0.03/0.28 0.03/2.2 0.03/3.7 0.1/7.3 5.8/18",
    (4, 2): "0.03/0.17 0.03/0.53 0.03/1.3 2.8/5.7 5.8/11",
    (4, 4): "0.03/0.29 0.03/0.60 0.03/2.4 1.3/7.4 5.8/15",
    (4, 8): "0.03/0.29 0.03/0.58 0.03/3.9 0.03/6.9 5.8/13",
    (8, 2): "0.03/0.30 0.03/0.73 0.03/1.2 2.9/5.4 6.6/13",
    (8, 4): "0.03/0.50 0.03/1.0 0.03/3.1 2.3/7.6 5.8/12",
    (8, 8): "0.03/0.49 0.03/1.0 0.03/4.6 0.9/7.9 5.8/15",
}


def _cell(table: dict[tuple[int, int], str], n: int, m: int, cores: int) -> str | None:
    if cores not in CORES or (n, m) not in table:
        return None
    return table[n, m].split()[CORES.index(cores)]


def seconds(n: int, m: int, cores: int) -> str | None:
    """Seconds from the left part of table 3, as central/tree."""
    return _cell(_SECONDS, n, m, cores)


def over_ideal(n: int, m: int, cores: int) -> str | None:
    """Percent over ideal from the right part of table 3, as central/tree."""
    return _cell(_OVER, n, m, cores)


def retention(line: Line, problem: str, machine: str, is_last: bool) -> list[str]:
    """The numbers of sections 7.2 and 7.4 about an iteration of retentive stealing, as words."""
    if line["scheme"] != "retain" or not problem.startswith("hf-be512"):
        return []
    cores, iteration = line["cores"], line["iteration"]
    said = []
    efficiency = EFFICIENCY.get((machine, cores))
    if is_last and efficiency is not None:
        said.append(f"over {100 * efficiency:.0f} %")
    for name, numbers in (("attempts", ATTEMPTS), ("steals", STEALS)):
        number = numbers.get(iteration, {}).get(cores)
        if machine == "hopper" and number is not None:
            said.append(f"{number} {name}")
    return said
