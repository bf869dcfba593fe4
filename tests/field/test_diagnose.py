"""Are the failures of the field recognised by the words they left? Where files of them lie beside this project."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from preflight.diagnose import Diagnosis, diagnose, diagnose_files
from tests.house import ROOT

SHARED = next((above / "shared" for above in ROOT.parents if (above / "shared").is_dir()), ROOT / "shared")
FAILURES = (SHARED / "field-failures.jsonl", SHARED / "field-failures-2.jsonl")
LOGS = SHARED / "field-data" / "nccl-logs"
# What its index says of each log; the others are healthy.
SICK = {"dmesg.decode.iso.log": "nccl-segfault", "fabricmanager.log": "nvswitch-nonfatal"}
RIGHT, WRONG, NOTHING = 0.85, 0.03, 0.02  # of those that show a failure
# By the settled cause: these causes name it, or hold it in a short list.
TRUTH = {
    name: frozenset(causes.split())
    for causes, names in {
        "interface-not-found": "F002 G016 G017",
        "wrong-interface": "F010 G032",
        "no-route": "F011",
        "efa-security-group": "F014 G003",
        "gloo-connect": "F019 F020",
        "nccl-system-error": "F005 F015 F027 F082",
        "nccl-gpu-error": "F025 F090",
        "nccl-error-unknown": "F001",
        "nccl-symbol-missing": "F034 F036",
        "version-differs-between-nodes": "F037 G058",
        "nccl-topology": "F039",
        "driver-too-old": "F040",
        "no-endpoint-matches": "F042",
        "deepspeed-batch": "F055",
        "rdma-device-not-opened": "F071 F078",
        "rdma-port-down": "F072 F073",
        "rdma-gid": "F068 F079 F080 F081 F084 G009 G011",
        "fabric-manager": "F087 F089 G070 G071 G079",
        "gpu-busy": "F091",
        "memlock-limit": "F093 F094",
        "rdma-queue-pair": "G013",
        "shared-memory-full": "F095 F096 G067",
        "path-missing-on-node": "F099",
        "shared-index-race": "F104",
        "rdma-mtu-mismatch": "F110",
        "invalid-device-ordinal": "F126 F132",
        "master-not-a-member": "F128",
        "name-not-resolved": "F029 F121 F130 G019 G022",
        "late-start": "F131",
        "ray-placement": "F007",
        "ray-several-addresses": "F008",
        "port-in-use": "F012 F016 G043 G044 G045",
        "loopback-address": "F018",
        "address-family-differs": "F024",
        "connect-timed-out": "F041",
        "ssh-login": "F050",
        "rdma-transport-retry": "F067 G001 G015",
        "link-down": "F074",
        "nccl-nvls": "F086 F088 G072",
        "too-many-open-files": "F097 G066",
        "file-missing": "F100 G064",
        "checkpoint-corrupt": "F105",
        "rdma-local-error": "F118",
        "not-all-joined": "F129 G036",
        "efa-no-provider": "G004 G005",
        "mpi-oob": "G026",
        "proxy": "G031",
        "launcher-variable-missing": "G040",
        "duplicate-gpu": "G046 G047",
        "shell-variable-empty": "G053",
        "sshd-chroot": "G057",
        "compile-cache": "G060",
        "stale-file": "G061",
        "rename-race": "G065",
        "driver-library-mismatch": "G069",
        "gpu-fell-off-the-bus": "G077",
        "gpu-memory-error": "G080",
        # Their words show no more than what followed.
        "symptom": "F022 F030 F061 F062 F075 F085 F101 F123 G002 G007 G010 G021 G076",
    }.items()
    for name in names.split()
}
# People's sentences that tell of a hang, and have the cause in what is answered to look at: they are no log.
TOLD = frozenset(("F031", "F056", "F059", "F060", "F108", "F114", "F115", "F117"))


def rows() -> dict[str, str]:
    """The words that each failure left, by its name."""
    every = [json.loads(line) for path in FAILURES if path.is_file() for line in path.read_text().splitlines()]
    return {row["id"]: row["key_log"] for row in every if row["key_log"]}


def grade(name: str, diagnosis: Diagnosis) -> str:
    """Right, symptom, wrong or nothing."""
    first = [one.cause.name for one in diagnosis.causes[:1]]
    if first and first[0] in TRUTH[name]:
        return "right"
    if first and "symptom" not in TRUTH[name]:
        return "wrong"
    known = diagnosis.causes or diagnosis.consequences or diagnosis.notes or diagnosis.outcome.ranks
    return "symptom" if known else "nothing"


@pytest.mark.skipif(
    not all(path.is_file() for path in FAILURES), reason="the field's failures are not beside this project"
)
def test_failures_of_the_field_are_recognised():
    """What programs printed leads to the settled cause; the rest is sentences, settings and healthy lines."""
    grades = {name: grade(name, diagnose(text.splitlines())) for name, text in rows().items() if name in TRUTH}
    assert len(grades) == len(TRUTH) >= 110
    count = Counter(grades.values())
    assert count["right"] >= RIGHT * len(grades), grades
    assert count["wrong"] <= WRONG * len(grades), grades
    assert count["nothing"] <= NOTHING * len(grades), grades


@pytest.mark.skipif(
    not all(path.is_file() for path in FAILURES), reason="the field's failures are not beside this project"
)
def test_sentences_of_people_about_a_hang_are_answered_but_blame_nobody():
    """They are no log of a job."""
    every = rows()
    for name in TOLD:
        diagnosis = diagnose(every[name].splitlines())
        assert diagnosis.collect, name
        assert not diagnosis.has_failed, name


@pytest.mark.skipif(not LOGS.is_dir(), reason="the field's logs are not beside this project")
def test_logs_of_the_field_have_the_cause_that_their_index_states():
    """And the healthy ones have none."""
    for path in LOGS.rglob("*"):
        if path.is_file():
            causes = [finding.cause.name for finding in diagnose_files([str(path)]).causes]
            assert causes == ([SICK[path.name]] if path.name in SICK else []), path.name
