"""Is a container's end read from what describes it, and is everything else left as it is?"""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from preflight.diagnose import diagnose
from preflight.diagnose.forms import objects
from preflight.diagnose.forms.objects import described

DOCKER = [
    {
        "Id": "9c1f",
        "State": {"Status": "exited", "OOMKilled": True, "ExitCode": 137, "Error": ""},
        "Name": "/trainer-3",
    },
    {
        "Id": "9c20",
        "State": {"Status": "running", "OOMKilled": False, "ExitCode": 0, "Error": ""},
        "Name": "/trainer-4",
    },
]


def pod(name, *, last=None, now=None, **status):
    """A pod with one container, as the API gives it."""
    state = {"name": "pytorch", "lastState": last or {}, "state": now or {"running": {"startedAt": "x"}}}
    return {"kind": "Pod", "metadata": {"name": name}, "status": {**status, "containerStatuses": [state]}}


KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
BACKED_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
PODS = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [pod("worker-0"), pod("worker-3", last=KILLED, now=BACKED_OFF)],
}
EVICTED = {"apiVersion": "v1", **pod("worker-2", reason="Evicted", message="The node was low on resource: memory.")}
PULL = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "ghcr.io/a/b:1"'}}
EVENT = {
    "kind": "Event",
    "type": "Warning",
    "reason": "FailedScheduling",
    "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu.",
    "involvedObject": {"kind": "Pod", "name": "worker-1"},
}


def lines(text):
    """As they come from a file."""
    return [(number, line.encode()) for number, line in enumerate(text.split("\n"), 1)]


def texts(text):
    """The lines that are made of it."""
    return [line.decode() for _, line in described(lines(text))]


@pytest.mark.parametrize(
    ("document", "cause", "node"),
    [
        (DOCKER, "oom-killed", "trainer-3"),
        (PODS, "oom-killed", "worker-3"),
        (EVICTED, "pod-evicted", "worker-2"),
        ({"apiVersion": "v1", **pod("worker-1", now=PULL)}, "image-pull", "worker-1"),
        ({"apiVersion": "v1", "items": [EVENT]}, "pod-unschedulable", "worker-1"),
    ],
)
@pytest.mark.parametrize("wrote", ["json", "yaml"])
def test_the_object_that_failed_is_named_with_its_cause(document, cause, node, wrote):
    """Those that run are not."""
    # Docker prints no YAML.
    is_json = wrote == "json" or isinstance(document, list)
    text = json.dumps(document, indent=4) if is_json else yaml.safe_dump(document)
    found = diagnose(text.split("\n"))
    assert found.causes[0].cause.name == cause
    assert found.causes[0].nodes == (node,)


def test_each_line_says_where_it_stands():
    """The line of the reason in the file."""
    text = json.dumps(DOCKER, indent=1)
    ((number, line), *_) = described(lines(text))
    assert line == b"[pod/trainer-3] Reason: OOMKilled"
    assert "OOMKilled" in text.split("\n")[number - 1]


def test_what_was_described_of_several_pods_is_told_apart():
    """`kubectl describe pods` names each far above its state."""
    one = "Name:             {}\nNamespace:        ml\nContainers:\n  pytorch:\n    State:  {}\n"
    text = one.format("w-0", "Running") + one.format("w-1", "Terminated\n      Reason:  OOMKilled")
    (found,) = diagnose(text.split("\n")).causes
    assert (found.cause.name, found.nodes) == ("oom-killed", ("w-1",))


@pytest.mark.parametrize(
    "text",
    [
        "{\nlr: 0.1\n}\nTraceback (most recent call last):",
        "[\n",
        '{"level": "error", "message": "x"}\n{"level": "error", "message": "y"}',
        "apiVersion: v1\n: : :\n\t-",
        "Name: Anna\nstep 1",
        "[\n[[[[" + "[" * 5000,
        json.dumps({"loss": 0.1, "State": 1, "items": 3, "status": "x", "metadata": []}, indent=1),
    ],
)
def test_what_describes_no_container_stays_as_it_is(text):
    """A program's own settings, a record of a logger, a person's name."""
    assert texts(text) == text.split("\n")


def test_a_document_of_more_than_is_held_stays_as_it_is(monkeypatch):
    """Nothing of it is lost."""
    monkeypatch.setattr(objects, "MOST_BYTES", 50)
    text = json.dumps(DOCKER, indent=1)
    assert texts(text) == text.split("\n")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "items",
                        "State",
                        "status",
                        "kind",
                        "metadata",
                        "containerStatuses",
                        "state",
                        "terminated",
                        "reason",
                        "conditions",
                        "name",
                    ]
                ),
                inner,
            )
        ),
        max_leaves=30,
    )
)
def test_no_document_breaks_it(document):
    """Whatever stands where a state is looked for."""
    assert list(described(lines(json.dumps([document], indent=1))))


def test_aliases_of_a_document_are_not_multiplied():
    """Ten lists of ten of each other are 10^10."""
    text = "apiVersion: v1\nitems:\n- &a [x, x]\n" + "".join(
        f"- &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefghi", "bcdefghij", strict=True)
    )
    assert texts(text) == text.split("\n")
