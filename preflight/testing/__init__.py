"""How does a site test its own checks? With a healthy cluster that is made up here, and one thing of it broken.

Nothing is contacted and nothing is started: no network, no ssh, no torch. A check in site_checks/test_site.py:

    def test_swap_is_off(node):
        '''Swap is off.

        A rank whose memory is swapped out holds up all others.
        Fix: `swapoff -a` on the nodes named.
        '''
        assert node.kernel.swap_total_bytes == 0, f"{node.kernel.swap_total_bytes >> 30} GiB of swap; wanted none"

and its test:

    from preflight.testing import healthy, judged
    from site_checks.test_site import test_swap_is_off as swap_is_off

    def test_a_node_with_swap_is_named():
        '''A healthy cluster passes; one node with swap fails, and no other.'''
        assert judged(swap_is_off, healthy(3)).passes
        cluster = healthy(3).broken("node3", "kernel", swap_total_bytes=8 << 30)
        assert judged(swap_is_off, cluster).fails_on == ("node3",)
        assert judged(swap_is_off, cluster).message == "8 GiB of swap; wanted none"

``healthy``, ``roce`` and ``infiniband`` make clusters of node1, node2, ...; each method of FakeRun gives a copy with
one thing changed: ``broken`` any fact, ``broken_interface``, ``broken_gpu`` and ``broken_rdma_port`` a device,
``without`` a subject that could not be read, ``unreached`` a node that did not answer, ``with_variables`` the job's
environment; ``mesh_fails``, ``bench_has``, ``training_has`` and ``rank_has`` what was measured.
"""

from preflight.testing.fake import FakeRun
from preflight.testing.healthy import healthy, infiniband, roce
from preflight.testing.judged import Judged, judged

__all__ = ["FakeRun", "Judged", "healthy", "infiniband", "judged", "roce"]
