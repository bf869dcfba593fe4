"""Is it the key that a peer lacks, or the line of known_hosts?"""

from __future__ import annotations

from preflight.testing import roce
from tests.checks.samples import logs_in
from tests.judge.commands.typed import as_root, typed

NAME = "trust.every_node_logs_in_to_the_others"


def test_an_unknown_host_key_is_fetched_and_a_refused_one_copied():
    """With the user that the peer was named with; a closed port is neither."""
    run = as_root(roce())
    unknown = typed(logs_in(run, "node2", trouble="Host key verification failed."), NAME)["node2"]
    assert "ssh-keyscan -- node1 | sort -u -o ~/.ssh/known_hosts - ~/.ssh/known_hosts" in unknown
    refused = typed(logs_in(run, "node2", peer="me@node1", trouble="Permission denied (publickey)."), NAME)["node2"]
    assert refused.endswith("ssh-copy-id -- me@node1")
    assert typed(logs_in(run, "node2", trouble="Connection refused"), NAME) == {}
