"""Do the logs of pods tell the story of a rehearsal, whatever else is printed there?"""

from __future__ import annotations

import json

from preflight.job.start.rehearsal.over import ENDED
from preflight.job.start.rehearsal.pods import carried, heard
from preflight.job.start.rehearsal.run import OUT_OF_TIME
from preflight.launch.cast import Script
from preflight.launch.manifests.rehearsal import MARK

SCRIPT = Script("job.yaml", "/srv/job.yaml", "kind: Job\n", ("sh",))
ARRIVED = {
    "record": "arrived",
    "host": "x",
    "pid": 7,
    "parent": 1,
    "user": 0,
    "argv": ["python", "train.py"],
    "names": ["RANK", "WORLD_SIZE", "LOCAL_RANK"],
    "interpreter": "/usr/bin/python",
    "python": "3.11.7",
    "variables": {"RANK": "0", "WORLD_SIZE": "2"},
    "limits": {},
    "shm_bytes": 1,
    "cgroup": "",
    "folder": "/srv",
    "caches": [],
    "began": 5.0,
    "at": 5.0,
}


def log(pod, *lines):
    """As kubectl logs --prefix prints them."""
    return [f"[pod/{pod}/trainer] {line}" for line in lines]


def test_pods_become_nodes_with_their_ranks_and_words():
    """A rank's records, the end of the pod, and what it printed besides."""
    record, done = json.dumps(ARRIVED), json.dumps({"record": "done", "at": 9.0})
    lines = log("a-0", "hello", f"{MARK} rank-7 {record}", f"{MARK} rank-7 {done}", f"{MARK} ended 0 12")
    lines += log("a-1", "no module", f"{MARK} ended 127 3")
    story, cast = heard(lines, SCRIPT, ())
    assert [(rank.node, rank.rank, rank.stage) for rank in story.ranks] == [("a-0", 0, "done")]
    assert {name: node.code for name, node in story.nodes.items()} == {"a-0": 0, "a-1": 127}
    assert story.nodes["a-1"].output.err == "no module"
    assert (cast.nodes, story.why_over) == (("a-0", "a-1"), ENDED)
    assert story.seconds == 12.0


def test_a_pod_that_was_not_heard_to_its_end_is_out_of_time():
    """And lines that were cut, or are nothing of ours, break nothing."""
    lines = [
        *log(
            "a-0",
            f"{MARK} ended late 40",
            f"{MARK} rank-7 {{cut",
            f"{MARK} rank-7 3",
            f'{MARK} rank-7 {{"record": "arrived"}}',
        ),
        "other",
    ]
    story, _ = heard(lines, SCRIPT, ())
    assert (story.ranks, story.why_over) == ([], OUT_OF_TIME)


def test_what_pods_carry_fits_into_a_config_map():
    """kubectl apply keeps a copy in an annotation of at most 256 KiB."""
    files = carried(["train.py"], seconds=60.0)
    assert sum(map(len, files.values())) < 200 << 10
    assert json.loads(files["settings.json"])["programs"] == ["train.py"]
    assert "{" not in json.loads(files["settings.json"])["trainee"]["scratch"]
