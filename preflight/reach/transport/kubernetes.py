"""How is a Python in a pod reached? By the user's own kubectl, with the user's own kubeconfig: `kubectl exec`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from preflight.reach.transport.pods import LABEL_VALUE, NAME, Pod, in_order, read_pods
from preflight.reach.transport.reach import Found, last_line
from preflight.said import said

if TYPE_CHECKING:
    from preflight.reach.host import Host
    from preflight.reach.transport.reach import Reach

LISTING_SECONDS = 30.0
NOTED = 32  # pods in a note
FORM = "k8s:NAMESPACE/SELECTOR"
WANTED = said("wanted {FORM}, as in k8s:train/job-name=llama, or k8s:NAMESPACE/pod/NAME", FORM)
# A pod by its name, as reports write it: with the container, and with the node that it runs on.
POD = re.compile(rf"pod/(?P<pod>{NAME})(?::(?P<container>{NAME}))?(?:@(?P<node>{NAME}))?")
WRITTEN = re.compile(rf"k8s:(?P<namespace>{NAME})/{POD.pattern}")
# "app=train,tier in (a, b),!canary": keys and values of labels, and a container after a colon.
KEY = rf"(?:{NAME}/)?{LABEL_VALUE}"
REQUIREMENT = said(
    "(?:!?{KEY}|{KEY} *(?:=|==|!=) *(?:{LABEL_VALUE})?|{KEY} +(?:not)?in +\\([A-Za-z0-9_., -]{{0,2000}}\\))",
    KEY,
    LABEL_VALUE,
)
SELECTOR = re.compile(
    said("(?P<labels>{REQUIREMENT}(?: *, *{REQUIREMENT}){{0,31}})(?::(?P<container>{NAME}))?", REQUIREMENT, NAME)
)

MOVED = (
    "the pod was made anew and runs on {now}, not on {then} as --hosts says; select the pods by their labels, or take"
    " the @ and what follows off its line"
)
ROLE = "give it the Role of examples/kubernetes.yaml"
WHOAMI = "`kubectl auth whoami` must succeed here without asking anything"
INFO = "`kubectl cluster-info` must succeed"
NEARER = "a proxy or load balancer in the way may cut it: start preflight nearer to the API server"
NO_ANSWER = (
    r"i/o timeout|context deadline exceeded|Client.Timeout exceeded|TLS handshake timeout"
    r"|no route to host|network is unreachable"
)
CUT = (
    r"websocket: close|unexpected EOF|error reading from error stream|connection reset by peer|broken pipe"
    r"|lost connection|use of closed network|ping timeout"
)
# kubectl's and the API server's own words -> what is wrong, and what to do.
CAUSES = (
    (r"cannot (?:create|get) resource \"pods/exec\"", "this user may not run commands in pods", ROLE),
    (r"cannot (?:list|get) resource \"pods\"", "this user may not read the pods", ROLE),
    (
        r"admission webhook \S+ denied the request:? ?.*",
        "a policy of the cluster forbids it",
        "ask who keeps that policy to let this user run commands in these pods",
    ),
    (r"\(Forbidden\)|is forbidden:", "the API server forbids it", "`kubectl auth can-i create pods/exec` shows why"),
    (r"\(Unauthorized\)|must be logged in|provide credentials", "kubeconfig's token is refused or has expired", WHOAMI),
    (r"Please enter Username|^error: EOF", "kubeconfig has no credentials for this user", WHOAMI),
    (r"getting credentials: .*", "kubeconfig's credential plugin gives no token", WHOAMI),
    (
        r"pods \"\S+\" not found|\(NotFound\)",
        "there is no such pod any more",
        "its successor has a new name, which the list will have",
    ),
    (r"container \S+ is not valid", "the pod has no such container", "name one of its own: SELECTOR:CONTAINER"),
    (
        r"container not found|container \S+ is not running|is waiting to start",
        "its container does not run",
        "`kubectl describe pod POD` and `kubectl logs --previous POD` show why",
    ),
    (r"completed pod", "the pod has ended", "select pods that run, or start the job again"),
    (r"does not have a host assigned", "the pod is not scheduled", "`kubectl describe pod POD` shows why"),
    (
        r"error dialing backend|proxy error from|dial tcp \S+:10250",
        "the API server does not reach the kubelet of its node",
        "`kubectl get nodes` and the log of the kubelet show why",
    ),
    (
        r"exit code 137\b",
        "its container was killed: restarted, evicted or out of memory",
        "`kubectl describe pod POD` shows which",
    ),
    (
        r"context was not found for specified context: \S+|context \S+ does not exist",
        "kubeconfig has no such context",
        "`kubectl config get-contexts` lists them; choose one: `kubectl config use-context NAME`",
    ),
    (
        r"localhost:8080",
        "kubectl asks there where kubeconfig names no cluster, or is not there",
        "set KUBECONFIG to its path; `kubectl config view` shows what is read",
    ),
    (r"connect(?:ion to the server \S+ was|: connection) refused", "nothing listens at the API server's address", INFO),
    (r"no such host|server misbehaving", "the API server's name does not resolve", "check the cluster in kubeconfig"),
    (r"(?:tls: .*)?x509: .*|tls: .*", "the API server's certificate is not trusted", "check kubeconfig's certificates"),
    (
        r"previous attempt: .*connection reset by peer",
        "the API server, or a proxy before it, resets every connection",
        INFO,
    ),
    (NO_ANSWER, "the API server does not answer", said("{INFO}: check the network and the proxy variables", INFO)),
    (
        r"error loading config.*",
        "kubeconfig is not usable",
        "`kubectl config view` shows it",
    ),
    (CUT, "the stream through the API server broke", NEARER),
    (r"TooManyRequests|too many requests", "the API server has too much to do", "wait for it"),
)
STARTED = re.compile(r"(?m)^command terminated with (?:exit code|signal) (?!137\b)\S+\s*\Z")
COMPLAINS = re.compile(r"(?m)^(?:error:|Error from server|Unable to connect|The connection to the server|E\d{4} )")
NO_PROGRAM = re.compile(
    r"executable file not found|no such file or directory|permission denied|OCI runtime exec failed"
)
PASSES = re.compile(r"TooManyRequests|too many requests|etcdserver: |TLS handshake timeout|\(ServiceUnavailable\)")


def run_kubectl(argv: Sequence[str], *, seconds: float = LISTING_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run kubectl, which may ask nobody anything. Raises OSError where it is not there or does not come back."""
    try:
        return subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
        )
    except FileNotFoundError:
        raise FileNotFoundError("kubectl is not installed here: start preflight where it is") from None
    except subprocess.TimeoutExpired as error:
        stderr = (error.stderr or b"").decode("utf-8", "replace")  # of the attempts that it has made so far
        words = said("kubectl gave no answer in {seconds:.0f} s; `kubectl cluster-info` must succeed", seconds)
        raise TimeoutError(reported(stderr) or words) from None


