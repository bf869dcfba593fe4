"""Does HOSTS give the hosts as written, and is everything else one clear usage error?"""

import os
import random
import time

import pytest
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.reach.host import Host
from preflight.reach.hosts import fold, parse_hosts
from preflight.said.errors import UsageError


def names(text):
    return [host.name for host in parse_hosts(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node1", ["node1"]),
        ("b,a", ["b", "a"]),
        ("node[01-03],gpu7", ["node01", "node02", "node03", "gpu7"]),
        ("n[3,1-2]", ["n3", "n1", "n2"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("n[09-11].example.org", ["n09.example.org", "n10.example.org", "n11.example.org"]),
        ("n[1-5/2]", ["n1", "n3", "n5"]),
        ("r[2,1]n[1-2]", ["r2n1", "r2n2", "r1n1", "r1n2"]),
        ("10.0.0.[1-2]", ["10.0.0.1", "10.0.0.2"]),
        (" a , b ", ["a", "b"]),
        ("fe80::1%eth0,::1", ["fe80::1%eth0", "::1"]),
        ("under_score-1", ["under_score-1"]),
    ],
)
def test_names_and_ranges_keep_their_written_order(text, expected):
    """Hosts come in the order in which they are written, ranges expanded in place."""
    assert names(text) == expected


def test_user_and_port_belong_to_the_host_and_not_to_its_name():
    """`user@host:port` is reached that way and called by its host."""
    assert parse_hosts("ada@node1:2222") == (Host("node1", "node1", user="ada", port=2222),)
    assert [host.user for host in parse_hosts("ada@n[1-2]")] == ["ada", "ada"]


def test_the_port_is_part_of_the_name_where_two_hosts_share_the_name():
    """Two sshds of one address are told apart by their ports; an IPv6 address is put in brackets for it."""
    assert names("lab:2201,lab:2202,other:22") == ["lab:2201", "lab:2202", "other"]
    assert names("[fe80::1]:22,[fe80::1]:23") == ["[fe80::1]:22", "[fe80::1]:23"]


def test_bracketed_ipv6_takes_a_port():
    """The brackets and the port are no part of the address."""
    assert parse_hosts("[fe80::1]:2222") == (Host("fe80::1", "fe80::1", port=2222),)


def test_local_is_this_machine():
    """`local` needs no ssh and no other host beside it."""
    (host,) = parse_hosts("local")
    assert host.transport == "local"
    with pytest.raises(UsageError, match="'local' must be the only host"):
        parse_hosts("local,node1")


def test_a_hostfile_gives_slots_and_python_for_each_line(tmp_path):
    """Comments, blank lines, CRLF and a byte order mark are no hosts; order is kept, also beside other pieces."""
    file = tmp_path / "hosts"
    file.write_bytes(
        b"\xef\xbb\xbf# nodes\r\n\r\nada@n2:22 slots=8 python=/opt/py/bin/python3 # odd\r\nn[3-4]\tslots=2\r\n"
    )
    assert parse_hosts(f"n9,@{file}") == (
        Host("n9", "n9"),
        Host("n2", "n2", "ada", 22, 8, "/opt/py/bin/python3"),
        Host("n3", "n3", slots=2),
        Host("n4", "n4", slots=2),
    )


@pytest.mark.parametrize(
    ("line", "culprit"),
    [
        ("n1 slots=0", "slots=0"),
        ("n1 slots=two", "slots=two"),
        ("n1 slots=1 slots=2", "slots=2"),
        ("n1 python=", "python="),
        ("n1 python=-c", "python=-c"),
        ("n1 python=/x;reboot", "python=/x;reboot"),
        ("n1 gpus=4", "gpus=4"),
        ("@other", "@other"),
        ("local", "local"),
        ("n1;reboot", "n1;reboot"),
    ],
)
def test_a_bad_line_of_a_hostfile_is_named_with_its_number(tmp_path, line, culprit):
    """The message holds file, line and word."""
    file = tmp_path / "hosts"
    file.write_text(f"ok\n{line}\n")
    with pytest.raises(UsageError) as caught:
        parse_hosts(f"@{file}")
    assert f"{file}:2" in str(caught.value)
    assert culprit in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"# nobody\n", b"\xff\xfe", b"n1\x00\n", b"n1\x0bn2\n", b"n\xc2\xa01\n"])
def test_a_hostfile_without_clean_hosts_is_a_usage_error(tmp_path, content):
    """Empty, comments only, not UTF-8, control characters, a space that looks like one."""
    file = tmp_path / "hosts"
    file.write_bytes(content)
    with pytest.raises(UsageError, match="hosts"):
        parse_hosts(f"@{file}")


