"""Which rule of this node's packet filter keeps packets of a connection out, or in?

Read only where a connection failed: nft's ruleset, and iptables' as iptables-save prints it. ufw and firewalld write
their rules there, and are known by the names of their chains and tables.
"""

from __future__ import annotations

import re

from preflight.node.agent import programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Rule = dict[str, str]

LIMIT_S = 3.0
MOST = 4
DROPS = re.compile(r"\b(drop|reject)\b")
ACCEPTS = re.compile(r"\baccept( comment \".*\")?$")
TABLE = re.compile(r"table\s+(\w+)\s+(\S+)\s*\{")
CHAIN = re.compile(r"chain\s+(\S+)\s*\{")
HOOK = re.compile(r"\btype\s+\w+\s+hook\s+(\w+)\b")
HOOKS = {"input": ("input", "prerouting", "ingress"), "output": ("output", "postrouting", "egress")}
PORTS = re.compile(r"\b(?:tcp|th) ([ds])port\s+(!= )?(\{[^}]*\}|[<>]=?\s*\d+|\S+)")
MASKED = re.compile(r"\btcp flags & (\([^)]*\)|\w+) (==|!=) (\w+(?: \| \w+)*)")  # as nft printed it before 1.0.2
FLAGS = re.compile(r"\btcp flags (?:(!=|==) )?(\{[^}]*\}|[\w,]+(?: / [\w,]+)?)")
STATES = re.compile(r"\bct state (!= )?(vmap )?(\{[^}]*\}|[\w,]+)")
WAY = re.compile(r"\bct direction (!= )?(\w+)")
OTHER_PROTOCOL = r"\b(udp|icmp|icmpv6|sctp)\b"
OTHER_TRAFFIC = re.compile(OTHER_PROTOCOL + r'|\b[io]if(?:name)? "?lo"?(?!\S)')
NOT_OWN_TRAFFIC = re.compile(OTHER_PROTOCOL + r'|\b[io]if(?:name)? (?!"?lo"?(?!\S))')
ANSWERED_WITH = re.compile(r"reject with .*")
HANDLE = re.compile(r"\s*# handle \d+")
COUNTER = re.compile(r"counter packets \d+ bytes \d+ ?")
SAVED_PORT = re.compile(r"(! )?--(d|s|destination-|source-)ports? (\S+)")
SAVED_FLAGS = re.compile(r"(! )?--tcp-flags (\S+) (\S+)")
SAVED_STATE = re.compile(r"(! )?--(?:ct)?state (\S+)")
SAVED_OTHER = re.compile(r"-p (?!tcp|all|6\b)\S+|(?<!! )-[io] lo\b")
SAVED_NOT_OWN = re.compile(r"-p (?!tcp|all|6\b)\S+|! -[io] lo\b|-[io] (?!lo\b)")
SAVED_CHAINS = {"input": ("INPUT", "PREROUTING"), "output": ("OUTPUT", "POSTROUTING")}


class Packet:
    """A packet of a connection, at "input" or "output" of this node: the request, its answer, or what comes later.

    `port` is the one that somebody listens on; `own`, the other end's where it is known. `is_own`: both ends are this
    node, so the packet passes by the loopback interface.
    """

    def __init__(self, kind: str, hook: str, port: int, own: int = 0, *, is_own: bool = False) -> None:
        self.is_own = is_own
        self.kind = kind
        self.hook = hook
        self.ports = {"d": own, "s": port} if kind == "answer" else {"d": port, "s": own}
        self.flags = {"request": {"syn"}, "answer": {"syn", "ack"}}.get(kind, {"ack"})
        self.state = "new" if kind == "request" else "established"
        self.way = "reply" if kind == "answer" else "original"


def rules_against(packets: Iterable[Packet]) -> list[Rule]:
    """The rules that may drop one of the packets, and which; none where they cannot be read."""
    commands = {}
    for name, words in (("nft", ["list", "ruleset"]), ("iptables-save", []), ("ip6tables-save", [])):
        program = programs.find(name, "")
        if program:
            commands[name] = [program, *words]
    texts = {name: text for name, text in programs.run_all(commands, limit_s=LIMIT_S).items() if isinstance(text, str)}
    found: list[Rule] = []
    for packet in packets:
        saved = [rule for name in texts if name != "nft" for rule in of_iptables(texts[name], packet)]
        rules = (saved or of_nft(texts.get("nft", ""), packet))[:MOST]
        found += [rule for rule in ({**rule, "packet": packet.kind} for rule in rules) if rule not in found]
    return found