@dataclass(frozen=True)
class Kubernetes:
    """Pods, each by a `kubectl exec` of its own; the image needs a Python, and nothing is written into it."""

    run: Callable[[Sequence[str]], subprocess.CompletedProcess[str]] = run_kubectl
    name = "k8s"
    form = FORM
    starting_seconds = 0.0

    def named(self, rest: str) -> tuple[Found, ...]:
        """The pods that carry these labels, in the order of their job's ranks; one pod by its name asks nobody."""
        namespace, slash, what = rest.partition("/")
        one, several = POD.fullmatch(what), SELECTOR.fullmatch(what)
        if (
            not slash
            or not re.fullmatch(NAME, namespace)
            or len(rest) > 4096
            or not (one or (several and not what.startswith("pod/")))
        ):
            raise ValueError(WANTED)
        if one:
            return (Found(one["pod"], f"k8s:{rest}", is_remembered=bool(one["node"])),)
        assert several is not None
        pods = in_order(self._listed(namespace, f"--selector={several['labels']}"))
        if not pods:
            selected = said(
                "kubectl get pods --namespace={namespace} --selector='{several}'", namespace, several["labels"]
            )
            raise ValueError(
                said("no pod matches: `{selected}` must list the job's pods; check namespace and labels", selected)
            )
        return tuple(self._found(pod, namespace, several["container"] or "") for pod in pods)

    def moved(self, addresses: Sequence[str]) -> dict[str, str]:
        """By its address, why a pod is no longer where an earlier run found it: a StatefulSet makes it anew elsewhere.

        One request for each namespace. A pod that does not exist is reported by `kubectl exec`. Raises OSError where
        the API server could not be asked.
        """
        found: dict[str, str] = {}
        written = {address: place for address in addresses if (place := WRITTEN.fullmatch(address)) and place["node"]}
        for namespace in dict.fromkeys(place["namespace"] for place in written.values()):
            pods = {pod.name: pod for pod in self._listed(namespace)}
            for address, place in written.items():
                pod = pods.get(place["pod"])
                if place["namespace"] == namespace and pod is not None and pod.node not in ("", place["node"]):
                    found[address] = MOVED.format(now=pod.node, then=place["node"])
        return found

    def _listed(self, namespace: str, *selector: str) -> tuple[Pod, ...]:
        words = ["kubectl", "get", "pods", f"--namespace={namespace}", *selector, "--output=json"]
        done = self.run([*words, "--request-timeout=20s"])
        if done.returncode != 0:
            raise ConnectionError(
                reported(f"{done.stdout[:200]}\n{done.stderr}")
                or said("kubectl ended with {returncode}", done.returncode)
            )
        try:
            return read_pods(json.loads(done.stdout))
        except (ValueError, RecursionError):
            raise ConnectionError(
                "kubectl printed a list of pods that is none; is `kubectl` another program?"
            ) from None

    def _found(self, pod: Pod, namespace: str, container: str) -> Found:
        chosen = container or pod.training_container
        node = f"@{pod.node}" if pod.node else ""
        return Found(pod.name, f"k8s:{namespace}/pod/{pod.name}:{chosen}{node}", pod.trouble(chosen, namespace))

    def argv(self, host: Host, reach: Reach) -> list[str]:
        """``kubectl exec --stdin POD -- COMMAND``; no terminal, which would change bytes."""
        namespace, _, what = host.address.removeprefix("k8s:").partition("/")
        pod = POD.fullmatch(what)
        assert pod is not None, host.address
        container = [f"--container={pod['container']}"] if pod["container"] else []
        words = ["kubectl", "exec", "--stdin", "--quiet", f"--namespace={namespace}", *container, pod["pod"]]
        return [*words, "--", *reach.loader(host)]

    def explain(self, _node: str, code: int, stderr: str) -> str:
        """kubectl's error in our words, the same for all pods that have it; in its own where we know no better."""
        if code == 0 or STARTED.search(stderr) or NO_PROGRAM.search(stderr):
            return ""
        return reported(stderr)

    def is_worth_a_retry(self, stderr: str) -> bool:
        """Whether the API server had too much to do."""
        return bool(PASSES.search(stderr))

    def log_in_hint(self, node: str) -> str:
        """The same way in, by hand."""
        return said("`kubectl exec {node} -- true` must succeed, with the --namespace of --hosts", node)


def machines(hosts: Iterable[Host]) -> tuple[str, ...]:
    """A note of which pod runs on which node of Kubernetes: that is what is drained or repaired. None without pods."""
    found = [
        (host.name, place["node"])
        for host in hosts
        if (place := WRITTEN.fullmatch(host.address)) and place["node"] and not (host.is_remembered and host.trouble)
    ]
    listed = ", ".join(f"{pod} ({node})" for pod, node in found[:NOTED])
    more = said(", and {NOTED} more: see report.json", len(found) - NOTED) if len(found) > NOTED else ""
    return (said("pods, and the nodes that they run on: {listed}{more}", listed, more),) if found else ()


def reported(stderr: str) -> str:
    """kubectl's error, why and what to do; "" where there is none."""
    for sign, cause, fix in CAUSES:
        found = re.search(sign, stderr, re.MULTILINE)
        if found:
            return said("{cause} (kubectl: {strip}); {fix}", cause, found[0].strip(), fix)
    return last_line(stderr, "") if COMPLAINS.search(stderr) else ""
