"""Are labels in HOSTS understood, is `kubectl exec` as it should be, and are kubectl's words told as causes?"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest

from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport import LOADER, Reach
from preflight.reach.transport.kubernetes import WRITTEN, Kubernetes, machines, run_kubectl
from preflight.said.errors import UsageError
from tests.lab.kubernetes import pod


class Kubectl:
    """A kubectl that lists these pods, or fails with these words; it keeps what it was asked."""

    def __init__(self, *pods, stderr="", code=0, stdout=None):
        self.asked = []
        self.done = (code, json.dumps({"items": pods}) if stdout is None else stdout, stderr)

    def __call__(self, argv):
        self.asked.append(argv)
        code, stdout, stderr = self.done
        return subprocess.CompletedProcess(argv, code, stdout, stderr)


def test_pods_are_listed_by_their_labels():
    """In one request that is bounded in time; every pod is written so that a later run asks nobody."""
    kubectl = Kubectl(pod("llama-1-x", 1), pod("llama-0-y", 0))
    found = Kubernetes(kubectl).named("train/job-name=llama")
    assert [each.name for each in found] == ["llama-0-y", "llama-1-x"]
    assert found[0].address == "k8s:train/pod/llama-0-y:trainer@machine-0"
    assert WRITTEN.fullmatch(found[0].address)
    (words,) = kubectl.asked
    assert words[3:] == [
        "--namespace=train", "--selector=job-name=llama", "--output=json", "--request-timeout=20s",
    ]  # fmt: skip
    again = parse_hosts(found[0].address)
    assert [(host.name, host.address) for host in again] == [found[0][:2]]


@pytest.mark.parametrize(
    ("rest", "selector", "container"),
    [
        ("n/app.kubernetes.io/name=x", "app.kubernetes.io/name=x", "trainer"),
        ("n/a=1,b!=2,c in (d, e),f notin (g),!h,i", "a=1,b!=2,c in (d, e),f notin (g),!h,i", "trainer"),
        ("n/app=x:log-shipper", "app=x", "log-shipper"),
        ("n/app==x", "app==x", "trainer"),
    ],
)
def test_a_selector_is_handed_over_as_it_is(rest, selector, container):
    """A container may be named after a colon; without, the one with the GPUs is taken."""
    kubectl = Kubectl(pod("p", 0))
    (found,) = Kubernetes(kubectl).named(rest)
    assert f"--selector={selector}" in kubectl.asked[0]
    assert f":{container}@" in found.address


@pytest.mark.parametrize(
    "rest",
    [
        *("", "n", "n/", "/a=b", "N/a=b", "n/a=b c", "n/a=$(x)", "n/a='b'", "n/a=b,", "n/--all", "n/a in (b", "-n/a=b"),
        *("n/pod/", "n/pod/X", "n/pod/x:Y", "n/a=b:", "n/a\n=b", "n/" + "a," * 3000 + "b", "n/pod/x@y z"),
    ],
)
def test_what_is_no_selector_is_refused_before_kubectl_is_asked(rest):
    """With what was wanted."""
    kubectl = Kubectl()
    with pytest.raises(ValueError, match="wanted k8s:NAMESPACE/SELECTOR, as in"):
        Kubernetes(kubectl).named(rest)
    assert kubectl.asked == []


def test_the_commas_of_a_selector_do_not_end_it():
    """A plain word after a comma is a host of its own, as it may be one."""
    with pytest.raises(UsageError) as caught:
        parse_hosts("k8s:n/a=1,b in (c, d, e),!f?")
    assert "'k8s:n/a=1,b in (c,d,e),!f?'" in str(caught.value)
    assert [host.transport for host in parse_hosts("k8s:n/pod/a,k8s:n/pod/b,node7")] == ["k8s", "k8s", "ssh"]


@pytest.mark.parametrize(
    ("kubectl", "error", "said"),
    [
        (Kubectl(), ValueError, "no pod matches"),
        (Kubectl(code=1, stderr="error: You must be logged in to the server (Unauthorized)\n"), OSError, "token is"),
        (Kubectl(code=1, stderr="error: something new\n"), OSError, "error: something new"),
        (Kubectl(code=1), OSError, "kubectl ended with 1"),
        (Kubectl(stdout="hello"), OSError, "printed a list of pods that is none"),
        (Kubectl(stdout="[" * 100_000), OSError, "printed a list of pods that is none"),
        (Kubectl({"metadata": {"name": "A;B"}}), OSError, "printed a list of pods that is none"),
    ],
)
def test_no_list_is_no_host(kubectl, error, said):
    """Nothing there is the user's to mend; not asked is not."""
    with pytest.raises(error, match=said):
        Kubernetes(kubectl).named("train/app=x")


