"""Does preflight.toml change what it names, and nothing in silence?"""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from preflight.judge.settings import Settings, load_settings, parse_settings
from preflight.said.errors import UsageError


def load(tmp_path, text):
    file = tmp_path / "preflight.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_settings(file)


def test_an_empty_file_gives_the_defaults(tmp_path):
    """Nothing is needed, and the defaults are those of the documentation."""
    settings = load(tmp_path, "")
    assert settings == Settings()
    assert (settings.bench.fail_below, settings.bench.warn_below, settings.bench.slow_below) == (0.90, 0.95, 0.80)
    assert (settings.limits.memlock_min_bytes, settings.limits.nofile_min) == (2**30, 4096)
    assert (settings.clock.max_offset_seconds, settings.clock.fail_offset_seconds) == (1.0, 30.0)
    assert (settings.training.gradient_tolerance, settings.training.parameters_tolerance) == (1e-3, 1e-3)


def test_a_key_changes_its_threshold_and_no_other(tmp_path):
    """A whole number is taken where a fraction is wanted, and becomes one."""
    settings = load(tmp_path, "[limits]\nnofile_min = 100\n[clock]\nmax_offset_seconds = 2\n")
    assert settings.limits == dataclasses.replace(Settings().limits, nofile_min=100)
    assert settings.clock.max_offset_seconds == 2.0
    assert type(settings.clock.max_offset_seconds) is float
    assert settings.bench == Settings().bench


def test_settings_cannot_be_changed_later():
    """A check cannot move the threshold of the next one."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().bench.fail_below = 0.1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[bench]\nfail_bellow = 0.5\n", ["'fail_bellow'", "'fail_below'"]),
        ("[limit]\nnofile_min = 1\n", ["'limit'", "'limits'"]),
        ("zzz = 1\n", ["'zzz'", "known: bench"]),
        ("bench = 1\n", ["bench", "wanted a section", "got 1"]),
        ("[bench]\nfail_below = '0.5'\n", ["bench.fail_below", "wanted a number", "got a string '0.5'"]),
        ("[bench]\nfail_below = true\n", ["bench.fail_below", "got a boolean True"]),
        ("[bench]\nfail_below = nan\n", ["bench.fail_below", "got nan"]),
        ("[bench]\nfail_below = inf\n", ["bench.fail_below", "got inf"]),
        ("[bench]\nfail_below = 0\n", ["bench.fail_below", "above 0"]),
        ("[bench]\nfail_below = -0.5\n", ["bench.fail_below", "above 0"]),
        ("[bench]\nslow_below = 80\n", ["bench.slow_below", "fraction up to 1", "80"]),
        ("[bench]\nfail_below = 0.99\n", ["bench.fail_below (0.99)", "bench.warn_below (0.95)"]),
        ("[clock]\nmax_offset_seconds = 60\n", ["clock.max_offset_seconds", "clock.fail_offset_seconds"]),
        ("[limits]\nnofile_min = 4096.0\n", ["limits.nofile_min", "whole number", "4096.0"]),
        ("[limits]\nnofile_min = [1]\n", ["limits.nofile_min", "a list"]),
        ("[limits]\nnofile_min = {a = 1}\n", ["limits.nofile_min", "a section"]),
        ("[bench]\nfail_below = 1" + "0" * 3000 + "\n", ["bench.fail_below", "huge"]),
        ("[bench\n", ["line 1"]),
        ("[bench]\nfail_below = 0.5\nfail_below = 0.6\n", ["line 3"]),
        (b"\xff\xfe", ["utf-8"]),
        ("a = " + "[" * 5000, ["cannot be read"]),
    ],
)
def test_what_is_wrong_is_named_with_its_file(tmp_path, text, told):
    """One line: file, key, wanted, got; a typo gets the nearest name."""
    with pytest.raises(UsageError) as caught:
        load(tmp_path, text)
    message = str(caught.value)
    assert "preflight.toml" in message
    assert message.isprintable()
    for part in told:
        assert part in message


@pytest.mark.parametrize("name", ["none.toml", ".", "a\0b", "x" * 5000])
def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path, name):
    """Missing, a folder, no file name at all."""
    with pytest.raises(UsageError):
        load_settings(tmp_path / name)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=5,
)
SECTIONS = st.sampled_from(["bench", "limits", "clock", "training"]) | st.text(max_size=5)


@given(
    st.dictionaries(SECTIONS, st.dictionaries(st.sampled_from(["fail_below", "nofile_min"]), JUNK) | JUNK, max_size=3)
)
def test_any_document_gives_finite_thresholds_or_a_usage_error(document):
    """No content ends in another exception or in a threshold that compares with nothing."""
    try:
        settings = parse_settings(document, source="f")
    except UsageError:
        return
    for section in dataclasses.asdict(dataclasses.replace(settings, waivers={})).values():
        for value in section.values():
            assert 0 < value < float("inf")


DEFAULTS = """
[bench]
fail_below = 0.9
warn_below = 0.95
slow_below = 0.8
impossible_above = 1.02
gpu_below = 0.9
matmul_below = 0.5
memory_below = 0.7
host_below = 0.6

