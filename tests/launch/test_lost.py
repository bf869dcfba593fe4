"""What is said of launch files beside nodes that could not tell something?"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from zlib import crc32

import pytest

from preflight.launch.plan import LaunchFiles
from preflight.launch.read import read_texts
from preflight.launch.rules.check import LIVE_RULES
from preflight.launch.seats import ranks_table
from tests.launch import truth
from tests.launch.nodes import cluster, cluster_of, node

EACH = 8  # every eighth of the cases
SUBJECTS = sorted(node(0).subjects)


@cache
def read() -> tuple[LaunchFiles, ...]:
    """Some of the launch cases that can be read whatever stands beside them."""
    cases = [case for case in truth.cases() if crc32(case.name.encode()) % EACH == 0]
    return tuple(files for case in cases if (files := read_texts(case.texts)).plans)


def said(files, nodes):
    """What the rules about nodes say of files, by rule and verdict."""
    return {(one.check, one.verdict) for rule in LIVE_RULES for one in rule(files, nodes)}


@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_no_node_could_tell_is_nobodys_fault(subject):
    """On all nodes or on one of them: every rule ends, and says nothing that it does not say of nodes that told all."""
    held = [node(place, gpus=4, hcas=("mlx5_0",)) for place in range(3)]
    lost = [replace(one, subjects={name: v for name, v in one.subjects.items() if name != subject}) for one in held]
    for files in read():
        of_all, of_one = said(files, cluster_of(*lost)), said(files, cluster_of(*held[:2], lost[2]))
        rows = len(ranks_table(files.plans, cluster_of(*lost)))
        assert of_all | of_one <= said(files, cluster_of(*held)) | said(files, cluster(3, gpus=0))
        assert rows <= len(ranks_table(files.plans, cluster_of(*held)))
