"""Is every option that was given handed over to the checks?"""

from __future__ import annotations

from preflight.cli.run import _forwarded
from preflight.options.table import OPTIONS, Chosen


def test_options_are_handed_to_pytest_under_names_that_no_plugin_has():
    """All that were given, values as one word each; what was not given is not said."""
    chosen = Chosen({"hosts": "-x y", "env": ["A=1", "B=2"], "full_mesh": True, "deadline": 60.0, "report_dir": "r"})
    words = list(_forwarded(chosen))
    assert {"--preflight-hosts=-x y", "--preflight-env=A=1", "--preflight-env=B=2", "--preflight-full-mesh"} <= set(
        words
    )
    assert "--preflight-deadline=60.0" in words
    assert not any("report-dir" in word or "json" in word or "dry-run" in word for word in words)


def test_every_option_that_was_given_is_handed_over():
    """None is dropped on the way from the verb to the checks but those that the verb itself serves."""
    own = {"json", "report-dir"}
    for name, attributes in OPTIONS.items():
        value = True if attributes.get("action") == "store_true" else ["x"] if attributes.get("default") == [] else "x"
        words = list(_forwarded(Chosen({name.replace("-", "_"): value})))
        assert any(word.partition("=")[0] == f"--preflight-{name}" for word in words) == (name not in own), name