[limits]
memlock_min_bytes = 1_073_741_824
nofile_min = 4096
nproc_min = 4096
shm_min_bytes_per_gpu = 1_073_741_824
shm_min_bytes = 67_108_864

[clock]
max_offset_seconds = 1
max_drift_seconds = 0.1
fail_offset_seconds = 30

[names]
slow_lookup_seconds = 0.5
silent_lookup_seconds = 4

[network]
min_rate_mbps = 10_000
min_rate_of_joined_gpus_mbps = 40_000
min_share_of_rdma = 0.01
ephemeral_ports_min = 4096
ephemeral_used_share = 0.8

[files]
free_min_bytes = 1_073_741_824
free_min_inodes = 10_000
write_min_mbytes_per_s = 20
visible_max_seconds = 2

[start]
import_max_seconds = 60
import_ratio = 5

[training]
loss_drop_fraction = 0.05
gradient_tolerance = 0.001
parameters_tolerance = 0.001
bf16_tolerance = 0.05
replay_tolerance = 0.00001
gpu_replay_tolerance = 0.001
gpu_bf16_replay_tolerance = 0.02
straggler_ratio = 1.5
straggler_min_seconds = 0.01
straggler_fail_ratio = 2
stopped_share = 0.5
"""


def test_a_file_that_says_every_default_changes_nothing(tmp_path):
    """Who writes one to change a line of it finds all thresholds there, each at what holds without a file."""
    settings = load(tmp_path, DEFAULTS)
    assert settings == Settings()
    sections = dataclasses.asdict(dataclasses.replace(settings, waivers=()))
    assert all(f"\n{key} = " in DEFAULTS for keys in sections.values() if keys for key in keys)


FRACTIONS = """
    bench.fail_below bench.warn_below bench.slow_below bench.gpu_below bench.matmul_below bench.memory_below
    bench.host_below training.loss_drop_fraction network.ephemeral_used_share network.min_share_of_rdma
"""


@pytest.mark.parametrize("key", FRACTIONS.split())
def test_a_fraction_is_one_at_most(key):
    """One itself is taken: nothing but all of it passes."""
    section, name = key.split(".")
    with pytest.raises(UsageError, match=f"{key}: wanted a fraction up to 1, got 1.001"):
        parse_settings({section: {name: 1.001}}, source="f")
    whole = {"fail_below": 1, "warn_below": 1} if "bench.fail" in key else {name: 1}
    assert getattr(getattr(parse_settings({section: whole}, source="f"), section), name) == 1


@pytest.mark.parametrize(
    ("section", "low", "high"),
    [
        ("bench", "fail_below", "warn_below"),
        ("bench", "warn_below", "impossible_above"),
        ("clock", "max_offset_seconds", "fail_offset_seconds"),
        ("names", "slow_lookup_seconds", "silent_lookup_seconds"),
        ("training", "straggler_ratio", "straggler_fail_ratio"),
    ],
)
def test_of_two_limits_the_milder_may_not_be_above_the_other(section, low, high):
    """Where they are equal the milder one never speaks, and that is the user's to want."""
    usual = getattr(Settings(), section)
    limit = getattr(usual, high)
    if (low, high) == ("warn_below", "impossible_above"):
        limit = 1.0  # the most that a fraction may be
    assert parse_settings({section: {low: limit, high: limit}}, source="f")
    words = rf"{section}\.{low} \(.*\) is above {section}\.{high}"
    with pytest.raises(UsageError, match=words):
        parse_settings({section: {low: limit, high: limit * 0.99}}, source="f")


@pytest.mark.parametrize(("size", "is_read"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_a_file_of_a_mebibyte_is_read(tmp_path, size, is_read):
    """A larger one is no such file."""
    text = "#" * size
    if is_read:
        assert load(tmp_path, text) == Settings()
    else:
        with pytest.raises(UsageError, match="more than 1024 KiB"):
            load(tmp_path, text)