def test_a_pod_that_was_made_anew_elsewhere_is_told_by_one_request_for_a_namespace():
    """One that stayed, one that is gone and one that nobody placed are not: what runs there, or kubectl exec, tells."""
    waits = pod("waits", 3, spec={"nodeName": ""})
    kubectl = Kubectl(pod("stays", 0), pod("moves", 9), waits)
    written = [f"k8s:train/pod/{name}:trainer@machine-0" for name in ("stays", "moves", "waits", "gone")]
    assert Kubernetes(kubectl).moved([*written, "k8s:train/pod/moves:trainer", "node7"]) == {
        written[1]: "the pod was made anew and runs on machine-9, not on machine-0 as --hosts says; select the pods by"
        " their labels, or take the @ and what follows off its line"
    }
    (words,) = kubectl.asked
    assert words[3:] == ["--namespace=train", "--output=json", "--request-timeout=20s"]


def test_only_a_pod_with_its_node_is_one_that_is_remembered():
    """By its name alone it is meant wherever it runs; listed by labels, it was asked about."""
    kubectl = Kubernetes(Kubectl(pod("p", 0)))
    found = [kubectl.named(rest)[0].is_remembered for rest in ("n/pod/p:c@m", "n/pod/p:c", "n/pod/p", "n/app=x")]
    assert found == [True, False, False, False]


def test_a_kubectl_that_is_not_there_is_told(monkeypatch):
    """In words, not as a number."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError, match="kubectl is not installed here"):
        run_kubectl(["kubectl", "version"])


def test_a_kubectl_that_does_not_come_back_is_ended():
    """It may be asking somebody for a password, or wait for an API server that is silent."""
    with pytest.raises(TimeoutError, match="kubectl gave no answer in 0 s; `kubectl cluster-info` must succeed"):
        run_kubectl(["sleep", "60"], seconds=0.1)


PREVIOUS = "context deadline exceeded - error from a previous attempt: read tcp 10.0.0.2:50084->10.0.0.1:6443: read"
AWAITING = "net/http: request canceled (Client.Timeout exceeded while awaiting headers)"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (f"{PREVIOUS}: connection reset by peer", "the API server, or a proxy before it, resets every connection"),
        (f"Get https://10.0.0.1:6443/api?timeout=20s: {AWAITING}", "the API server does not answer"),
    ],
)
def test_why_kubectl_tries_again_and_again_is_told(said, told):
    """In the words of its attempts, where it is ended before it gives up; the same where it gives up by itself."""
    line = f"E1122 04:57:54 6006 memcache.go:381] \"Couldn't get\" err='{said}'"
    with pytest.raises(TimeoutError, match=told):
        run_kubectl(["sh", "-c", 'echo "$0" >&2; exec sleep 60', line], seconds=0.5)
    with pytest.raises(OSError, match=told):
        Kubernetes(Kubectl(code=1, stderr=f"{line}\nerror: {said}\n")).named("train/app=x")


EVIL = "x\x1b]0;owned\x07\r\nfail: \u202eabc"


@pytest.mark.parametrize("name", ["a\x1b[31mb", "--all", "a" * 300, "a\nb", "", EVIL, "-o", "A", "a/b", "\u0661"])
@pytest.mark.parametrize("where", ["pod", "container"])
def test_a_name_that_no_pod_can_have_is_not_passed_on(name, where):
    """Neither to kubectl, which would take it for an option, nor to a screen: that list is not the API server's."""
    listed = pod(name, 0) if where == "pod" else pod("p", 0, spec={"containers": [{"name": name}]})
    with pytest.raises(OSError, match=r"^kubectl printed a list of pods that is none; is `kubectl` another program\?$"):
        Kubernetes(Kubectl(listed)).named("train/app=x")


