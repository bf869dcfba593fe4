"""Does every transport say what the rest asks of it, and is the loader started in the right Python?"""

from __future__ import annotations

import pytest

from preflight.reach.host import Host
from preflight.reach.hosts import parse_hosts
from preflight.reach.transport import LOADER, TRANSPORTS, Reach, forms, transport_of, written_for
from preflight.reach.transport.reach import last_line
from preflight.said.errors import PreflightError


@pytest.mark.parametrize(
    ("own", "asked", "python"),
    [(None, None, "python3"), (None, "/opt/py", "/opt/py"), ("/own/py", "/opt/py", "/own/py")],
)
def test_the_hosts_own_python_wins_over_the_users_and_that_over_the_default(own, asked, python):
    """python= of a hostfile knows that host better than --python."""
    words = Reach(python=asked, wrap=("nice",)).loader(Host("n", "n", python=own))
    assert words == ["nice", python, "-I", "-S", "-B", "-c", LOADER]


def test_hosts_are_written_with_the_name_of_their_transport_or_for_ssh_as_they_are():
    """A name before a colon is a transport's only where there is one that is written so."""
    assert {written_for(text).name for text in ("node1", "node1:2222", "ssh:22", "fd00::1", "")} == {"ssh"}
    assert written_for("local").name == "local"
    assert forms() == ("local", "slurm", "k8s:NAMESPACE/SELECTOR", "ray", "torchrun")
    assert [transport_of(parse_hosts(text)[0]).name for text in ("local", "node1")] == ["local", "ssh"]


@pytest.mark.parametrize("name", TRANSPORTS)
def test_every_transport_says_how_its_hosts_are_written_and_reached(name):
    """Its form begins with its name; a hint for a person is never empty."""
    transport = TRANSPORTS[name]
    assert transport.name == name
    assert transport.form.partition(":")[0] in ("", name)
    assert transport.log_in_hint("node7")


@pytest.mark.parametrize(("text", "line"), [("a\n b \n\n", "b"), ("\n", "nothing"), ("", "nothing")])
def test_the_last_line_is_the_last_that_is_not_empty(text, line):
    """Or what is said where there is none."""
    assert last_line(text, "nothing") == line


@pytest.mark.parametrize(
    "text",
    [
        "-oProxyCommand=touch$IFS/tmp/x",
        "-Fcfg",
        "--",
        "-",
        "-l@node1",
        "root@-x",
        "node1,-x",
        "node1:-22",
        "[-a]",
        "k8s:-n/pod/one",
        "k8s:train/pod/-it",
        "k8s:train/pod/one:--container",
        "k8s:train/app=-x",
        "k8s:train/-lapp=x",
        "k8s:train/--all-namespaces",
        "slurm:-x",
        "slurm:--help/2",
    ],
)
def test_no_host_is_written_as_an_option(text):
    """ssh, srun, salloc and kubectl are given hosts as words: one that begins with - is refused when it is read."""
    with pytest.raises(PreflightError):
        parse_hosts(text)


def test_what_names_the_host_stands_where_no_option_is_read(monkeypatch):
    """Behind --, or after the = of an option; so does what runs there."""
    monkeypatch.setenv("SLURM_JOB_ID", "--no-kill")
    reach = Reach(wrap=("docker", "exec", "trainer"))
    for name, address in (("ssh", "node1"), ("slurm", "node1"), ("k8s", "k8s:train/pod/one:main")):
        host = Host("node1", address, transport=name)
        words = TRANSPORTS[name].argv(host, reach)
        end = words.index("--")
        assert reach.loader(host)[0] in words[end + 1] or words[end + 1] == "node1"
        assert "--no-kill" not in words[:end]
