"""Do the nodes' own names, and what the others take them for, lead to the right addresses?"""

import pytest

from preflight.facts.subjects.network import is_loopback
from preflight.facts.value import Missing
from preflight.judge.tables.network import filters, interfaces
from preflight.said import joined, said
from preflight.said.errors import Blame, BlameMany, BlockedBy, NotApplicable

LOCAL = ("localhost", "localhost4", "localhost6", "ip6-localhost")
NOT_LOCALHOST = "names.own_hostname_is_not_localhost"


def test_own_hostname_is_not_localhost(node, cluster):
    """No node calls itself localhost.

    NCCL, gloo and launchers tell nodes apart by their names: with this one every peer means itself.
    Fix: `hostnamectl set-hostname <name>` on the nodes named, a different one on each, and log in to them again.
    """
    cluster.needs_peers()
    assert not _is_local(node), said("the node calls itself {hostname}", node.identity.hostname)


def test_localhost_is_the_node_itself(node, cluster):
    """The name localhost leads, on every node, to a loopback address, and the loopback interface is up.

    `torchrun --standalone`, ranks that meet on tcp://localhost, and the services of loggers and debuggers ask for it:
    without its line in /etc/hosts they fail on this node only, and with another address they talk to another machine;
    that is a warning. While the loopback interface is down, the ranks of this node do not reach each other at its own
    address either: rank 0 does not reach its own store, and NCCL hangs as it starts on several GPUs of a node.
    Fix: in /etc/hosts of the nodes named, `127.0.0.1 localhost` and no other line with that name; `ip link set lo up`
    where lo is down. Where that line is there, `hosts:` in /etc/nsswitch.conf must name `files`.
    """
    trouble = node.network.loopback_trouble()
    if trouble:
        is_sure = node is cluster.first or (node.backend == "nccl" and len(node.gpu.readable()) > 1)
        raise Blame(trouble, nodes=[node.name], is_advisory=not is_sure)
    bare = node.network.bare_loopback()
    if bare:
        message = said("{bare} has no 127.0.0.1: no program can listen there, or reach one that should", bare)
        fix = said("`ip address add 127.0.0.1/8 dev {bare}` on the nodes named", bare)
        raise Blame(message, nodes=[node.name], fix=fix, is_advisory=True)
    wrong = node.identity.wrong_localhost
    if wrong:
        raise Blame(wrong, nodes=[node.name], is_advisory=True)


def test_every_node_reaches_itself(node):
    """Every node reaches itself: at 127.0.0.1, at the address it trains on, and at the one its own name leads to.

    Ranks of one node meet at its own address, rank 0 connects to the store that it opened itself, and NCCL to its own
    proxy: while a packet filter or a route of the node stops these packets, the start hangs, and no peer notices.
    Fix: let the node's own packets pass (`nft list ruleset`, `iptables -S`): with nft `iif lo accept` as the first rule
    of its input chain, with iptables `iptables -I INPUT -i lo -j ACCEPT`; `ip route get <address>` must say `dev lo`.
    """
    if node.network.loopback_trouble():
        return  # a check of its own says so
    own = (node.address_for_peers(), *node.identity.hostname_addresses[:1])
    wrong = []
    for failed in node.network.unreached:
        if failed.address in own or is_loopback(failed.address):
            rules = [
                filters.shown(rule.tool, node.name, rule.place, rule.rule)
                for rule in failed.rules
                if filters.may_match(rule.rule, failed.address, failed.address)
            ]
            wrong.append(
                joined(
                    [said("the node does not reach itself at {address}: {why}", failed.address, failed.why), *rules[:2]]
                )
            )
    assert not wrong, joined(wrong)