def test_a_hostfile_that_is_no_plain_file_is_refused_at_once(tmp_path):
    """A FIFO would wait for ever, a folder and a missing file give nothing, a device never ends."""
    os.mkfifo(tmp_path / "fifo")
    long = "x" * 5000
    for name in (tmp_path / "fifo", tmp_path, tmp_path / "none", "/dev/zero", "", "a\0b", "\udc80", tmp_path / long):
        with pytest.raises(UsageError):
            parse_hosts(f"@{name}")


def test_a_hostfile_without_end_is_cut(tmp_path):
    """Size and number of hosts are capped, and the message says at what."""
    file = tmp_path / "hosts"
    file.write_text("n1\n" * 2_000_000)
    with pytest.raises(UsageError, match="MiB"):
        parse_hosts(f"@{file}")
    file.write_text("".join(f"n{number}\n" for number in range(20_001)))
    with pytest.raises(UsageError, match="more than 20000"):
        parse_hosts(f"@{file}")


@pytest.mark.parametrize(("text", "culprit"), [("a,b,a", "'a'"), ("n[1-3],n2", "'n2'"), ("a:22,a:22", "'a:22'|'a'")])
def test_a_duplicate_is_named(text, culprit):
    """A host named twice would get two ranks by mistake."""
    with pytest.raises(UsageError, match=culprit):
        parse_hosts(text)


@pytest.mark.parametrize("text", ["", " ", ",", "a,,b", "a,", ",a", "n[]", "n[,]"])
def test_an_empty_set_is_a_usage_error(text):
    """No host, or a gap between two commas, is not guessed away."""
    with pytest.raises(UsageError):
        parse_hosts(text)


def hostile_names():
    """500 names that a shell, ssh, a file system or a person could take for something else."""
    planted = [
        "-oProxyCommand=touch${IFS}/tmp/x", "-oProxyCommand=x@host", "user@-oProxyCommand=x", "-v", "--", "-",
        "a;reboot", "a b", "$(reboot)", "`reboot`", "a|b", "a&b", "a>b", "a<b", "a'b", 'a"b', "a\\b", "~root", "*",
        "a?b", "a!b", "a#b", "a%h", "%h", "a=b", "a+b", "a^b", "{a,b}", "${IFS}", "a\nb", "a\rb", "a\0b", "a\tb",
        "\x1b[31m", "\u202ea", "a\u200bb", "n\u043ede1", "\uff4eode1", "node\u0661", "\ud800", "\udc80x",
        "../x", "a/b", "/etc/passwd", "ssh://a", "http://a", "a.", ".a", "a..b", "a-", "a@b@c", "@", "@@", "u@", "@u@h",
        "x" * 254, "x" * 64, "a." * 127 + "abc", "x" * 300_000, "a," * 100_000, "[" * 1000, "]" * 1000, "n[1",
        "n1]", "n]1[", "n[[1]]", "n[1][", "n[1-99999999]", "n[1-99999999999]", "n[0-" + "9" * 5000 + "]", "n[3-1]",
        "n[1-3/0]", "n[-1-3]", "n[1--3]", "n[a-b]", "n[01-100]", "n[001-3]", "n[1;2]", "n[$(x)]", "n[1 2]",
        "n[\u0661-\u0663]", "n[1-300]m[1-300]", "n[1-999999]m[1-999999]m[1-999999]", "n[1]" * 50, "n[1-2],n[2-3]",
        "a:0", "a:65536", "a:x", "a:", "a:-1", "a:\u0661", "a:22:b", "a:2 2", ":22", "::1%eth0;reboot", "::1%$(x)",
        "fe80::1%", "fe80::1%" + "e" * 40, "[::1]:x", "[::1]:", "[::1", "::1]", "[a]:22", "[]", "[:]", "::g", "1:2:3",
        "slurm", "k8s:", "k8s:ns/app=$(x)", "local,a", "local:22", "u@local", "u;x@h", "u x@h", "$(x)@h", "-l@h",
        "\0@h", "@\0", "@-x", "@/",
        "@/dev/null", "@/proc/self/mem", "@" + "x" * 5000,
    ]  # fmt: skip
    chance = random.Random(7)
    bad = "$`;&|<>()'\"\\\n\r\t\0\x1b*?!#~ {}=+^\u202e\u200b\ud800"
    while len(planted) < 500:
        name = [*chance.choices("ab1-.", k=chance.randint(1, 12))]
        name.insert(chance.randint(0, len(name)), chance.choice(bad))
        planted.append("x" + "".join(name) + "y")
    return planted