def test_numbers_and_nodes_that_cannot_be_are_passed_over():
    """A pod of rank 9999... of a machine with an escape in its name is a pod that has neither."""
    labels = {"batch.kubernetes.io/job-completion-index": "9" * 5000}
    elsewhere = {**pod("b", 0)["spec"], "nodeName": EVIL}
    pods = [pod("a", 0, metadata={"name": "a", "labels": labels}), pod("b", 0, spec=elsewhere)]
    assert [found.address for found in Kubernetes(Kubectl(*pods)).named("train/app=x")] == [
        "k8s:train/pod/a:trainer@machine-0", "k8s:train/pod/b:trainer",
    ]  # fmt: skip


def test_what_the_list_says_of_a_pod_reaches_no_terminal_raw(tmp_path):
    """Phase, reasons and names with control bytes and line ends: a line a pod, and each not reached."""
    states = [{"waiting": {"reason": EVIL, "message": EVIL}}, {"terminated": {"reason": EVIL, "exitCode": EVIL}}]
    statuses = [{"phase": EVIL}, {"phase": "Failed", "reason": EVIL, "message": EVIL}]
    statuses += [{"phase": "Running", "containerStatuses": [{"name": "trainer", "state": state}]} for state in states]
    statuses.append({"phase": "Running", "containerStatuses": [{"name": EVIL, "state": {"running": {}}}]})
    pods = [pod(f"p{rank}", rank, status={"containerStatuses": [], **status}) for rank, status in enumerate(statuses)]
    (tmp_path / "list").write_text(json.dumps({"items": pods}))
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\ncat {shlex.quote(str(tmp_path))}/list\n")
    (tmp_path / "kubectl").chmod(0o700)
    argv = [sys.executable, "-m", "preflight", "facts", "--hosts=k8s:train/job-name=x"]
    done = subprocess.run(argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 3, lines
    assert [line[:2] for line in lines if ": not reached: " in line] == [f"p{rank}" for rank in range(5)]
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("fail") for line in lines)


def test_a_command_is_started_without_a_terminal():
    """In the container chosen; the pod's name cannot be an option, the loader follows --."""
    host = Host("p", "k8s:train/pod/p:trainer@m", transport="k8s")
    assert Kubernetes().argv(host, Reach(python="/opt/py", wrap=("nice",))) == [
        "kubectl", "exec", "--stdin", "--quiet", "--namespace=train", "--container=trainer", "p",
        "--", "nice", "/opt/py", "-I", "-S", "-B", "-c", LOADER,
    ]  # fmt: skip
    assert Kubernetes().argv(Host("p", "k8s:train/pod/p", transport="k8s"), Reach())[4:6] == ["--namespace=train", "p"]


