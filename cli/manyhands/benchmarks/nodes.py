# SPDX-License-Identifier: BSD-3-Clause
"""Two nodes on one machine, for what goes over a network.

A *node* here is a network namespace, with a UTS and an IPC namespace for every process that is
started in it, so that an MPI library sees two hosts with nothing but TCP between them: a veth pair.
A real launcher starts its proxies there by the *agent*, a script that stands in the place of ssh.
The machine's cores are parted among the nodes. Needs root, `ip` of iproute2 and `unshare` and
`taskset` of util-linux.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOOLS = ("ip", "unshare", "taskset")
LINK = "mh0"  # on either node; nothing else leads out
LINK_S = 5.0
_AGENT = """#!/bin/sh
# [options] HOST COMMAND...: as ssh, to one of two nodes of this machine.
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift
case $host in
    {0.address} | {0.name}) node={0.name} cpus={0.cpus} ;;
    {1.address} | {1.name}) node={1.name} cpus={1.cpus} ;;
    *) echo "there is no node $host" >&2; exit 1 ;;
esac
exec ip netns exec $node unshare --uts --ipc taskset -c $cpus sh -c "hostname $node; $*"
"""


class NodesError(Exception):
    """The nodes could not be made."""


@dataclass(frozen=True)
class Node:
    name: str
    address: str
    cpus: str  # as taskset reads them


@dataclass(frozen=True)
class Nodes:
    first: Node
    second: Node
    agent: Path

    @property
    def addresses(self) -> tuple[str, str]:
        return self.first.address, self.second.address

    def on_first(self, command: list[str]) -> list[str]:
        """The command as the first node runs it."""
        return [str(self.agent), self.first.name, *command]


def obstacle() -> str | None:
    """Why there can be no two nodes here, or None."""
    if os.geteuid() != 0:
        return "needs root, to make network namespaces"
    lacking = [tool for tool in TOOLS if shutil.which(tool) is None]
    if lacking:
        return f"needs {', '.join(lacking)} (iproute2, util-linux)"
    if len(os.sched_getaffinity(0)) < 2:
        return "needs two cores"
    try:
        with _namespaces(f"mh-try-{os.getpid()}"):
            return None
    except NodesError as error:
        return f"network namespaces cannot be made here ({error})"


@contextlib.contextmanager
def _namespaces(*names: str) -> Iterator[None]:
    """For the duration, and gone after it, also where a signal ends us while one is being made."""
    try:
        for name in names:
            _ip("netns", "add", name)
        yield
    finally:
        there = {line.split()[0] for line in _ip("netns", "list").splitlines()}
        for name in names:
            if name in there:
                _ip("netns", "delete", name)  # its end of a pair goes with it


@contextlib.contextmanager
def two_nodes(scratch: Path) -> Iterator[Nodes]:
    """Made for the duration; what still runs in them then is not ours to end."""
    nodes = _plan(scratch)
    both = (nodes.first, nodes.second)
    with _namespaces(*(node.name for node in both)):
        ends = [("netns", node.name) for node in both]
        _ip("link", "add", LINK, *ends[0], "type", "veth", "peer", "name", LINK, *ends[1])
        for node in both:
            _ip("-netns", node.name, "link", "set", "lo", "up")
            _ip("-netns", node.name, "address", "add", f"{node.address}/24", "dev", LINK)
            _ip("-netns", node.name, "link", "set", LINK, "up")
        for node in both:
            _await_link(node)
        yield nodes


def _plan(scratch: Path) -> Nodes:
    """Names that no other process of ours takes."""
    cpus = sorted(os.sched_getaffinity(0))
    halves = (cpus[: len(cpus) // 2], cpus[len(cpus) // 2 :])
    both = [
        Node(f"mh-{os.getpid()}-{i}", f"10.199.7.{i}", ",".join(map(str, half)))
        for i, half in enumerate(halves, start=1)
    ]
    agent = scratch / "agent"
    agent.write_text(_AGENT.format(*both))
    agent.chmod(0o755)
    return Nodes(*both, agent)


def _await_link(node: Node) -> None:
    """The kernel says that a link is up as late as a second after it is; libraries believe it."""
    deadline = time.monotonic() + LINK_S
    while time.monotonic() < deadline:
        if "state UP" in _ip("-netns", node.name, "link", "show", LINK):
            return
        time.sleep(0.02)
    raise NodesError(f"the link of {node.name} did not come up within {LINK_S} s")


def _ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise NodesError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