def of_nft(text: str, packet: Packet) -> list[Rule]:
    """The rules of `nft list ruleset`: those that name what the packet is, else a chain's last word or its policy."""
    named: list[Rule] = []
    general: list[Rule] = []
    for place, at, lines in _chains(text):
        if at and at not in HOOKS[packet.hook]:
            continue
        is_let_in = False
        for line in lines:
            rule = {"tool": _owner(place, "nft"), "place": place, "rule": COUNTER.sub("", line)}
            is_policy = line.startswith("type ")
            is_specific = _names(line, packet)
            if is_let_in or is_specific is None or (is_policy and "policy drop" not in line):
                continue
            if is_policy:
                general.append({**rule, "rule": "policy drop"})
            elif _verdict(line, packet) == "accept":
                is_let_in = is_specific or line == "accept"
            elif _verdict(line, packet) == "drop" and is_specific:
                named.append(rule)
            elif _verdict(line, packet) == "drop" and at:
                general.append(rule)
    return named or ([] if _lets_answers_in(text, packet) else general)


def _names(line: str, packet: Packet) -> bool | None:
    """Whether a rule of nft speaks of what the packet is; None where it is not about such a packet."""
    plain = MASKED.sub(_as_printed_today, ANSWERED_WITH.sub("reject", line))
    if (NOT_OWN_TRAFFIC if packet.is_own else OTHER_TRAFFIC).search(plain):
        return None
    is_specific = False
    for end, negated, ports in PORTS.findall(plain):
        if _holds(ports, packet.ports[end]) == bool(negated) or not packet.ports[end]:
            return None
        is_specific = True
    for negated, flags in FLAGS.findall(plain):
        if _flagged(flags, packet.flags, is_whole=negated == "==") == (negated == "!="):
            return None
    for negated, maps, states in STATES.findall(plain):
        if not maps and (packet.state in re.split(r"\W+", states)) == bool(negated):
            return None
        is_specific = is_specific or packet.kind != "request"
    for negated, way in WAY.findall(plain):
        if (way == packet.way) == bool(negated):
            return None
        is_specific = True
    return is_specific


def _as_printed_today(found: re.Match[str]) -> str:
    """`tcp flags != syn / syn,ack` of `tcp flags & (syn | ack) != syn`."""
    mask, value = (",".join(re.findall(r"\w+", words)) for words in (found[1], found[3]))
    return f"tcp flags {'!= ' if found[2] == '!=' else ''}{value} / {mask}"


def _flagged(words: str, flags: set[str], *, is_whole: bool) -> bool:
    """Whether `syn,ack / syn,ack`, `{ syn, syn | ack }` or `syn` holds of a packet's flags."""
    if words.startswith("{"):
        return any({*re.findall(r"\w+", one)} == flags for one in words.split(","))
    value, _, mask = words.partition(" / ")
    wanted = {*value.split(",")} - {"0x0", "0", ""}
    if mask:
        return flags & {*mask.split(",")} == wanted
    return flags == wanted if is_whole else bool(flags & wanted)


def _verdict(line: str, packet: Packet) -> str:
    """What a rule of nft does with the packet: "accept", "drop", or nothing that is known."""
    for _, maps, states in STATES.findall(line):
        if maps:
            found = re.search(rf"\b{packet.state} : (\w+)", states)
            return found[1] if found else ""
    return "drop" if DROPS.search(line) else "accept" if ACCEPTS.search(line) else ""


def _lets_answers_in(text: str, packet: Packet) -> bool:
    """A filter that knows its connections lets their packets in somewhere, whatever its last word is."""
    return packet.kind != "request" and bool(re.search(r"(?im)established.*accept", text))


