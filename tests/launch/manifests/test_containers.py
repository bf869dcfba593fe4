"""What is wrong in a pod and its containers, whatever it starts?"""

from __future__ import annotations

import pytest

from tests.launch.samples import INDEXED, PYTORCHJOB, judged, rules


def test_a_pod_of_several_gpus_wants_shared_memory():
    """No volume at /dev/shm warns; one on the disk too."""
    without = PYTORCHJOB.replace("/dev/shm", "/tmp/x")
    (found,) = judged({"job.yaml": without})
    assert (found.check, str(found.verdict)) == ("launch.pods_have_shared_memory", "warn")
    on_disk = PYTORCHJOB.replace("emptyDir:\n              medium: Memory", "emptyDir: {}")
    assert rules({"job.yaml": on_disk}) == ["pods_have_shared_memory"]


def test_shared_memory_of_the_host_is_enough():
    """hostIPC gives a pod the node's own /dev/shm; a pod of one GPU has nothing to pass through it."""
    without = PYTORCHJOB.replace("/dev/shm", "/tmp/x")
    shared = without.replace("        spec:\n", "        spec:\n          hostIPC: true\n")
    assert rules({"job.yaml": shared}) == []
    one = without.replace("nvidia.com/gpu: 8", "nvidia.com/gpu: 1").replace("nproc_per_node=8", "nproc_per_node=1")
    assert rules({"job.yaml": one}) == []


def test_the_operator_finds_its_container():
    """PyTorchJob's is called pytorch; the roles of a job have one image."""
    named = "containers:\n          - name: "
    assert f"{named}pytorch" in PYTORCHJOB
    assert rules({"job.yaml": PYTORCHJOB.replace(f"{named}pytorch", f"{named}main")}) == [
        "operator_finds_its_container"
    ]
    pod = PYTORCHJOB.partition("template: &pod\n")[2].partition("    Worker:")[0]
    apart = PYTORCHJOB.replace("template: *pod", f"template:\n{pod.replace('image: pytorch/', 'image: other/')}")
    assert apart.count("image: ") == 2
    assert rules({"job.yaml": apart}) == ["images_agree"]


@pytest.mark.parametrize(
    ("size", "is_enough"), [("64Mi", False), ("500M", False), ("1Gi", True), ("1000Mi", True), ("x", True)]
)
def test_shared_memory_of_several_gpus_is_large(size, is_enough):
    """A limit of the volume is one of the shared memory."""
    text = PYTORCHJOB.replace("medium: Memory", f"medium: Memory\n              sizeLimit: {size}")
    assert (rules({"job.yaml": text}) == []) == is_enough


def interface(name, spec="", metadata=""):
    """The job with an interface of its own choice."""
    env = f"        env:\n        - {{name: NCCL_SOCKET_IFNAME, value: '{name}'}}\n"
    text = INDEXED.replace("        env:\n", env).replace("  template:\n", f"  template:\n{metadata}")
    return {"job.yaml": text.replace("      subdomain", f"{spec}      subdomain")}


@pytest.mark.parametrize("name", ["eth0", "eth", "^docker,lo", "=eth0", "net1", "ens,eth,ib", "eth0,eth1"])
def test_an_interface_that_a_pod_has_is_silent(name):
    """Names are beginnings; what is excluded says nothing of the rest."""
    assert rules(interface(name)) == []


def test_an_interface_that_no_pod_has_is_told():
    """The host's end of a pod's link never; another one where nothing gives it to the pod."""
    assert [str(one.verdict) for one in judged(interface("cali12ab"))] == ["fail"]
    assert [str(one.verdict) for one in judged(interface("bond0"))] == ["warn"]
    host = "      hostNetwork: true\n      dnsPolicy: ClusterFirstWithHostNet\n"
    assert rules(interface("bond0", spec=host)) == []
    given = "    metadata: {annotations: {k8s.v1.cni.cncf.io/networks: rail}}\n"
    assert rules(interface("rail0", metadata=given)) == []


def test_memory_is_locked_where_the_nodes_do_not_limit_it():
    """A provider whose nodes lift the limit."""
    rdma = PYTORCHJOB.replace("nvidia.com/gpu: 8\n", "nvidia.com/gpu: 8\n                rdma/ib: 1\n")
    assert rules({"job.yaml": rdma}) == ["containers_lock_memory"]
    chosen = rdma.replace(
        "        spec:\n", "        spec:\n          nodeSelector: {node.coreweave.cloud/class: gpu}\n"
    )
    assert rules({"job.yaml": chosen}) == []