def test_own_hostname_is_not_loopback(cluster):
    """A node's own hostname, asked on that node, does not resolve to a loopback address.

    gloo takes the first address of the node's own hostname and offers it to its peers: with 127.0.1.1, Debian's
    default, they connect to themselves and the job hangs. Only GLOO_SOCKET_IFNAME keeps gloo from asking. NCCL never
    asks; there it is a warning, for the groups on CPUs that many programs make beside it.
    Fix: in /etc/hosts of the nodes named, replace `127.0.1.1 <hostname>` by `<address of the node> <hostname>`.
    """
    cluster.needs_peers()
    blames = []
    for address, names in cluster.group_by(_address_for_gloo).items():
        nodes = [cluster[name] for name in names if address and cluster[name].identity.is_named_loopback]
        for node in filter(_is_local, nodes):
            cluster.cannot_judge(node.name, BlockedBy(NOT_LOCALHOST))
        nodes = [node for node in nodes if not _is_local(node)]
        fix = ""
        if len(nodes) == 1 and nodes[0].identity.has_plain_name:
            name, right = nodes[0].identity.hostname, nodes[0].address_for_peers()
            fix = said(
                "in /etc/hosts of {name}, replace `{address} {name2}` by `{right} {name2}`",
                nodes[0].name,
                address,
                name,
                right,
            )
        if nodes:
            message = said("the node's own hostname resolves to {address} there, which no peer can reach", address)
            named = [node.name for node in nodes]
            blames.append(Blame(message, nodes=named, fix=fix, is_advisory=nodes[0].backend == "nccl"))
    if blames:
        raise BlameMany(blames)


def test_own_hostname_is_an_address_of_the_node(node, cluster):
    """A node's own hostname resolves, on that node, to an address that one of its interfaces has.

    gloo binds to that address: a stale entry of /etc/hosts or DNS, or none, sends it to loopback and the job hangs.
    NCCL never asks; there it is a warning, for the groups on CPUs that many programs make beside it. On one node,
    `torchrun --standalone` tells its ranks to meet at the full name (`hostname -f`): where that leads nowhere, or to
    another machine, they wait for rank 0 until they time out.
    Fix: on the nodes named, `getent hosts $(hostname)` must print an address that `ip -br address` lists; where
    /etc/hosts has its line already, `hosts:` in /etc/nsswitch.conf must name `files`.
    """
    if not cluster.has_peers:
        _is_found_by_its_own_ranks(node)
        return
    cluster.needs_peers()
    if node.value("GLOO_SOCKET_IFNAME"):
        return
    if node.identity.is_named_loopback:
        if _is_local(node):
            raise BlockedBy(NOT_LOCALHOST)
        if node.backend == "nccl":
            raise NotApplicable("the node's own hostname is a loopback address there, and NCCL never asks for it")
        raise BlockedBy("names.own_hostname_is_not_loopback")
    addresses = node.identity.hostname_addresses
    message = said(
        "{hostname} is {addresses}, which no interface there has", node.identity.hostname, ", ".join(addresses)
    )
    if not addresses:
        message = "does not resolve there"
    if not addresses or not node.network.holds_any(addresses):
        words = said("the node's own hostname {message}", message)
        raise Blame(words, nodes=[node.name], is_advisory=node.backend == "nccl")


def _is_found_by_its_own_ranks(node):
    """On one node the own name may be loopback; what torchrun tells the ranks is the full name."""
    own = node.identity
    full = own.hostname_addresses if isinstance(own.fqdn_addresses, Missing) else own.fqdn_addresses
    for what, name, addresses in (("hostname", own.hostname, own.hostname_addresses), ("full name", own.fqdn, full)):
        own_name = said("the node's own {what} {name}", what, name)
        ranks = "where the ranks of `torchrun --standalone` meet"
        assert addresses, said("{own_name} does not resolve there, {ranks}", own_name, ranks)
        assert node.network.holds_any(addresses[:1]), said(
            "{own_name} is {addresses}, {ranks}, and no interface there has {first}",
            own_name,
            ", ".join(addresses),
            ranks,
            addresses[0],
        )


@pytest.mark.advisory
def test_own_hostname_is_no_link_local_address(node, cluster):
    """A node's own hostname does not lead, on that node, to a link-local IPv6 address first.

    torch's RPC (TensorPipe) and programs that write addresses down lose the interface that belongs to it
    (fe80::1%eth0), and end with "Invalid argument"; a peer reaches it by the number of its own interface, if at all.
    Fix: in /etc/hosts of the nodes named, a line `<address of the node> <hostname>`.
    """
    cluster.needs_peers()
    addresses = node.identity.hostname_addresses
    if not addresses:
        raise BlockedBy("names.own_hostname_is_an_address_of_the_node")
    if not addresses[0].lower().startswith("fe80:"):
        return
    name, right = node.identity.hostname, node.address_for_peers()
    fix = said(
        "in /etc/hosts of {node}, a line `{right} {name}`, and none with {address}",
        node.name,
        right,
        name,
        addresses[0],
    )
    message = said("the node's own hostname {name} leads to {address} there first", name, addresses[0])
    raise Blame(message, nodes=[node.name], fix=fix if node.identity.has_plain_name else "")


