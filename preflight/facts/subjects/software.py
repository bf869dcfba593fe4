"""Which software has a node, for the interpreter of the job?"""

from __future__ import annotations

from typing import Literal

import msgspec

from preflight.facts.value import NOT_REPORTED, Missing, Text, Value, or_none, present
from preflight.said.errors import BlockedBy, FactMissing


class Software(Value, frozen=True, kw_only=True):
    """The job's interpreter and what is installed for it; read from dist-info and version.py, never imported."""

    python: Text
    implementation: Text
    executable: Text
    libc: Text
    # Whether pip refuses to install into it, because the system manages it: https://peps.python.org/pep-0668/
    keeps_pip_out: bool = False
    packages: dict[Text, Text]  # normalised distribution name -> version
    torch: Text | Missing
    torch_cuda: Text | Missing  # CUDA runtime torch was built for; absent for a CPU build
    torch_hip: Text | Missing
    cudnn: Text | Missing
    nccl: Text | Missing  # the library torch would load
    # Every libnccl.so.2 that a process may meet -> its version, "" where it has none.
    nccl_copies: dict[Text, Text] = msgspec.field(default_factory=dict)
    # Package -> what it wants of others: "torchvision" -> {"torch": "==2.13.0"}.
    requirements: dict[Text, dict[Text, Text]] = msgspec.field(default_factory=dict)
    # The network plugins (libnccl-net*.so) that NCCL would find; what is elsewhere it does not load.
    nccl_plugins: tuple[Text, ...] | Missing = NOT_REPORTED
    plugins_lacking: tuple[Text, ...] = ()  # what of libfabric one of them needs and no libfabric of the node has
    # Other interpreters of the node that have torch -> its version; looked for where the job's own has none.
    torch_elsewhere: dict[Text, Text] = msgspec.field(default_factory=dict)
    put_first: tuple[Text, ...] = ()  # libraries that LD_LIBRARY_PATH puts before those of torch and of the system
    nccl_preloaded: Text = ""  # the one that LD_PRELOAD puts before all others

    ray_running: dict[Text, Text] = msgspec.field(default_factory=dict)  # folder whose Ray runs here -> its version

    def has_torch(self) -> bool:
        """Whether torch is installed; FactMissing where that is not known."""
        return or_none(self.torch, "torch") != "none"

    @property
    def torch_version(self) -> str:
        """The torch that the job imports, with its local part ("2.13.0+cu130")."""
        if not self.has_torch():
            raise BlockedBy("software.torch_is_installed", detail="no torch")
        return present(self.torch, "torch")

    def library_of_torch(self, name: Literal["torch_cuda", "torch_hip", "cudnn", "nccl"]) -> str:
        """The version of a library that torch was built for or would load, "none" where it uses none."""
        return or_none(getattr(self, name), name) if self.torch_version else "none"

    @property
    def python_minor(self) -> str:
        """The part of the Python version that pickles and wheels depend on: "3.11"."""
        return ".".join(self.python.split(".")[:2])

    def version(self, package: str) -> str:
        """The installed version of a distribution."""
        if package not in self.packages:
            raise FactMissing(package, "not installed", "absent")
        return self.packages[package]
