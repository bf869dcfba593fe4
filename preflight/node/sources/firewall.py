"""Which rule of this node's packet filter keeps connections from a port?

Read only where a connection failed: nft's ruleset, else iptables' as iptables-save prints it. ufw and firewalld write
their rules there, and are known by the names of their chains and tables.
"""

from __future__ import annotations

import re

from preflight.node.agent import programs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Rule = dict[str, str]

LIMIT_S = 3.0
MOST = 4
DROPS = re.compile(r"\b(drop|reject)\b")
TABLE = re.compile(r"table\s+(\w+)\s+(\S+)\s*\{")
CHAIN = re.compile(r"chain\s+(\S+)\s*\{")
HOOK = re.compile(r"\btype\s+\w+\s+hook\s+(\w+)\b")
PORTS = re.compile(r"\b(?:tcp|th)\s+dport\s+(!=\s*)?(\{[^}]*\}|[<>]=?\s*\d+|\S+)")
OTHER_TRAFFIC = re.compile(r"\b(udp|icmp|icmpv6|sctp)\b|ct state (?!.*\bnew\b)|\biif(?:name)? \"?lo\"?\b|tcp sport")
HANDLE = re.compile(r"\s*# handle \d+")
COUNTER = re.compile(r"counter packets \d+ bytes \d+ ?")
SAVED_PORT = re.compile(r"(! )?--(?:dports?|destination-ports?) (\S+)")
SAVED_OTHER = re.compile(r"-p (?!tcp|all|6\b)\S+|--sports?\b|--(?:ct)?state (?!\S*NEW)|-[io] lo\b")


def rules_against(port: int, hook: str) -> list[Rule]:
    """The rules that may drop a connection to a TCP port, at "input" or "output"; none where they cannot be read."""
    commands = {}
    for name, words in (
        ("nft", ["list", "ruleset"]),
        ("iptables-save", ["-t", "filter"]),
        ("ip6tables-save", ["-t", "filter"]),
    ):
        program = programs.find(name, "")
        if program:
            commands[name] = [program, *words]
    texts = {name: text for name, text in programs.run_all(commands, limit_s=LIMIT_S).items() if isinstance(text, str)}
    saved = [rule for name in texts if name != "nft" for rule in of_iptables(texts[name], port, hook)]
    return (saved or of_nft(texts.get("nft", ""), port, hook))[:MOST]


def of_nft(text: str, port: int, hook: str) -> list[Rule]:
    """The rules of `nft list ruleset`: those that name the port, else a chain's last word or its policy."""
    named: list[Rule] = []
    general: list[Rule] = []
    for place, at, lines in _chains(text):
        if at not in ("", hook):
            continue
        is_let_in = False
        for line in lines:
            rule = {"tool": _owner(place, "nft"), "place": place, "rule": COUNTER.sub("", line)}
            found = PORTS.search(line)
            if OTHER_TRAFFIC.search(line) or (found and _holds(found[2], port) == bool(found[1])):
                continue
            if not DROPS.search(line):
                is_let_in = is_let_in or (line.endswith("accept") and (bool(found) or line == "accept"))
            elif found and not is_let_in:
                named.append(rule)
            elif line.startswith("type ") and "policy drop" in line and not is_let_in:
                general.append({**rule, "rule": "policy drop"})
            elif not line.startswith("type ") and not is_let_in and at:
                general.append(rule)
    return named or general


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


def of_iptables(text: str, port: int, hook: str) -> list[Rule]:
    """The rules against the port in the output of iptables-save."""
    named: list[Rule] = []
    general: list[Rule] = []
    base, let_in = hook.upper(), False
    for line in text.split("\n"):
        words = line.split()
        if line.startswith(f":{base} ") and len(words) > 1 and words[1] == "DROP":
            general.append({"tool": "iptables", "place": base, "rule": f"policy {words[1]}"})
            continue
        if not line.startswith("-A ") or SAVED_OTHER.search(line) or len(words) < 4:
            continue
        chain, found = words[1], SAVED_PORT.search(line)
        other = "OUTPUT" if hook == "input" else "INPUT"
        is_of_us = chain == base or (chain not in ("INPUT", "OUTPUT", "FORWARD") and other.lower() not in chain.lower())
        if not is_of_us or (found and _holds(found[2], port) == bool(found[1])):
            continue
        rule = {"tool": _owner(chain, "iptables"), "place": chain, "rule": line}
        if re.search(r"-j (DROP|REJECT)\b", line):
            if found and not let_in:
                named.append(rule)
            elif chain == base and not let_in:
                general.insert(0, rule)
        elif "-j ACCEPT" in line and chain == base and (found or len(words) == 4):
            let_in = True
    return named or ([] if let_in else general)


def _owner(place: str, tool: str) -> str:
    """The program that writes the rules of a chain."""
    lower = place.lower()
    return "ufw" if "ufw" in lower else "firewalld" if "firewalld" in lower else tool
