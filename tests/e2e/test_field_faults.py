"""Three real hosts over ssh: faults of names, variables and files are told on the host where they were planted."""

from __future__ import annotations

from preflight.run.suite.plugin import checks_folder
from tests.e2e.test_planted_faults import Judged
from tests.lab import faults

FILES = [
    str(checks_folder() / f"test_{subject}.py")
    for subject in ("reach", "names", "network", "environment", "files", "trust")
]


def bad(run: Judged) -> dict[str, tuple[str, ...]]:
    """What failed or warned, with its nodes."""
    return dict(run.of("fail") + run.of("warn") + run.of("error"))


def test_a_folder_that_each_host_has_for_itself_is_not_shared(lab3, tmp_path):
    """/tmp of every host is its own: all but the writer are named, and no token stays."""
    run = Judged(lab3, tmp_path / "report", *FILES, "--shared=/tmp", "--same=/etc/passwd", "--ssh-trust")

    assert bad(run) == {"files.shared_paths_are_shared": ("node2", "node3")}, run.told()
    assert "(written on node1)" in run.finding("files.shared_paths_are_shared", "fail")["message"]
    for name in ("node1", "node2", "node3"):
        assert ".preflight-" not in lab3[name].check(["ls", "-a", "/tmp"])


def test_a_start_file_that_prints_is_told(lab3, tmp_path):
    """The shell of one host prints into every command over ssh; ours takes no harm."""
    with lab3["node3"].write_file("/root/.bashrc", "echo Now using node v12\n"):
        run = Judged(lab3, tmp_path / "report", *FILES, "--ssh-trust")

    assert bad(run) == {"trust.start_files_print_nothing_over_ssh": ("node3",)}, run.told()
    assert "'Now using node v12'" in run.finding("trust.start_files_print_nothing_over_ssh", "warn")["message"]


def test_a_checkpoint_folder_that_each_host_has_for_itself_is_told(lab3, tmp_path):
    """The ranks of all hosts but the first would look for what the first one wrote."""
    run = Judged(lab3, tmp_path / "report", *FILES, "--checkpoint-dir=/tmp")

    assert bad(run) == {"files.the_checkpoint_folder_is_shared": ("node2", "node3")}, run.told()
    assert "/tmp" in run.finding("files.the_checkpoint_folder_is_shared", "fail")["message"]


# variable -> the check that tells it, and how
HARMFUL = {
    "NCCL_IFNAME=eth0": ("environment.variables_exist", "warn"),
    "NCCL_IB_DISABLE=true": ("environment.values_are_possible", "fail"),
    "CUDA_LAUNCH_BLOCKING=1": ("environment.nothing_is_left_from_debugging", "warn"),
    "http_proxy=http://proxy:3128": ("environment.proxies_leave_the_peers_out", "warn"),
}


def test_variables_that_do_harm_are_told(lab3, tmp_path):
    """Each by its own check, on every host that has it, with the layer that set it, and nothing else is told."""
    run = Judged(lab3, tmp_path / "report", *FILES, *(f"--env={variable}" for variable in HARMFUL))

    assert bad(run) == {check: ("node1", "node2", "node3") for check, _ in HARMFUL.values()}, run.told()
    for variable, (check, verdict) in HARMFUL.items():
        found = run.finding(check, verdict)
        assert variable.partition("=")[0] in found["message"]
        assert found["fix"]


def test_an_address_of_a_second_network_in_the_same_subnet_is_told(lab3, tmp_path):
    """Two interfaces of one host in one subnet."""
    with faults.add_interface(lab3["node2"], "eth1", "10.77.0.77/24"):
        run = Judged(lab3, tmp_path / "report", *FILES)

    assert bad(run).get("network.interfaces_of_nccl_have_subnets_of_their_own") == ("node2",), run.told()
