"""Is what is written for kubectl what was meant, and can a person read it?"""

from __future__ import annotations

import yaml

from preflight.launch.manifests.dump import yaml_of


def test_programs_are_lines_and_nothing_is_referred_to():
    """And it is read back as it was."""
    part = {"text": "a\nb\n", "no": "None"}
    documents = [{"kind": "A", "one": part, "two": part}, {"kind": "B"}]
    text = yaml_of(documents)
    assert list(yaml.safe_load_all(text)) == documents
    assert "text: |\n    a\n    b\n" in text
    assert "&" not in text


def test_keys_stand_as_they_were_given():
    """And a long line is broken for no terminal that is narrower than usual."""
    command = " ".join(["torchrun"] + ["--option=1"] * 8)
    assert yaml_of([{"kind": "A", "apiVersion": "v1", "command": command}]) == (
        f"---\nkind: A\napiVersion: v1\ncommand: {command}\n"
    )