def test_hostnames_are_unique(cluster):
    """Every node has a hostname of its own.

    Launchers and torch tell nodes apart by hostname: torchrun may take a peer for itself, NCCL two nodes for one.
    Fix: `hostnamectl set-hostname <name>` on the nodes named, a different one on each, and log in to them again.
    """
    cluster.needs_peers()
    groups = cluster.group_by(lambda node: node.identity.hostname)
    same = {name: nodes for name, nodes in groups.items() if nodes[1:] and not _is_local(cluster[nodes[0]])}
    for name in (name for nodes in groups.values() for name in nodes if _is_local(cluster[name])):
        cluster.cannot_judge(name, BlockedBy(NOT_LOCALHOST))
    machines = {node.identity.boot_id for nodes in same.values() for node in map(cluster.__getitem__, nodes)}
    if same and len(machines) == len(same):
        raise BlockedBy("reach.no_machine_is_named_twice", nodes=[node for nodes in same.values() for node in nodes])
    if same:
        raise BlameMany(
            Blame(said("several nodes call themselves {name}", name), nodes=nodes) for name, nodes in same.items()
        )


@pytest.mark.advisory
def test_short_hostnames_are_unique(cluster):
    """Hostnames are different up to their first dot.

    NCCL cuts names there, and so do Slurm, Horovod and most launchers: gpu1.rack1 and gpu1.rack2 become one node.
    Fix: `hostnamectl set-hostname <name>` on the nodes named, different before the first dot.
    """
    cluster.needs_peers()
    groups = cluster.group_by(lambda node: node.identity.hostname.partition(".")[0])
    same = []
    for short, names in groups.items():
        full = {cluster[name].identity.hostname for name in names}
        if len(full) > 1:
            same.append(
                Blame(said("cut at the first dot, {full} are all {short}", ", ".join(sorted(full)), short), nodes=names)
            )
    if same:
        raise BlameMany(same)


def test_every_node_speaks_one_address_family(cluster):
    """There is an address family, IPv4 or IPv6, in which every node can be reached.

    A rank that offers an IPv6 address to one that has none is never reached: gloo and NCCL do not try another. gloo
    offers the address of the node's own hostname, so these must be of one family too, unless GLOO_SOCKET_IFNAME is set.
    Fix: give the nodes named an address of the others' family (`ip -br address`), or one NCCL_SOCKET_FAMILY for all.
    """
    cluster.needs_peers()
    families = cluster.gather(lambda node: node.network.training_interface.families())
    for name in [name for name, found in families.items() if not found]:
        cluster.cannot_judge(name, BlockedBy("network.training_interface_exists"))
    families = {name: found for name, found in families.items() if found}
    if families and not frozenset.intersection(*families.values()):
        values = {name: " and ".join(sorted(found)) for name, found in families.items()}
        groups = {
            words: tuple(name for name in values if values[name] == words) for words in dict.fromkeys(values.values())
        }
        raise BlameMany(cluster.differing(groups, "address families of the training interface"))
    offered = cluster.gather(lambda node: "" if node.value("GLOO_SOCKET_IFNAME") else node.identity.offered_family)
    named = {}
    for name, family in offered.items():
        if family:
            named.setdefault(family, []).append(name)
    if len(named) > 1:
        fix = "in /etc/hosts of the nodes named, the node's own hostname with its address of the others' family alone"
        blames = cluster.differing(named, "address family of the node's own hostname", fix=fix, about="own hostname")
        is_advisory = cluster.nodes[0].backend == "nccl"
        raise BlameMany(Blame(one.message, nodes=one.nodes, fix=fix, is_advisory=is_advisory) for one in blames)


