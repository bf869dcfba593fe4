"""What is a group of pods whose command is not known? A job that only the cluster's controller starts."""

from __future__ import annotations

from preflight.launch.launcher import Launcher

KUBERNETES = Launcher(
    name="kubernetes",
    starts_all_nodes=True,
    nodes_are_hosts=False,
    refusal="a Kubernetes manifest is started by the cluster's controller",
)
