# SPDX-License-Identifier: BSD-3-Clause
"""The abilities of this machine, found by trying where possible.

The main question is whether a rank may read the memory of another rank (cross-memory attach, CMA:
process_vm_readv). `try_cma` reads under the conditions of an MPI job, between two sibling
processes: directly, or after the process that is read has named the reader's ancestor with
PR_SET_PTRACER. The library names the ancestor in this way if the Yama security module restricts
tracing. The other functions find the cause of a refusal.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import re
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from manyhands import installation
from manyhands.program import MpiLibrary, library_from, output_of

PR_SET_PTRACER = 0x59616D61
CAP_SYS_PTRACE = 19
INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # an inode number that the kernel fixes
INITIAL_USER_NAMESPACE = 0xEFFFFFFD


def read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


# --- cross-memory attach ----------------------------------------------------------------------


class IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@functools.cache
def process_vm_readv() -> Callable[..., int]:
    call = ctypes.CDLL(None, use_errno=True).process_vm_readv
    call.restype = ctypes.c_ssize_t
    number, pointer = ctypes.c_ulong, ctypes.c_void_p
    call.argtypes = [ctypes.c_int, pointer, number, pointer, number, number]
    return call


def read_into(buffer: ctypes.Array[ctypes.c_char], pid: int, address: int) -> int:
    """Fills the buffer with bytes of another process. Returns 0 or the errno."""
    size = ctypes.sizeof(buffer)
    local = IoVec(ctypes.addressof(buffer), size)
    remote = IoVec(address, size)
    count = process_vm_readv()(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
    return 0 if count == size else ctypes.get_errno() or errno.EIO


def read_memory(pid: int, address: int, size: int) -> tuple[bytes, int]:
    """Bytes of another process and 0, or no bytes and the errno."""
    buffer = ctypes.create_string_buffer(size)
    error = read_into(buffer, pid, address)
    return (b"", error) if error else (buffer.raw, 0)


def kernel_page_ns() -> float | None:
    """The cost of the kernel copy (process_vm_readv) beyond a memcpy, in ns per page of 4 KB.

    The measurement follows that of the library (src/memory/probe.hpp), but with more pages, which
    hide the time of a call from Python. None if the kernel refuses to copy.
    """
    pages = 512
    source = ctypes.create_string_buffer(b"\1" * (pages * 4096), pages * 4096)
    target = ctypes.create_string_buffer(pages * 4096)
    kernel, processor = [], []
    for _ in range(8):
        begin = time.perf_counter_ns()
        if read_into(target, os.getpid(), ctypes.addressof(source)) != 0:
            return None
        middle = time.perf_counter_ns()
        ctypes.memmove(target, source, pages * 4096)
        kernel.append(middle - begin)
        processor.append(time.perf_counter_ns() - middle)
    return (min(kernel) - min(processor)) / pages


def owner(to_reader: int, until_closed: int, ancestor: int) -> None:
    """Runs in the process that is read: sends the address of a secret to the reader, and stays
    until the pipe `until_closed` is closed.
    """
    if ancestor:
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(ancestor), 0, 0, 0)
    secret = ctypes.create_string_buffer(os.urandom(16), 16)
    os.write(to_reader, struct.pack("iQ", os.getpid(), ctypes.addressof(secret)) + secret.raw)
    os.read(until_closed, 1)


def reader(from_owner: int) -> int:
    """Runs in the process that reads. Returns its exit code: 0 if it read the owner's secret,
    otherwise the errno.
    """
    size = struct.calcsize("iQ")
    message = os.read(from_owner, size + 16)
    pid, address = struct.unpack("iQ", message[:size])
    found, error = read_memory(pid, address, 16)
    return error if error else 0 if found == message[size:] else errno.ESRCH


def try_cma(name_ancestor: bool) -> int:
    """Returns 0 if a child of this process can read the memory of another child, otherwise the
    errno.
    """
    message_out, message_in = os.pipe()
    stay_out, stay_in = os.pipe()
    me = os.getpid() if name_ancestor else 0
    owner_pid = os.fork()
    if owner_pid == 0:
        os.close(stay_in)
        owner(message_in, stay_out, me)
        os._exit(0)
    os.close(message_in)
    reader_pid = os.fork()
    if reader_pid == 0:
        os.close(stay_in)
        code = errno.EIO
        try:
            code = reader(message_out)
        finally:
            os._exit(code)
    _, status = os.waitpid(reader_pid, 0)
    for descriptor in (stay_in, stay_out, message_out):
        os.close(descriptor)
    os.waitpid(owner_pid, 0)
    return os.waitstatus_to_exitcode(status)


# --- why the kernel may refuse a single copy --------------------------------------------------


def status_field(name: str) -> str | None:
    match = re.search(rf"^{name}:\s*(\S+)", read("/proc/self/status") or "", re.MULTILINE)
    return match.group(1) if match else None


def yama_scope() -> int | None:
    text = read("/proc/sys/kernel/yama/ptrace_scope")
    return int(text) if text is not None and text.isdigit() else None


def seccomp_mode() -> int | None:
    text = status_field("Seccomp")
    return int(text) if text is not None else None


def may_trace_all() -> bool:
    effective = status_field("CapEff")
    return effective is not None and bool(int(effective, 16) >> CAP_SYS_PTRACE & 1)


def in_own_namespace(kind: str, initial: int) -> bool | None:
    try:
        return os.stat(f"/proc/self/ns/{kind}").st_ino != initial
    except OSError:
        return None


# --- cores and memory -------------------------------------------------------------------------


def expand(cpu_list: str) -> set[int]:
    """The CPUs of a list such as '0-3,8'."""
    cpus: set[int] = set()
    for part in cpu_list.split(","):
        first, _, last = part.partition("-")
        if first.strip():
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def compress(cpus: set[int]) -> str:
    """The list of a set of CPUs, such as '0-3,8'."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def numa_nodes() -> dict[int, set[int]]:
    """The CPUs of each NUMA node that has CPUs, by the number of the node."""
    nodes = {}
    for folder in Path("/sys/devices/system/node").glob("node[0-9]*"):
        cpus = expand(read(str(folder / "cpulist")) or "")
        if cpus:
            nodes[int(folder.name[4:])] = cpus
    return dict(sorted(nodes.items()))


