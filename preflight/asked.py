"""Which options do the words of a command line mean?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from preflight import history
from preflight.arguments import Chosen
from preflight.options import Options, new_run_id
from preflight.settings import Settings, load_settings
from preflight.sweep import parse_sweep

SWEEP_WORDS = ("op", "begin", "end", "factor", "iters", "warmup", "dtype", "mode", "scope")


def options_from(chosen: Chosen, command: list[str]) -> Options:
    """The typed options. Raises UsageError for the first that cannot be."""
    options = Options(
        hosts="local" if chosen["hosts"] is None else chosen["hosts"],
        python=chosen["python"],
        wrap=chosen["wrap"],
        ssh_option=chosen["ssh_option"],
        env=tuple(chosen["env"]),
        launch=tuple(chosen["launch"]),
        backend=chosen["backend"],
        ranks_per_node=chosen["ranks_per_node"],
        launcher=chosen["launcher"] or "direct",
        model=chosen["model"],
        strategy=chosen["strategy"],
        precision=chosen["precision"],
        accumulate=chosen["accumulate"],
        checkpoint_activations=bool(chosen["checkpoint_activations"]),
        checkpoint_dir=chosen["checkpoint_dir"],
        drill=bool(chosen["drill"]),
        profile=chosen["profile"],
        deadline=chosen["deadline"],
        settings=load_settings(Path(chosen["settings"])) if chosen["settings"] else Settings(),
        report_dir=Path(chosen["report_dir"]) if chosen["report_dir"] else None,
        fail_on_warn=bool(chosen["fail_on_warn"]),
        require_all=bool(chosen["require_all"]),
        prune=bool(chosen["prune"]),
        force=bool(chosen["force"]),
        full_mesh=bool(chosen["full_mesh"]),
        localize=bool(chosen["localize"]),
        burn_in=bool(chosen["bench_burn_in"]) or chosen["profile"] == "full",
        sweep=parse_sweep({name: chosen[f"bench_{name}"] for name in SWEEP_WORDS}, is_full=chosen["profile"] == "full"),
        shared=tuple(path.rstrip("/") or "/" for path in chosen["shared"]),
        same=tuple(path.rstrip("/") or "/" for path in chosen["same"]),
        ssh_trust=bool(chosen["ssh_trust"]),
        from_run=Path(chosen["from"]) if chosen["from"] else None,
        subjects=tuple(filter(None, str(chosen.values.get("subjects", "")).split(","))),
        run_id=chosen.values.get("run_id") or new_run_id(),
        command=tuple(command),
    ).checked()
    if chosen["baseline"] is None:
        return options
    return replace(options, baseline_asked=chosen["baseline"], baseline=history.baseline(chosen["baseline"], options))
