"""Files written from facts pass every rule against the same facts."""

from __future__ import annotations

import msgspec
import pytest

from preflight.facts.cluster import Cluster
from preflight.judge.ledger.findings import Verdict
from preflight.launch.launchers import writable
from preflight.launch.rules.check import check_texts
from preflight.launch.write import write_files
from preflight.said.errors import UsageError
from preflight.testing import roce
from tests.launch.nodes import cluster, cluster_of, node
from tests.launch.samples import config

CLUSTERS = {
    "two nodes of GPUs": cluster(hcas=("mlx5_0", "mlx5_1")),
    "one node": cluster(1),
    "no GPU": cluster(gpus=0),
    "no GPU, one node": cluster(1, gpus=0),
    "port in use": cluster(listening=(29500, 29501)),
}


@pytest.mark.parametrize("launcher", writable())
@pytest.mark.parametrize("nodes", CLUSTERS)
def test_what_is_written_passes(launcher, nodes):
    """No rule that can be judged is broken by files for the very cluster, blanks and quotes in arguments included."""
    files = write_files(launcher, CLUSTERS[nodes], folder="/shared/out", program=("train.py", "--name", "it's a run"))
    findings, read = check_texts({f"/shared/out/{name}": text for name, text in files.items()}, CLUSTERS[nodes])
    judged = [found for found in findings if found.verdict is not Verdict.SKIP]
    assert [found.message for found in judged] == []
    assert read.plans


def test_files_of_two_nodes():
    """The address of the first, a free port, exact interfaces, adapters and the routable GID."""
    files = write_files("torchrun", CLUSTERS["two nodes of GPUs"], folder="/x")
    assert sorted(files) == ["node1.sh", "node2.sh"]
    assert "--node_rank=1" in files["node2.sh"]
    assert "--master_addr=10.0.0.1 --master_port=29500" in files["node2.sh"]
    for line in ("NCCL_SOCKET_IFNAME==eth0", "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1", "NCCL_IB_GID_INDEX=3"):
        assert f"export {line}" in files["node2.sh"].replace("'", "")
    assert "--master_port=29502" in write_files("torchrun", CLUSTERS["port in use"], folder="/x")["node1.sh"]


def test_uneven_gpus_are_written_as_they_are_where_the_launcher_can():
    """torchrun takes 8 and 2, accelerate the smaller number on both."""
    uneven = cluster_of(node(0), node(1, gpus=2))
    assert "--nproc_per_node=2" in write_files("torchrun", uneven, folder="/x")["node2.sh"]
    assert "num_processes: 4" in write_files("accelerate", uneven, folder="/x")["node1.yaml"]


def test_like_keeps_the_other_settings():
    """Mixed precision and the DeepSpeed section stay; ranks and addresses are the cluster's."""
    like = config(1, distributed_type="DEEPSPEED", main_process_ip="1.2.3.4") + "deepspeed_config:\n  zero_stage: 2\n"
    text = write_files("accelerate", CLUSTERS["two nodes of GPUs"], folder="/x", like=like)["node1.yaml"]
    for line in (
        "mixed_precision: bf16",
        "  zero_stage: 2",
        "  deepspeed_multinode_launcher: standard",
        "machine_rank: 0",
    ):
        assert line in text
    assert "main_process_ip: 10.0.0.1" in text
    with pytest.raises(UsageError):
        write_files("accelerate", CLUSTERS["one node"], folder="/x", like="- a\n")


def test_half_a_cluster_is_no_cluster():
    """A host that did not answer would be left out of the job."""
    with pytest.raises(UsageError, match="1 of 2 hosts"):
        write_files("torchrun", Cluster(cluster().nodes[:1], asked=2), folder="/x")
    with pytest.raises(UsageError, match="horovod"):
        write_files("horovod", cluster(), folder="/x")


