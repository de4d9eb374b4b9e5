# SPDX-License-Identifier: BSD-3-Clause
"""The cases of whole programs, on one node and over several (CAB-MPI, section VI)."""

from __future__ import annotations

from collections.abc import Iterator

from manyhands_bench.case import HELPED, PLAIN, Arm, Case, Variant, args, ranks
from manyhands_bench.host import Machine
from manyhands_bench.nodes import LINK

# The settings that keep messages between simulated nodes (nodes.py) on TCP. By default UCX finds
# shared memory that it cannot use, and takes the loopback route of a node for a route to the other
# node.
TCP = {
    "UCX_TLS": "tcp,self",
    "UCX_NET_DEVICES": LINK,
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,vader,tcp",
}
NO_TCP_END = {"mpich4": "its MPI_Finalize may never end over UCX's TCP"}
NO_TCP_WINDOWS = {**NO_TCP_END, "openmpi4": "this MPI has no windows over TCP"}
ALL_WINDOWS = Arm("helped", environment={"MH_WINDOWS": "all"})
_HOSTS = (1, 2, 4)  # network namespaces, with two ranks on each
_SIDES = (4, 12, 24, 48, 96)  # cells of a rank along each axis
_VALUES = 1 << 22  # of a rank, in all variables together
_STEPS = 20


def _over(hosts: int) -> str:
    return "one node" if hosts == 1 else f"two ranks on each of {hosts} nodes over TCP"


def _case(
    program: str, hosts: int, title: str, helped: Arm, words: tuple[str, ...], not_under: dict
) -> Case:
    return Case(
        program if hosts == 1 else f"{program}-{hosts}-nodes",
        f"{title}, {_over(hosts)}",
        program,
        ranks(2 * hosts),
        args(*words),
        arms=(PLAIN, helped),
        environment=TCP if hosts > 1 else {},
        crowded=hosts > 1,
        hosts=hosts,
        not_under=not_under if hosts > 1 else {},
    )


def _products() -> Iterator[Case]:
    for hosts in _HOSTS:
        title = "Block-sparse matrix product by one-sided operations"
        words = ("--tiles", "8", "--tile", "128", "--check", "0")
        helped = HELPED if hosts == 1 else ALL_WINDOWS
        yield _case("bspmm", hosts, title, helped, words, NO_TCP_WINDOWS)


def _grid(side: int) -> tuple[str, ...]:
    """The arguments of the stencil for a rank of `side` cells along each axis."""
    cells = [word for axis in "xyz" for word in (f"--n{axis}", str(side))]
    return (*cells, "--vars", str(_VALUES // side**3))


def _stencils() -> Iterator[Case]:
    words = ("--steps", str(_STEPS), "--warmup", "2", "--check", "0", "--halo", "types")
    for hosts in _HOSTS[1:]:
        title = "Stencil of 24^3 cells a rank"
        yield _case(
            "stencil", hosts, title, HELPED, (*words, *_grid(24), "--json", "-"), NO_TCP_END
        )

    def sides(_: Machine) -> tuple[Variant, ...]:
        return tuple(Variant(f"{side}^3", arguments=_grid(side)) for side in _SIDES)

    yield Case(
        "stencil",
        "Stencil by the cells of a rank, as many values in all",
        "stencil",
        ranks(2),
        args(*words, "--json", "-"),
        variants=sides,
    )


PROGRAM_CASES = (*_products(), *_stencils())
