"""How do several hosts come to be on one machine, and how are they gone again without a trace?"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.scratch import COMPILER_CACHE

from . import machine, quota, sshd
from .host import LabHost
from .network import SUBNET, wire
from .residue import Residue
from .spaces import LabError, Space, await_holder, start_holder, stop_holder


class Lab:
    """Hosts node1..nodeN and a controller from which tests reach them; a context manager that ends them."""

    def __init__(self, directory: Path, *, forever: bool) -> None:
        self.directory = directory
        self.tag = directory.name
        self.shared = directory / "shared"
        self.hosts: tuple[LabHost, ...] = ()
        self.spaces: list[Space] = []
        self._forever = forever
        self._holders: list[subprocess.Popen[bytes]] = []
        self._started: list[subprocess.Popen[Any]] = []

    @classmethod
    def create(cls, hosts: int = 3, *, rate: str | None = "1gbit", forever: bool = False) -> "Lab":
        """Make a lab; it ends with this process, unless `forever` is set."""
        if not 1 <= hosts <= 200:
            raise LabError(f"{hosts} hosts: wanted 1 to 200")
        lab = cls(Path(tempfile.mkdtemp(prefix="preflight-lab-")), forever=forever)
        try:
            lab._build(hosts, rate)
        except BaseException:
            lab.destroy()
            raise
        return lab

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.destroy()

    def __getitem__(self, name: str) -> LabHost:
        return next(host for host in self.hosts if host.name == name)

    @property
    def names(self) -> str:
        """What --hosts takes: node[1-3]."""
        return f"node[1-{len(self.hosts)}]" if len(self.hosts) > 1 else "node1"

    @property
    def controller(self) -> Space:
        """Where tests and commands run that reach the hosts."""
        return next(space for space in self.spaces if space.name == "controller")

    def command(self, argv: Sequence[str], *, cwd: str | os.PathLike[str] = ".") -> list[str]:
        """The argv that runs a command in the controller; it replaces itself, so its pid is the command's."""
        # Entering a mount namespace moves to its root.
        return [*self.controller.enter(), "env", "-C", os.path.abspath(cwd), *argv]

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 120,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] = ".",
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the controller with this process's environment and `env`; its group is killed at timeout."""
        process = self.start(argv, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            stdout, stderr = process.communicate(timeout=timeout_s)
        finally:
            self._end(process)
        return subprocess.CompletedProcess(argv, process.returncode, stdout, stderr)

    def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] = ".",
        **settings: Any,
    ) -> subprocess.Popen[Any]:
        """Start a command in the controller as leader of its own process group: for tests that kill it."""
        settings.setdefault("stdin", subprocess.DEVNULL)
        # Where the compiler's cache of the tests lies is no business of a host: what is left on it must be seen.
        own = {name: value for name, value in os.environ.items() if name != COMPILER_CACHE}
        process = subprocess.Popen(
            self.command(argv, cwd=cwd), env={**own, **(env or {})}, start_new_session=True, **settings
        )
        self._started.append(process)
        return process

    def residue(self) -> dict[str, Residue]:
        """A snapshot of every host."""
        return {host.name: host.residue() for host in self.hosts}

    def left_since(self, before: Mapping[str, Residue], *, patience_s: float = 15) -> dict[str, list[str]]:
        """What is on the hosts and was not `before`, as soon as that is nothing or patience ends."""
        deadline = time.monotonic() + patience_s
        while True:
            now = {name: residue.since(before[name]) for name, residue in self.residue().items()}
            left = {name: lines for name, lines in now.items() if lines}
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.1)

    def destroy(self) -> None:
        """Kill what this lab started and remove what it made; a second call finds nothing to do."""
        with contextlib.ExitStack() as steps:  # every step is taken, whatever another one raises; last one first
            steps.callback(shutil.rmtree, self.directory, ignore_errors=True)
            steps.callback(quota.remove_groups, self.tag)
            for holder in self._holders:
                steps.callback(stop_holder, holder)
            for space in self.spaces:
                steps.callback(space.kill)
            for process in self._started:
                steps.callback(self._end, process)

    def state(self) -> dict[str, Any]:
        """What another process needs to use and to end this lab."""
        return {
            "directory": str(self.directory),
            "spaces": [asdict(space) for space in self.spaces],
            "addresses": {host.name: host.address for host in self.hosts},
        }

    @classmethod
    def attach(cls, state: Mapping[str, Any]) -> "Lab":
        """A lab that another process made."""
        lab = cls(Path(state["directory"]), forever=True)
        lab.spaces = [Space(**space) for space in state["spaces"]]
        lab._find_hosts(state["addresses"])
        return lab

    def _build(self, hosts: int, rate: str | None) -> None:
        addresses = {f"node{number}": f"{SUBNET}.{number}" for number in range(1, hosts + 1)}
        self._hold_namespaces(addresses)
        self._find_hosts(addresses)
        at = {**addresses, "controller": machine.CONTROLLER_ADDRESS}
        switch, *others = self.spaces
        wire(switch, [(space, at[space.name]) for space in others])
        for host in self.hosts:
            if rate is not None:
                host.shape(egress=rate, ingress=rate)
            host.start_sshd({})

    def _hold_namespaces(self, addresses: Mapping[str, str]) -> None:
        """Start all holders, then wait for them: they settle at the same time."""
        keys = self.directory / "keys"
        for directory in (Path(self._scratch), keys, self.shared):
            directory.mkdir()
        host_keys = {name: sshd.make_key(keys / name) for name in addresses}
        client_key, authorized_key = sshd.make_key(keys / "client")
        public_keys = {name: public for name, (_, public) in host_keys.items()}
        common = machine.common_files(self._scratch, addresses, client_key, public_keys)

        self._hold(machine.switch_spec(forever=self._forever), machine.SWITCH_NAMESPACES)
        controller = machine.controller_spec(self.directory, common, forever=self._forever)
        self._hold(controller, machine.CONTROLLER_NAMESPACES)
        for name, (host_key, _) in host_keys.items():
            files = common | machine.own_files(self._scratch, name, host_key, authorized_key)
            spec = machine.host_spec(self.directory, name, files, forever=self._forever)
            self._hold(spec, machine.HOST_NAMESPACES)
        for holder, name in zip(self._holders, ["switch", "controller", *addresses], strict=True):
            self.spaces.append(await_holder(holder, name=name, own_pids=name in addresses))

    def _hold(self, spec: dict[str, Any], namespaces: Sequence[str]) -> None:
        self._holders.append(start_holder(spec, tag=self.tag, namespaces=namespaces))

    def _find_hosts(self, addresses: Mapping[str, str]) -> None:
        switch, _, *spaces = self.spaces
        self.hosts = tuple(
            LabHost(space, switch, address=addresses[space.name], tag=self.tag, scratch=self._scratch)
            for space in spaces
        )

    @property
    def _scratch(self) -> str:
        return str(self.directory / "private")

    @staticmethod
    def _end(process: subprocess.Popen[Any]) -> None:
        """Kill a command's whole group, also after the command itself has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        process.wait(5)
