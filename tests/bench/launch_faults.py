"""Of single faults in every right launch file of the tests, how many are told, and what does a harmless change alter?

python -m tests.bench.launch_faults              a row for each kind of fault, and each of harmless change
python -m tests.bench.launch_faults KIND         what is missed of the kinds with this word in their names
"""

from __future__ import annotations

import sys
from collections import Counter

from preflight.launch.rules.check import check_texts
from preflight.said.errors import UsageError
from tests.launch import truth
from tests.launch.faults import FAULTS, HARMLESS, broken, is_script

GOAL = 0.9


def told(texts):
    """What is said of these files: fails and warnings by their rules."""
    try:
        found = check_texts(texts)[0]
    except UsageError:
        return Counter({("refused", "fail"): 1})
    return Counter((one.check, str(one.verdict)) for one in found if str(one.verdict) in ("fail", "warn"))


def named(cases, faults=FAULTS, *, verbose=False):
    """How often each kind of fault was made, told, and by which rules."""
    made, seen, rules = Counter(), Counter(), {}
    for case in cases:
        before = told(case.texts)
        for fault in faults:
            for file, texts in broken(case, fault):
                new = told(texts) - before
                made[fault.name] += 1
                seen[fault.name] += bool(new)
                rules.setdefault(fault.name, Counter()).update(rule.removeprefix("launch.") for rule, _ in new)
                if verbose and not new:
                    print(f"--- missed: {fault.name}: {case.source}: {case.name}: {file}")
    return made, seen, rules


def changed(cases):
    """The harmless changes that alter what is told: the change, the case, and what is lost or new."""
    count, found = Counter(), []
    for case in cases:
        before = told(case.texts)
        for name, change in HARMLESS.items():
            texts = {file: change(text) if is_script(file, text) else text for file, text in case.texts.items()}
            if texts != case.texts:
                count[name] += 1
                after = told(texts)
                if after != before:
                    found.append((name, f"{case.source}: {case.name}", dict(before - after), dict(after - before)))
    return count, found


def main() -> int:
    """Print the rows; 1 where a goal is missed."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    cases = truth.cases()
    good = [case for case in cases if not case.musts]
    made, seen, rules = named(good, [fault for fault in FAULTS if word in fault.name], verbose=bool(word))
    for name in sorted(made, key=lambda name: seen[name] - made[name]):
        by = ", ".join(f"{rule} {number}" for rule, number in rules[name].most_common(4))
        print(f"{name:<40} {seen[name]:>4} of {made[name]:<4} {by}")
    unused = [fault.name for fault in FAULTS if word in fault.name and fault.name not in made]
    share = sum(seen.values()) / max(1, sum(made.values()))
    print(f"{len(made)} kinds, {sum(seen.values())} of {sum(made.values())} told ({share:.1%}); nowhere made: {unused}")
    if word:
        return 0
    count, found = changed(cases)
    for name, case, lost, new in found:
        print(f"harmless {name}: {case}: lost {lost} new {new}")
    print(f"harmless: {dict(count)}, of which {len(found)} alter what is told")
    return 0 if share >= GOAL and not found else 1


if __name__ == "__main__":
    sys.exit(main())
