"""What the task of a cloud runs."""

from __future__ import annotations

import pytest

from tests.launch.manifests.clouds.test_skypilot import sky
from tests.launch.samples import judged, rules


def test_the_script_of_a_task_is_read_as_bash_reads_it():
    """A blank behind a backslash, in the line of the YAML file."""
    found = judged({"task.yaml": sky().replace("\\\n", "\\ \n")})
    assert [(one.check, one.where[0].line) for one in found] == [("launch.commands_are_continued", 8)]


@pytest.mark.parametrize("text", ["run: echo hi\nresources: {cpus: 2}\n", "$schema: azureml\ncommand: python -V\n"])
def test_a_job_file_without_a_launcher_is_not_judged(text):
    """One skip that says so."""
    assert rules({"job.yml": text}) == ["file_is_judged"]