def _chains(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """Each chain as FAMILY TABLE NAME, its hook, and its rules, the line of type and policy last."""
    table, chain, lines = "", "", []  # type: ignore[var-annotated]
    for raw in text.split("\n"):
        line = HANDLE.sub("", raw).strip()
        opened = TABLE.match(line)
        if opened:
            table = f"{opened[1]} {opened[2]}"
        elif CHAIN.match(line):
            found = CHAIN.match(line)
            chain, lines = f"{table} {found[1] if found else ''}", []
        elif line == "}" and chain:
            kinds = [held for held in lines if held.startswith("type ")]
            at = HOOK.search(kinds[0]) if kinds else None
            yield chain, at[1] if at else "", [held for held in lines if held not in kinds] + kinds
            chain = ""
        elif chain and line:
            lines.append(line)


def _holds(ports: str, port: int) -> bool:
    """Whether a port is among `29500`, `29500-29600`, `>= 1024` or `{ 22, 29500 }`."""
    if ports[0] in "<>":
        bound = int(ports.lstrip("<>= "))
        return (port == bound and "=" in ports) or (port > bound if ports[0] == ">" else port < bound)
    for piece in re.split(r"[,\s{}]+", ports):
        first, _, last = piece.replace(":", "-").partition("-")
        if first.isdigit() and int(first) <= port <= int(last if last.isdigit() else first):
            return True
    return False


def of_iptables(text: str, packet: Packet) -> list[Rule]:
    """The rules against the packet in the output of iptables-save."""
    named: list[Rule] = []
    general: list[Rule] = []
    table = ""
    let_in: set[str] = set()
    bases, others = SAVED_CHAINS[packet.hook], SAVED_CHAINS["output" if packet.hook == "input" else "input"]
    for line in text.split("\n"):
        words = line.split()
        if line.startswith("*"):
            table, let_in = line[1:].strip(), set()
        elif line.startswith(":") and words[0][1:] in bases and words[1:2] == ["DROP"]:
            general.append({"tool": "iptables", "place": _place(table, words[0][1:]), "rule": "policy DROP"})
        if table == "nat" or not line.startswith("-A ") or len(words) < 4:
            continue
        chain, is_specific = words[1], _names_saved(line, packet)
        is_of_us = chain in bases or not any(other.lower() in chain.lower() for other in (*others, "FORWARD"))
        if not is_of_us or is_specific is None or chain in let_in:
            continue
        place = _place(table, chain)
        rule = {"tool": _owner(chain, "iptables"), "place": place, "rule": line}
        if re.search(r"-j (DROP|REJECT)\b", line):
            if is_specific:
                named.append(rule)
            elif chain in bases:
                general.insert(0, rule)
        elif "-j ACCEPT" in line and chain in bases and (is_specific or len(words) == 4):
            let_in.add(chain)
            general = [one for one in general if one["place"] != place]
    return named or ([] if _lets_answers_in(text, packet) else general)


def _place(table: str, chain: str) -> str:
    """A chain of iptables, with its table where that is not the usual one."""
    return chain if table in ("", "filter") else f"{table} {chain}"


def _names_saved(line: str, packet: Packet) -> bool | None:
    """What _names tells, of a line of iptables-save."""
    if (SAVED_NOT_OWN if packet.is_own else SAVED_OTHER).search(line):
        return None
    is_specific = False
    for negated, end, ports in SAVED_PORT.findall(line):
        if _holds(ports, packet.ports[end[0]]) == bool(negated) or not packet.ports[end[0]]:
            return None
        is_specific = True
    for negated, mask, value in SAVED_FLAGS.findall(line):
        flags = f"{'' if value == 'NONE' else value} / {mask}".lower()
        if _flagged(flags, packet.flags, is_whole=False) == bool(negated):
            return None
    for negated, states in SAVED_STATE.findall(line):
        if (packet.state.upper() in states.split(",")) == bool(negated):
            return None
        is_specific = is_specific or packet.kind != "request"
    return is_specific


def _owner(place: str, tool: str) -> str:
    """The program that writes the rules of a chain."""
    lower = place.lower()
    return "ufw" if "ufw" in lower else "firewalld" if "firewalld" in lower else tool
