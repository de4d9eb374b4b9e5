# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: F403, F405
"""Manyhands for Spack. Use it from a checkout:

spack repo add packaging/spack
spack dev-build manyhands@0.1.0
"""

from spack.package import *


class Manyhands(MakefilePackage):
    """MPI ranks that work while they wait: a library in front of the MPI that a program uses.

    The build fetches Python packages and the headers of MPI libraries with pip. No MPI is a
    dependency, because one installation serves programs of every MPI.
    """

    license("BSD-3-Clause")
    version("0.1.0")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("gmake", type="build")
    depends_on("python@3.10:", type=("build", "run"))
    depends_on("hwloc@2:")
    depends_on("fmt@9:", type="build")
    depends_on("nlohmann-json", type="build")
    depends_on("boost+context", type=("build", "link"))
    depends_on("libfabric")

    conflicts("platform=darwin")
    requires("target=x86_64:")

    build_targets = ["build"]

    def install(self, spec, prefix):
        make("install", f"PREFIX={prefix}")

    def setup_run_environment(self, env):
        env.prepend_path("MANPATH", self.prefix.share.man)
