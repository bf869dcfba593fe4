"""Which test plants each of the reported failures raw, and with which verdict is it told before the job?

Raw is what a machine has: files of a start, of a node or of its kernel, what programs print, processes, packets, rules
of a firewall. A row counts as caught where a test sees a fail that names the node, or the line, and the cause.
`python -m tests.bench.field` runs these tests and counts.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST, LAST = 1, 80
# What was reported of these leaves their cause open.
DOUBTFUL = frozenset(
    ("G002", "G007", "G008", "G012", "G019", "G023", "G032", "G033", "G039", "G042", "G074", "G075", "G077", "G079")
)
WANTED = 0.8  # of the others

FILES = "tests/launch/test_reported.py::test_the_line_is_named[{}]"
MATERIAL = "tests/twins/test_reported.py::test_the_node_is_named[{}]"
HOSTS = "tests/e2e/test_reported.py::test_the_host_is_named[{}]"
PLANTED = "tests/e2e/test_planted_faults.py"
REHEARSED = "tests/e2e/test_rehearse.py"
LOGINS = "tests/e2e/test_rehearse_remote.py"
VERSIONS = "tests/launch/rules/test_versions.py"
CACHES = "tests/checks/test_caches.py"


@dataclass(frozen=True)
class Row:
    """A reported failure, the verdict that tells it ("" where none does), the tests that show it, and why no fail."""

    id: str
    verdict: str
    tests: tuple[str, ...] = ()
    why: str = ""


def caught(names: str, *tests: str) -> tuple[Row, ...]:
    """Rows that a fail tells; {} in a test is the row's name."""
    return tuple(Row(name, "fail", tuple(test.format(name) for test in tests)) for name in names.split())


def warned(names: str, test: str, why: str) -> tuple[Row, ...]:
    """Rows of which a warning tells, and why it is no fail."""
    return tuple(Row(name, "warn", (test.format(name),), why) for name in names.split())


def missed(name: str, why: str) -> tuple[Row, ...]:
    """A row of which nothing tells before the job, or not its cause."""
    return (Row(name, "", (), why),)


ROWS = (
    *caught("G001 G004 G005 G006 G009 G010 G011 G013 G014 G015 G016 G018 G031", MATERIAL),
    *caught("G067 G069 G070 G071 G076 G078 G080", MATERIAL),
    *caught("G017 G027 G030 G035 G036 G037 G045 G046 G047 G048 G050 G051 G052 G053 G054 G057", FILES),
    *caught("G026 G028 G040 G044 G058 G068", HOSTS),
    *caught("G024 G029 G034", f"{PLANTED}::test_a_fault_on_one_host_is_the_only_fail[firewall]"),
    *caught("G043", f"{PLANTED}::test_a_held_master_port_is_named_with_its_holder"),
    *caught("G022", f"{REHEARSED}::test_an_own_name_that_does_not_resolve_with_standalone"),
    *caught("G062", f"{REHEARSED}::test_a_fault_is_named_at_its_node_and_line[a lock that was left in a cache]"),
    *caught("G041", f"{LOGINS}::test_pdsh_that_is_missing_on_the_first_node[deepspeed]"),
    *caught("G056", f"{LOGINS}::test_a_node_that_cannot_log_in_to_itself[ssh]"),
    *caught("G049", f"{VERSIONS}::test_accelerate_that_hands_on_no_port_is_named"),
    *caught("G038", f"{VERSIONS}::test_lightning_that_takes_slurms_tasks_for_its_ranks_is_named[2.0.8---nodes0]"),
    *caught("G064", "tests/e2e/test_field_faults.py::test_a_checkpoint_folder_that_each_host_has_for_itself_is_told"),
    *caught("G065", "tests/launch/slips/test_saving.py::test_a_rename_of_every_node_in_one_folder_fails"),
    *warned("G020", MATERIAL, "Gloo and torch's store take the name's next address; only TensorPipe keeps the first"),
    *warned("G021", MATERIAL, "a proxy takes what talks HTTP or gRPC; torch's own connections pass it by"),
    *warned("G025", MATERIAL, "the address that the server tells may be reached all the same, by another way"),
    *warned("G055", FILES, "no file says which Volcano runs, and from 1.12 on it counts right"),
    *warned(
        "G059 G060 G061",
        f"{CACHES}::test_a_home_that_nodes_share_is_named_with_what_compiles_there",
        "most starts over such a cache go well: they are slow, or lose a race now and then",
    ),
    *warned(
        "G063",
        f"{CACHES}::test_an_extension_of_another_torch_is_named_and_removed",
        "a library that was built for a torch near to this one mostly loads",
    ),
    *warned("G066", MATERIAL, "how many files the job opens is not known before it; a small one does with 1024"),
    *missed("G003", "a security group is kept by the cloud, not on a node: TCP passes and only EFA's packets do not"),
    *missed("G072", "nothing on the node tells a Fabric Manager that was started anew without a reset of the GPUs"),
    *missed(
        "G073", "that Fabric Manager does not run fails; which port the subnet manager took stands in its log alone"
    ),
)