def test_like_keeps_nothing_that_would_part_the_ranks():
    """A CPU's configuration starts worlds of one; a list of devices fits another machine."""
    like = config(0, distributed_type="MULTI_CPU", use_cpu="true", gpu_ids="0,1")
    files = write_files("accelerate", CLUSTERS["no GPU"], folder="/x", like=like)
    assert "distributed_type: MULTI_GPU" in files["node1.yaml"]
    assert "use_cpu: false" in files["node1.yaml"]
    findings, _ = check_texts({f"/x/{name}": text for name, text in files.items()}, CLUSTERS["no GPU"])
    assert [found.message for found in findings] == []
    with pytest.raises(UsageError, match="--like"):
        write_files("torchrun", CLUSTERS["no GPU"], folder="/x", like=like)


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "env", "deepspeed", "mpirun"])
def test_the_interpreter_that_was_asked_for_starts_the_job(launcher):
    """Over ssh PATH is short: the files name the interpreter in full, and are read as the same launcher."""
    nodes = cluster(gpus=1)
    made = write_files(launcher, nodes, folder="/w", program=("train.py",), python="/opt/env/bin/python")
    assert any("/opt/env/bin/python" in text for text in made.values())
    found, files = check_texts(made, nodes)
    assert [one for one in found if str(one.verdict) == "fail"] == []
    assert {plan.launcher.name for plan in files.plans} == {launcher}


@pytest.mark.parametrize("launcher", [name for name in writable() if name != "k8s"])
def test_the_program_is_looked_for_where_it_was_named(launcher):
    """A script enters the folder before it starts anything: over ssh it begins in the user's home."""
    files = write_files(launcher, cluster(), folder="/out", program=("train.py",), start_in="/srv/my job")
    scripts = [text for name, text in files.items() if name.endswith((".sh", ".sbatch"))]
    assert scripts
    for text in scripts:
        lines = [line for line in text.split("\n") if not line.startswith("#")]
        assert lines[0] == "cd '/srv/my job' || exit 1"
    named = check_texts(files)[1].plans
    assert {plan.folder for plan in named if plan.command and not plan.is_opaque} <= {"/srv/my job"}


def test_deepspeed_is_told_where_its_variables_are():
    """Its runner looks for .deepspeed_env in the home and where it is started, which is the folder of the program."""
    files = write_files("deepspeed", cluster(), folder="/out", program=("train.py",), start_in="/srv/job")
    assert "export DS_ENV_FILE=/out/.deepspeed_env\n" in files["start.sh"]
    assert "NCCL_SOCKET_IFNAME==eth0\n" in files[".deepspeed_env"]


def test_like_keeps_the_port():
    """The port of the user's own file is the one that a firewall lets in."""
    like = config(main_process_port="12345")
    made = write_files("accelerate", cluster(), folder="/w", program=("train.py",), like=like)
    assert all("main_process_port: 12345" in text for name, text in made.items() if name.endswith(".yaml"))


def test_what_looks_like_a_slip_is_explained():
    """`==eth0` is meant; and the variable that a first test wants is there to be switched on."""
    text = write_files("torchrun", cluster(), folder="/w", program=("train.py",))["node1.sh"]
    assert "# = in front takes this interface alone" in text
    assert "export NCCL_SOCKET_IFNAME='=eth0'" in text
    assert "# export NCCL_DEBUG=INFO" in text


def written(launcher, nodes):
    """The text of all files; nothing where none is written with such a name."""
    try:
        return "".join(write_files(launcher, nodes, folder="/f").values())
    except UsageError as error:
        return "" if "no launch file is written with such a name" in str(error) and str(error).isprintable() else "lied"


def renamed(value, old, new):
    """The same with a text replaced wherever it stands alone."""
    if isinstance(value, dict):
        return {key: renamed(inner, old, new) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [renamed(inner, old, new) for inner in value]
    return new if value == old else value


@pytest.mark.parametrize("launcher", writable())
@pytest.mark.parametrize("name", ["eth0", "mlx5_0"])
def test_no_node_puts_words_of_its_own_into_what_all_nodes_run(launcher, name):
    """Whatever it calls its interface or adapter: no file is written, or none that holds it."""
    for lie in ("x\nLD_PRELOAD=/tmp/lied.so", "$(touch lied)", "x\x1b]0;lied\x07", "lied; lied", "lied\u202e"):
        run = roce(2)
        for node_name, subjects in run.subjects.items():
            for subject, facts in subjects.items():
                plain = msgspec.to_builtins(facts)
                if (changed := renamed(plain, name, lie)) != renamed(plain, name, name):
                    run = run.with_subject(node_name, subject, msgspec.convert(changed, type(facts)))
        assert "lied" not in written(launcher, run.cluster)