@pytest.mark.parametrize("number", range(10))
def test_hostile_names_are_usage_errors_on_one_printable_line(number):
    """Each is refused before any process starts, at once, and the message cannot harm a terminal."""
    for name in hostile_names()[number::10]:
        begun = time.process_time()
        with pytest.raises(UsageError) as caught:
            pytest.fail(f"{name[:80]!r} was taken: {parse_hosts(name)[:3]}")
        message = str(caught.value)
        assert message.isprintable(), ascii(message)
        assert message.isascii(), ascii(message)
        assert len(message) < 6000
        assert time.process_time() - begun < 2, name[:80]


def test_the_message_names_the_culprit_among_good_hosts():
    """Only the piece that is wrong is told, not the whole list."""
    with pytest.raises(UsageError, match=r"'bad;name' is not a host name$"):
        parse_hosts("good1,bad;name,good2")


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_any_text_gives_hosts_or_a_usage_error(text):
    """No input ends in another exception, and no accepted address can be an option or leave its word."""
    try:
        hosts = parse_hosts(text)
    except UsageError:
        return
    for host in hosts:
        assert host.address
        assert not host.address.startswith("-")
        assert set(host.address) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-:%")


@pytest.mark.parametrize(
    ("given_names", "expected"),
    [
        ([], ""),
        (["node1"], "node1"),
        (["node1", "node2", "node10"], "node[1-2,10]"),
        (["n1", "n1"], "n1"),
        (["n09", "n10"], "n[09-10]"),
        (["lab:1", "lab:2"], "lab:1,lab:2"),
        (["n2", "fe80::1", "n1"], "n[1-2],fe80::1"),
        (["@all", "n1", "n2"], "n[1-2],@all"),
    ],
)
def test_names_are_folded_for_people(given_names, expected):
    """Ranges where NodeSet knows them; a name of another form is never looked up as a group or expression."""
    assert fold(given_names) == expected


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.from_regex(r"[a-z]{1,3}[0-9]{1,3}(-ib[0-9])?", fullmatch=True), min_size=1, max_size=12, unique=True)
)
def test_folded_names_read_back_as_the_same_hosts(given_names):
    """Folding loses no host and adds none."""
    assert set(names(fold(given_names))) == set(given_names)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.from_regex(r"(n|gpu-)(0|00)?[0-9]{1,3}(-b)?", fullmatch=True), min_size=2, max_size=12, unique=True))
def test_names_are_folded_as_clustershell_folds_them(given_names):
    """Those that differ in one number we fold ourselves, for it takes seconds where thousands are written often."""
    assert fold(given_names) == str(NodeSet.fromlist(given_names, resolver=RESOLVER_NOGROUP))


@pytest.mark.parametrize("text", ["node1", "me@node1", "me@node1:2222", "node1:2222", "me@[fe80::1]:22"])
def test_a_host_is_written_as_it_was_given(text):
    """With user and port, though its name is without."""
    (host,) = parse_hosts(text)
    assert host.written == text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("node1 node2", "node1,node2"),
        ("node1\uff0cnode2", "node1,node2"),
        ("10.0.0.1\u300110.0.0.2", "10.0.0.1,10.0.0.2"),
        ("node{1..3}", "node[1-3]"),
        ("node[1..3]", "node[1-3]"),
        ("node1..node3", "node[1-3]"),
        ("10.0.0.1..4", "10.0.0.[1-4]"),
    ],
)
def test_what_was_probably_meant_is_offered(written, meant):
    """The comma of a Chinese keyboard, blanks, and the ranges of a shell; what is offered is taken."""
    with pytest.raises(UsageError) as raised:
        parse_hosts(written)
    assert str(raised.value).endswith(f"; did you mean '{meant}'?")
    assert len(parse_hosts(meant)) > 1


def test_a_name_of_which_nothing_is_known_is_only_refused():
    """Nothing is offered that would be refused again."""
    with pytest.raises(UsageError, match=r"is not a host name$"):
        parse_hosts("<node 1..2>")


def test_a_name_without_end_is_refused_at_once():
    """Nobody waits for a guess at what was meant."""
    begun = time.process_time()
    with pytest.raises(UsageError, match="is not a host name"):
        parse_hosts("0" * 20_000)
    assert time.process_time() - begun < 0.5