def cores(cpus: set[int]) -> int:
    """The number of physical cores to which the CPUs belong."""
    siblings = {
        read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        for cpu in cpus
    }
    return len(siblings)


def online_cpus() -> set[int]:
    return expand(read("/sys/devices/system/cpu/online") or "") or os.sched_getaffinity(0)


def cgroup_cpus() -> float | None:
    """The CPUs that the tightest control group above this process grants; None without a limit."""
    limits = [*version_two_limits(), *version_one_limits()]
    return min(limits) if limits else None


def version_two_limits() -> list[float]:
    match = re.search(r"^0::(.*)$", read("/proc/self/cgroup") or "", re.MULTILINE)
    folder = Path("/sys/fs/cgroup") / (match.group(1).lstrip("/") if match else "")
    limits = []
    for place in (folder, *folder.parents):
        words = (read(str(place / "cpu.max")) or "max").split()
        if words[0] != "max" and len(words) == 2:
            limits.append(int(words[0]) / int(words[1]))
        if place == Path("/sys/fs/cgroup"):
            break
    return limits


def version_one_limits() -> list[float]:
    quota = read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
    period = read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    return [int(quota) / int(period)] if quota and period and int(quota) > 0 else []


def transparent_huge_pages() -> str | None:
    match = re.search(r"\[(\w+)\]", read("/sys/kernel/mm/transparent_hugepage/enabled") or "")
    return match.group(1) if match else None


def shared_memory() -> tuple[int, int] | None:
    """The size and the free bytes of /dev/shm; None if it cannot be read."""
    try:
        facts = os.statvfs("/dev/shm")
    except OSError:
        return None
    return facts.f_blocks * facts.f_frsize, facts.f_bavail * facts.f_frsize


# --- MPI libraries on this machine ------------------------------------------------------------


def mpi_libraries() -> list[MpiLibrary]:
    """The MPI libraries in the linker cache, LD_LIBRARY_PATH, the prefixes on the PATH, the
    checkout.
    """
    found: dict[Path, MpiLibrary] = {}
    for path in library_files():
        library = library_from(path)
        if library is not None and path.exists():
            found.setdefault(path.resolve(), library)
    return list(found.values())


def library_files() -> list[Path]:
    files = []
    for line in output_of(["/sbin/ldconfig", "-p"]).splitlines():
        _, arrow, target = line.partition(" => ")
        if arrow:
            files.append(Path(target))
    for folder in library_folders():
        files.extend(sorted(folder.glob("libmpi*.so.*")))
    return files


def library_folders() -> list[Path]:
    folders = [Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p]
    for place in os.environ.get("PATH", "").split(":"):
        if place and any((Path(place) / name).exists() for name in ("mpicc", "mpiexec")):
            folders += [Path(place).resolve().parent / name for name in ("lib", "lib64")]
    return folders + [prefix / "lib" for prefix in installation.embedded_mpi()]


@dataclass(frozen=True)
class FoundMpi:
    library: MpiLibrary
    variant: Path | None  # our variant for this MPI's ABI, None if it was not built


def mpi_with_variants() -> list[FoundMpi]:
    front = installation.library()
    result = []
    for library in mpi_libraries():
        variant = front and front.parent / f"libmanyhands-{library.family.value}.so"
        result.append(FoundMpi(library, variant if variant and variant.exists() else None))
    return result


# --- shared heap ------------------------------------------------------------------------------


def heap_verdict(library: Path, mode: str) -> tuple[bool, str]:
    """Whether MH_HEAP=`mode` would share large allocations on this machine, and the reason if
    not.
    """
    explain = ctypes.CDLL(str(library)).mh_heap_explain
    explain.argtypes = (ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p))
    why = ctypes.c_char_p()
    good = explain(mode.encode(), ctypes.byref(why))
    return bool(good), (why.value or b"").decode()