CUT = "next reader: websocket: close 1006 (abnormal closure): unexpected EOF"
SERVER = "Error from server (Forbidden): pods"
REFUSED = (
    'E1122 04:57:54 6006 memcache.go:381] "Couldn\'t get" err="Get: dial tcp [::1]:8080: connect: connection refused"'
)


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (f'{SERVER} "p" is forbidden: User "u" cannot create resource "pods/exec" in API group ""', "not run commands"),
        (f'{SERVER} is forbidden: User "u" cannot list resource "pods" in API group ""', "may not read the pods"),
        (
            'Error from server (Forbidden): admission webhook "x" denied the request',
            "a policy of the cluster forbids it",
        ),
        ('Error from server (NotFound): pods "p" not found', "its successor has a new name, which"),
        ("error: unable to upgrade connection: pod p does not have a host assigned", "not scheduled"),
        ('error: unable to upgrade connection: container not found ("trainer")', "`kubectl logs --previous POD` show"),
        ("error: container x is not valid for pod p out of: a, b", "name one of its own: SELECTOR:CONTAINER"),
        ("error: cannot exec into a container in a completed pod; current phase is Succeeded", "the pod has ended"),
        ("error: error dialing backend: dial tcp 10.0.0.7:10250: i/o timeout", "does not reach the kubelet"),
        (f"error: error reading from error stream: {CUT}", "the stream through the API server broke"),
        ("command terminated with exit code 137", "was killed: restarted, evicted or out of memory"),
        (
            f"{REFUSED}\nThe connection to the server localhost:8080 was refused - did you",
            "kubectl asks there where kubeconfig names no",
        ),
        (f"{REFUSED}\nThe connection to the server 10.0.0.1:6443 was refused - did you", "nothing listens at the API"),
        ("error: You must be logged in to the server (Unauthorized)", "kubeconfig's token is refused or has expired"),
        ("Unable to connect to the server: getting credentials: exec: executable x not found", "credential plugin"),
        (
            "Unable to connect to the server: tls: failed to verify certificate: x509: certificate signed",
            "is not trust",
        ),
        ("Unable to connect to the server: dial tcp 10.0.0.1:6443: i/o timeout", "the API server does not answer"),
        ("Unable to connect to the server: dial tcp: lookup k8s.x: no such host", "name does not resolve"),
        ('error: context "nope" does not exist', "kubeconfig has no such context"),
        ("Error in configuration: context was not found for specified context: nope", "kubeconfig has no such context"),
        ('error: error loading config file "/x": yaml: line 1', "kubeconfig is not usable"),
        ("error: something new", "error: something new"),
    ],
)
def test_what_kubectl_says_is_told_as_what_is_wrong(stderr, told):
    """With what to do."""
    assert told in Kubernetes().explain("p", 1, f"{stderr}\n")


@pytest.mark.parametrize(
    "stderr",
    [
        "Traceback (most recent call last):\nKeyError: 1\ncommand terminated with exit code 1\n",
        "nsenter: failed to execute /opt/py: No such file or directory\ncommand terminated with exit code 127\n",
        'error: OCI runtime exec failed: exec: "python3": executable file not found in $PATH: unknown\n',
        "a warning of the pod's own\n",
    ],
)
def test_a_python_that_was_started_or_is_not_there_is_the_sessions_to_tell(stderr):
    """The pod was reached."""
    assert Kubernetes().explain("p", 1, stderr) == ""


def test_the_machines_of_pods_are_noted():
    """In a few words, however many they are; hosts that are no pods are machines themselves."""
    hosts = [Host(f"p{n}", f"k8s:train/pod/p{n}:trainer@m{n}", transport="k8s") for n in range(40)]
    (note,) = machines([Host("node1", "node1"), *hosts])
    assert note.startswith("pods, and the nodes that they run on: p0 (m0), p1 (m1), ")
    assert note.endswith("p31 (m31), and 8 more: see report.json")
    assert machines([Host("node1", "node1"), Host("p", "k8s:train/pod/p", transport="k8s")]) == ()


@pytest.mark.parametrize(
    ("stderr", "again"),
    [("Error from server (TooManyRequests): please try again later", True), ("Error from server (NotFound): x", False)],
)
def test_only_what_passes_is_tried_again(stderr, again):
    """An API server under load answers a moment later."""
    assert Kubernetes().is_worth_a_retry(stderr) is again