def test_peers_are_taken_for_themselves(node, cluster):
    """Where a node can resolve the hostname of a peer, it gets an address that this peer has.

    A stale line in /etc/hosts or DNS sends ranks to another machine or to themselves: the start hangs or is refused.
    Of several addresses the first counts, as ranks try them in this order; a wrong one behind it is a warning.
    Fix: correct the line of the peer in /etc/hosts of the nodes named; check with `getent ahosts <peer>`.
    """
    cluster.needs_peers()
    wrong, stray = [], []
    for route in _routes_to_known(node, cluster):
        peer = cluster[route.name]
        if cluster.bearers[peer.identity.hostname] > 1:
            raise BlockedBy("names.hostnames_are_unique")
        if _is_local(peer):  # that name is right to lead to this node itself
            continue
        if route.resolved and _leads_elsewhere(node, peer, route.resolved):
            wrong.append(_taken_for(peer.identity.hostname, peer, route.resolved))
        elif strays := _strays(node, peer, route.resolved):
            stray.append(
                said(
                    "{hostname} is {strays} there too, which is not {name}",
                    peer.identity.hostname,
                    ", ".join(strays),
                    peer.name,
                )
            )
    lost = set(node.lost_addresses)
    if lost & cluster.once("what names resolve to", lambda: _resolved(cluster)).get(node.name, set()):
        gone = ", ".join(sorted(lost))
        wrong.append(
            said(
                "{hostname} is {gone} here and for its peers, and no interface of this node has it",
                node.identity.hostname,
                gone,
            )
        )
    if wrong or stray:
        raise Blame(joined([*wrong, *stray]), nodes=[node.name], is_advisory=not wrong)


@pytest.mark.advisory
def test_peers_can_be_resolved(node, cluster):
    """Every node can resolve the hostname of every peer.

    torchrun with the c10d rendezvous tells all nodes the *name* of rank 0's node; a job that is given only addresses
    does not need it.
    Fix: add the peers named to DNS, or to /etc/hosts of the nodes named; where they are in /etc/hosts already, `hosts:`
    in /etc/nsswitch.conf must name `files`.
    """
    cluster.needs_peers()
    unknown = []
    own = node.identity
    for route in _routes_to_known(node, cluster):
        peer = cluster[route.name].identity
        # A pod has its full name from a headless service, and no other; torchrun tells the full one. A pod that calls
        # itself localhost, or that does not find its own name and so its full one, is told of by checks of that node.
        has_lost_name = not peer.hostname_addresses and peer.fqdn == peer.hostname and own.fqdn != own.hostname
        is_named = not _is_local(cluster[route.name]) and not has_lost_name
        is_known = not is_named or route.resolved or (route.resolved_fqdn and peer.fqdn != peer.hostname)
        unknown += [] if is_known else [peer.hostname]
    whom = ", ".join(unknown) if len(unknown) < len(node.peers.routes) else "any peer"
    assert not unknown, said("cannot resolve the hostname of {whom}", whom)


@pytest.mark.advisory
def test_full_names_of_peers_lead_to_them(node, cluster):
    """Every node can resolve the full name of every peer, to an address that this peer has.

    torchrun's c10d rendezvous tells all nodes the full name (`hostname -f`) of rank 0's node: one that only this node
    knows hangs the job after "rendezvous complete".
    Fix: add the full names to DNS or to /etc/hosts of every node, or start torchrun with `--local-addr <address>`.
    """
    cluster.needs_peers()
    unknown, wrong = [], []
    for route in _routes_to_known(node, cluster):
        peer = cluster[route.name]
        full = peer.identity.fqdn
        if full == peer.identity.hostname or _is_local(peer):
            continue  # the checks of the hostname speak of it
        if not route.resolved_fqdn:
            unknown.append(full)
        elif _leads_elsewhere(node, peer, route.resolved_fqdn):
            wrong.append(_taken_for(full, peer, route.resolved_fqdn))
    unresolved = (
        [said("cannot resolve {unknown}{unknown2}", ", ".join(unknown[:4]), " and others" if unknown[4:] else "")]
        if unknown
        else []
    )
    assert not unknown + wrong, joined([*unresolved, *wrong])


@pytest.mark.advisory
def test_reverse_names_lead_back(node, cluster):
    """The name that a peer's address has on a node leads back to this peer.

    c10d and torchrun turn addresses into names and connect to the names: a stale reverse record sends them elsewhere,
    though only addresses were given.
    Fix: correct the reverse record (PTR) or the line of /etc/hosts; `getent hosts <address>` on the nodes named.
    """
    cluster.needs_peers()
    wrong = []
    for route in _routes_to_known(node, cluster):
        name = route.reverse
        peer = cluster[route.name]
        leads_back = route.reverse_addresses[:1] == (
            route.address,
        )  # that the peer has lost it is another check's matter
        if isinstance(name, str) and not leads_back and _leads_elsewhere(node, peer, route.reverse_addresses):
            leads = ", ".join(route.reverse_addresses) or "nothing"
            first = " first" * (route.address in route.reverse_addresses)
            wrong.append(
                said(
                    "{address} ({name}) is called {name2} there, which resolves{first} to {leads}",
                    route.address,
                    route.name,
                    name,
                    first,
                    leads,
                )
            )
    assert not wrong, joined(wrong[:4])


