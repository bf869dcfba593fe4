"""Tests of preflight.node.sources.names."""

import socket
import subprocess
import sys
import threading

import pytest

from preflight.node.agent import sockets
from preflight.node.sources.names import addresses_of, ask_all, for_resolver, full_name
from tests.lab.fixtures import needs_lab, why_not


def test_every_question_gets_its_answer():
    """More questions than threads are all answered, each under its own key."""
    questions = {str(number): (lambda number=number: number) for number in range(100)}
    assert ask_all(questions) == {str(number): number for number in range(100)}


def test_a_slow_look_up_does_not_hold_up_the_others():
    """A question without an answer in time is a TimeoutError; the others keep their answers."""
    release = threading.Event()
    try:
        answers = ask_all({"slow": release.wait, "quick": lambda: "192.0.2.1"}, limit_s=0.2)
    finally:
        release.set()
    assert answers["quick"] == "192.0.2.1"
    assert isinstance(answers["slow"], TimeoutError)
    assert "within 0.2 s" in str(answers["slow"])


def test_a_failed_look_up_is_an_error_value():
    """What a resolver raises comes back as the answer, also for text that is not a host name at all."""

    def fail():
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    answers = ask_all({"again": fail, "label": lambda: addresses_of("ä..b")})
    assert isinstance(answers["again"], socket.gaierror)
    assert isinstance(answers["label"], OSError)


def test_no_questions_take_no_time():
    """An empty round gives an empty answer."""
    assert ask_all({}) == {}


@pytest.mark.parametrize("text", ["127.0.0.1", "::1"])
def test_an_address_resolves_to_itself(text):
    """Addresses need no resolver and appear once."""
    assert addresses_of(text) == [text]


def test_names_beyond_ascii_reach_the_resolver_encoded():
    """ASCII goes as it is, underscores and all; the rest as IDNA writes it."""
    assert for_resolver("gpu_node-1.cluster") == b"gpu_node-1.cluster"
    assert for_resolver("müller") == b"xn--mller-kva"


@pytest.mark.parametrize(
    ("answer", "full"),
    [
        (("node1", ["node1.cluster", "node1.other"], []), "node1.cluster"),
        (("node1.cluster", ["n.x"], []), "node1.cluster"),
        (("node1", ["gpu1"], []), "node1"),
        (OSError("not known"), "as-asked"),
    ],
)
def test_the_full_name_is_the_one_getfqdn_gives(monkeypatch, answer, full):
    """The first name with a dot, the canonical one without; the name itself where the resolver fails."""

    def by_address(name):
        if isinstance(answer, OSError):
            raise answer
        first, aliases, addresses = answer
        return first, list(aliases), addresses

    for one in (socket, sockets):  # what getfqdn asks, and what we ask
        monkeypatch.setattr(one, "gethostbyaddr", by_address)
    assert full_name("as-asked") == full == socket.getfqdn("as-asked")


HOSTS = "10.9.0.2 twice\n10.9.0.1 twice\n10.9.0.2 twice\n"
ASK = "from preflight.node.sources.names import addresses_of; print(addresses_of('twice'))"


def test_addresses_keep_the_order_of_the_resolver(tmp_path):
    """What connects to the name tries them so: the first of them is the one that counts."""
    needs_lab(why_not())
    (tmp_path / "hosts").write_text(HOSTS)
    words = ["unshare", "--mount", "--net", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$1" -c "$2"']
    done = subprocess.run(
        [*words, tmp_path / "hosts", sys.executable, ASK], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout == "['10.9.0.2', '10.9.0.1']\n", done.stderr
