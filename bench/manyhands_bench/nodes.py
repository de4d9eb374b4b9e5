# SPDX-License-Identifier: BSD-3-Clause
"""Several nodes on one machine, for messages over a network.

In this module, a *node* is a network namespace, with a UTS and an IPC namespace for every process
that starts in it. An MPI library thus sees hosts connected by TCP only: by a veth pair for two
nodes, by a bridge in its own namespace (the *switch*) for more. The MPI's launcher starts its
proxies by the *agent*, a script in place of ssh. The machine's cores are divided among the nodes.
If there are more nodes than cores, nodes share cores. Needs root, `ip` of iproute2, and `unshare`
and `taskset` of util-linux.
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
LINK = "mh0"  # the only network interface of each node beside lo
LINK_S = 5.0  # longest wait for a link to come up
_SWITCH = "sw"  # name of the bridge in the namespace of the switch
_AGENT = """#!/bin/sh
# [options] HOST COMMAND...: as ssh, to one of the nodes of this machine.
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift
case $host in
{cases}
    *) echo "there is no node $host" >&2; exit 1 ;;
esac
exec ip netns exec $node unshare --uts --ipc taskset -c $cpus sh -c "hostname $node; $*"
"""
_CASE = "    {0.address} | {0.name}) node={0.name} cpus={0.cpus} ;;"


class NodesError(Exception):
    """The nodes could not be made."""


@dataclass(frozen=True)
class Node:
    name: str
    address: str
    cpus: str  # a CPU list for taskset


@dataclass(frozen=True)
class Nodes:
    each: tuple[Node, ...]
    agent: Path

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(node.address for node in self.each)

    def on(self, node: Node, command: list[str]) -> list[str]:
        """The command that runs `command` on `node`."""
        return [str(self.agent), node.name, *command]

    def on_first(self, command: list[str]) -> list[str]:
        return self.on(self.each[0], command)


def obstacle() -> str | None:
    """The reason why this machine cannot have two nodes, or None."""
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
    """Network namespaces for the duration of the context, which removes them after an exception,
    too.
    """
    try:
        for name in names:
            _ip("netns", "add", name)
        yield
    finally:
        there = {line.split()[0] for line in _ip("netns", "list").splitlines()}
        for name in names:
            if name in there:
                _ip("netns", "delete", name)  # also deletes the veth pair that ends there


@contextlib.contextmanager
def several_nodes(scratch: Path, count: int) -> Iterator[Nodes]:
    """Nodes for the duration of the context. Processes that still run in the nodes at the end are
    not ended.
    """
    nodes = _plan(scratch, count)
    switch = [f"mh-{os.getpid()}-switch"] if count > 2 else []
    with _namespaces(*(node.name for node in nodes.each), *switch):
        if switch:
            _plug_in(nodes.each, *switch)
        else:
            ends = [("netns", node.name) for node in nodes.each]
            _ip("link", "add", LINK, *ends[0], "type", "veth", "peer", "name", LINK, *ends[1])
        for node in nodes.each:
            _ip("-netns", node.name, "link", "set", "lo", "up")
            _ip("-netns", node.name, "address", "add", f"{node.address}/24", "dev", LINK)
            _ip("-netns", node.name, "link", "set", LINK, "up")
            _control_congestion(node)
        for node in nodes.each:
            _await_link(node)
        yield nodes


def two_nodes(scratch: Path) -> contextlib.AbstractContextManager[Nodes]:
    return several_nodes(scratch, 2)


def _plug_in(nodes: tuple[Node, ...], switch: str) -> None:
    """Connects each node to the bridge of the switch by a veth pair."""
    _ip("-netns", switch, "link", "add", _SWITCH, "type", "bridge")
    _ip("-netns", switch, "link", "set", _SWITCH, "up")
    for port, node in enumerate(nodes):
        here, there = ("name", f"port{port}", "netns", switch), ("name", LINK, "netns", node.name)
        _ip("link", "add", *here, "type", "veth", "peer", *there)
        _ip("-netns", switch, "link", "set", f"port{port}", "master", _SWITCH, "up")


def _plan(scratch: Path, count: int) -> Nodes:
    """The nodes and their agent. The names contain the pid, so no other process uses them."""
    cpus = sorted(os.sched_getaffinity(0))
    parts = [cpus[i * len(cpus) // count : (i + 1) * len(cpus) // count] for i in range(count)]
    if len(cpus) < count:
        parts = [[cpus[i % len(cpus)]] for i in range(count)]
    each = tuple(
        Node(
            f"mh-{os.getpid()}-{i + 1}",
            f"10.199.7.{i + 1}",
            ",".join(map(str, parts[i])),
        )
        for i in range(count)
    )
    agent = scratch / "agent"
    agent.write_text(_AGENT.format(cases="\n".join(map(_CASE.format, each))))
    agent.chmod(0o755)
    return Nodes(each, agent)


def _control_congestion(node: Node) -> None:
    """Choose Linux's default congestion control, if possible, because BBR delays bursts by a
    millisecond.
    """
    choose = "echo cubic > /proc/sys/net/ipv4/tcp_congestion_control"
    subprocess.run(
        ["ip", "netns", "exec", node.name, "sh", "-c", choose], stderr=subprocess.DEVNULL
    )


def _await_link(node: Node) -> None:
    """Wait until the kernel reports that the link is up. MPI libraries read this state, and the
    kernel reports it up to a second late.
    """
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