def test_look_ups_are_answered(node, cluster, settings):
    """The resolver answers when a node asks for the name of a peer's address.

    c10d asks at every connection: a name server that stays silent costs 5 to 25 s each time, and starts time out.
    Fix: remove dead servers from /etc/resolv.conf of the nodes named, or write the peers into their /etc/hosts.
    """
    cluster.needs_peers()
    slow = node.peers.slow_lookups(settings.names.silent_lookup_seconds)
    assert not slow, said(
        "the resolver takes {max:.3g} s or more for the name of {slow}", max(slow.values()), ", ".join(slow)
    )


@pytest.mark.advisory
def test_look_ups_are_fast(node, cluster, settings):
    """The resolver answers at once when a node asks for the name of a peer's address.

    c10d asks at every connection: half a second each is minutes at the start of a job of many ranks. On the first node
    torch's store asks for ::ffff:10.0.0.2, which a line of /etc/hosts for 10.0.0.2 does not answer: without a name
    server every rank that comes there waits.
    Fix: write the peers into /etc/hosts of the nodes named (on the first one `::ffff:<address> <name>-mapped`, too), or
    give them a name server nearby (`resolvectl status`).
    """
    cluster.needs_peers()
    if node.peers.slow_lookups(settings.names.silent_lookup_seconds):
        raise BlockedBy("names.look_ups_are_answered")
    limit = settings.names.slow_lookup_seconds
    slow = {**node.peers.slow_lookups(limit), **node.peers.slow_when_accepted(limit)}
    assert not slow, said("the resolver takes {max:.3g} s for the name of {slow}", max(slow.values()), ", ".join(slow))


def _routes(node):
    """What a node said of its ways to the others; nothing where it said nothing, which that node's own cell tells."""
    return getattr(node.subjects.get("peers"), "routes", ())


def _resolved(cluster):
    """Node -> every address that any node takes its name for."""
    found = {}
    for route in (route for node in cluster for route in _routes(node)):
        found.setdefault(route.name, set()).update(route.resolved)
    return found


def _routes_to_known(node, cluster):
    """The ways of a node to the peers that told who they are: of one that did not, its own cell speaks."""
    routes = node.peers.routes
    if routes and not any("identity" in cluster[route.name].subjects for route in routes):
        raise BlockedBy(NOT_LOCALHOST, nodes=[route.name for route in routes], detail="no peer said who it is")
    return [route for route in routes if cluster[route.name].subjects.keys() >= {"identity", "network"}] or routes


def _leads_elsewhere(node, peer, addresses):
    """Whether the first address that a node finds for a peer is wrong: what connects to the name tries it first."""
    return bool(_strays(node, peer, addresses[:1])) or not (addresses or _has_lost(node, peer, addresses))


def _strays(node, peer, addresses):
    """The wrong ones among the addresses that a node finds for a peer; where the peer has lost them, it is at fault."""
    return () if _has_lost(node, peer, addresses) else peer.network.strays(addresses)


def _has_lost(node, peer, addresses):
    return bool(set(addresses) & set(peer.lost_addresses)) or interfaces.has_left(peer, node)


def _taken_for(name, peer, addresses):
    """What a name of a peer gives, and what it should give first."""
    right = peer.address_for_peers()
    rest = (
        said(", and only then {addresses}", ", ".join(addresses[1:]))
        if peer.network.holds_any(addresses[1:], reachable=True)
        else ""
    )
    found = (
        said("{addresses} there first{rest}", addresses[0], rest)
        if rest
        else said("{addresses} there", ", ".join(addresses))
    )
    return said("{name} is {found}, not {right}", name, found, right)


def _is_local(node):
    """Whether a node calls itself localhost."""
    return node.identity.hostname.partition(".")[0] in LOCAL


def _address_for_gloo(node):
    """What gloo will offer to its peers where GLOO_SOCKET_IFNAME is not set; "" where it will not ask."""
    if node.value("GLOO_SOCKET_IFNAME"):
        return ""
    if node.backend == "nccl" and not node.identity.hostname_addresses:
        return ""  # a warning of the check below, and no reason to leave this one open
    return node.identity.own_address
