"""Does every node get one place of rank 0, by a line for the shell that starts the job?"""

from __future__ import annotations

from preflight.testing import healthy, roce
from tests.checks.samples import leads_to, with_second_address
from tests.judge.commands.typed import as_root, typed


def test_every_node_gets_the_address_of_the_first():
    """What is wrong on one is wrong for all."""
    run = leads_to(as_root(roce()), "127.0.0.1", "node1")
    found = typed(run, "master.address_belongs_to_the_first_node")
    assert found == dict.fromkeys(run.names, "export MASTER_ADDR=10.0.0.1")


def test_the_own_name_follows_the_address_only_where_the_job_trains_on_it():
    """Else MASTER_ADDR is corrected, and both commands together would only change places."""
    name, other = "master.first_node_knows_the_address_for_its_own", "master.address_is_on_the_training_interface"
    run = with_second_address(as_root(roce()), "node1", "10.5.0.1")
    elsewhere = leads_to(run.with_variables(MASTER_ADDR="10.5.0.1"), "10.5.0.1")
    assert typed(elsewhere, name) == {}
    assert set(typed(elsewhere, other).values()) == {"export MASTER_ADDR=10.0.0.1"}
    named = leads_to(run.with_variables(MASTER_ADDR="10.0.0.1"), "10.0.0.1")
    named = named.broken("node1", "identity", hostname_address="10.5.0.1", hostname_addresses=("10.5.0.1",))
    assert "10.0.0.1 node1" in typed(named, name)["node1"]
    assert typed(named, other) == {}


def test_who_holds_the_port_is_shown_and_ended_by_a_person_only():
    """With the pid that was read, as a comment."""
    run = as_root(roce()).broken(
        "node1", "peers", master_port_error="Address already in use", master_port_holder="python3 (pid 4711)"
    )
    assert typed(run, "master.port_is_free_on_the_first_node") == {"node1": "ss -ltnp 'sport = :29500'"}
    assert typed(run, "master.port_is_free_on_the_first_node", lasting=True) == {"node1": "# to end it: kill 4711"}


def test_a_port_outside_the_range_is_offered():
    """The usual one where it is outside, else the one below."""
    run = healthy().with_variables(MASTER_PORT="40000")
    name = "master.port_is_outside_the_ephemeral_range"
    assert set(typed(run, name).values()) == {"export MASTER_PORT=29500"}
    low = run.broken(run.names, "network", ephemeral_ports=(20000, 60999))
    assert set(typed(low, name).values()) == {"export MASTER_PORT=19999"}


def test_nodes_that_are_divided_get_the_port_of_the_first():
    """One port for all of them, whatever the others have; that of most nodes where there is such."""
    divided = healthy().with_variables("node1", MASTER_PORT="29501").with_variables("node2", MASTER_PORT="29502")
    name = "master.variables_are_the_same_on_every_node"
    assert set(typed(divided, name).values()) == {"export MASTER_PORT=29501"}
    most = healthy().with_variables(MASTER_PORT="29502").with_variables("node1", MASTER_PORT="29501")
    assert set(typed(most, name).values()) == {"export MASTER_PORT=29502"}
