"""What does a test need to run: nothing but Python, processes of its own, or several hosts? And when does it begin?"""

from collections.abc import Sequence

import pytest

# What starts Python, torch or a browser again and again, and takes seconds for it: what takes longest stands first.
PROCESSES = (
    "tests/run/suite/test_session.py",
    "tests/job/ranks/",
    "tests/report/test_html_browser.py",
    "tests/cuda/",
    "tests/cli/test_main.py",
    "tests/cli/test_streams.py",
    "tests/cli/test_run.py",
    "tests/diagnose/test_jobs.py",
    "tests/run/suite/test_stopping.py",
    "tests/run/suite/test_leaving.py",
    "tests/newcomer/",
    "tests/e2e/",
    "tests/device/",
    "tests/run/suite/test_launch_files.py",
    "tests/run/test_folder.py",
    "tests/run/test_notify.py",
    "tests/reach/session/test_connection.py",
    "tests/reach/session/test_fleet.py",
    "tests/reach/session/test_hostile_nodes.py",
    "tests/cli/test_facts.py",
    "tests/cli/test_launch.py",
    "tests/cli/test_together.py",
    "tests/job/collect/test_subjects.py",
    "tests/node/agent/test_keeper.py",
    "tests/node/agent/test_lock.py",
    "tests/node/calls/",
    "tests/node/subjects/test_environment.py",
    "tests/run/test_history.py",
    "tests/run/test_turns.py",
    "tests/test_docs.py",
    "tests/test_figures.py",
    "tests/test_hooks.py",
    "tests/run/suite/test_plugin.py",
    "tests/test_scratch.py",
    "tests/test_second_try.py",
    "tests/testing/test_judged.py",
    "tests/judge/test_tampering.py",
    "tests/cli/test_spoken.py",
    "tests/diagnose/test_read.py",
    "tests/reach/session/test_pulse.py",
    "tests/reach/session/test_step.py",
    "tests/cli/test_explain.py",
    "tests/launch/owners/test_ask.py",
    "tests/launch/launchers/accelerate/test_schema.py",
    "tests/launch/test_refused.py::test_torchruns_options_are_those_of_its_own_parser",
    "tests/launch/test_fuzz.py::test_what_grows_as_it_is_expanded_is_bounded_while_it_does",
    "tests/node/sources/gpus/test_amd_health.py",
    "tests/reach/transport/test_ray_driver.py",
)

# What tries once more, through another launcher, at another moment or with another fault, a promise that tests beside
# it show; each takes many seconds. A run of all tests that names no marker leaves these to `pytest -m long`.
LONG = (
    "tests/cuda/test_on_lab_hosts.py::test_a_gpu_at_half_its_clock_is_named_with_the_reason",
    "tests/cuda/test_on_lab_hosts.py::test_a_rank_that_is_killed_or_stopped_is_named_and_every_log_is_kept[SIGSTOP",
    "tests/cuda/test_on_lab_hosts.py::test_a_slow_rail_is_named_by_pairs_of_ranks",
    "tests/cuda/test_on_lab_hosts.py::test_a_slow_rdma_port_is_named_by_ib_write_bw",
    "tests/cuda/test_on_lab_hosts.py::test_gpus_without_room_are_told_and_those_of_the_other_node_are_compared[memory1",
    "tests/cuda/test_standin.py::test_a_process_group_is_tied_to_its_gpu[train",
    "tests/cuda/test_standin.py::test_a_rank_alone_blames_no_other[train",
    "tests/cuda/test_standin.py::test_no_rank_leaves_while_another_still_receives[train",
    "tests/diagnose/test_jobs.py::test_a_job_that_was_made_to_fail_is_diagnosed[killed]",
    "tests/e2e/test_bandwidth.py::test_busbw_is_what_the_link_carries[3]",
    "tests/e2e/test_bench.py::test_a_rank_that_ends_or_hangs_is_named_with_its_node[stopped",
    "tests/e2e/test_bench.py::test_groups_of_ranks_are_told_apart[inter",
    "tests/e2e/test_bench.py::test_groups_of_ranks_are_told_apart[rails",
    "tests/e2e/test_examples.py::test_a_job_starts_behind_its_check[accelerate.sh]",
    "tests/e2e/test_examples.py::test_the_steps_of_the_workflow_run",
    "tests/e2e/test_first_lines.py::test_the_first_lines_lead_to_the_cause_and_mend_it[high ports",
    "tests/e2e/test_first_lines.py::test_the_first_lines_lead_to_the_cause_and_mend_it[impossible value",
    "tests/e2e/test_first_lines.py::test_the_first_lines_lead_to_the_cause_and_mend_it[interface that",
    "tests/e2e/test_first_lines.py::test_the_first_lines_lead_to_the_cause_and_mend_it[own name",
    "tests/e2e/test_first_lines.py::test_the_first_lines_lead_to_the_cause_and_mend_it[route to",
    "tests/e2e/test_first_lines.py::test_the_first_lines_lead_to_the_cause_and_mend_it[slip in",
    "tests/e2e/test_first_lines.py::test_the_first_lines_lead_to_the_cause_and_mend_it[wrong address",
    "tests/e2e/test_first_lines.py::test_what_no_line_mends_is_named_as_soon[another torch",
    "tests/e2e/test_first_lines.py::test_what_no_line_mends_is_named_as_soon[port held",
    "tests/e2e/test_fixes.py::test_what_a_run_prints_mends_what_it_found[plant_alone",
    "tests/e2e/test_fixes.py::test_what_a_run_prints_mends_what_it_found[plant_filters",
    "tests/e2e/test_fixes.py::test_what_a_run_prints_mends_what_it_found[plant_full_names",
    "tests/e2e/test_fixes.py::test_what_a_run_prints_mends_what_it_found[plant_names",
    "tests/e2e/test_guides.py::test_each_step_of_a_guide_is_told_when_it_is_wrong_and_not_when_it_is_right[accelerate",
    "tests/e2e/test_guides.py::test_each_step_of_a_guide_is_told_when_it_is_wrong_and_not_when_it_is_right[deepspeed",
    "tests/e2e/test_guides.py::test_each_step_of_a_guide_is_told_when_it_is_wrong_and_not_when_it_is_right[env",
    "tests/e2e/test_launch_files.py::test_a_guide_with_one_mistake_is_told_by_its_line[env",
    "tests/e2e/test_launch_files.py::test_a_guide_with_one_mistake_is_told_by_its_line[torchrun",
    "tests/e2e/test_launch_files.py::test_a_right_guide_starts_the_reference_job[env",
    "tests/e2e/test_launch_files.py::test_a_right_guide_starts_the_reference_job[torchrun]",
    "tests/e2e/test_launch_files.py::test_written_files_are_right_and_start_the_job[accelerate]",
    "tests/e2e/test_launch_files.py::test_written_files_are_right_and_start_the_job[torchrun]",
    "tests/e2e/test_nothing_is_left.py::test_a_controller_that_stands_still_leaves_nothing_and_is_not_green",
    "tests/e2e/test_nothing_is_left.py::test_a_killed_controller_leaves_nothing[0.5",
    "tests/e2e/test_nothing_is_left.py::test_a_killed_controller_leaves_nothing[0.8]",
    "tests/e2e/test_nothing_is_left.py::test_a_killed_controller_leaves_nothing[1.1",
    "tests/e2e/test_nothing_is_left.py::test_a_killed_controller_leaves_nothing[1.5]",
    "tests/e2e/test_nothing_is_left.py::test_a_killed_controller_leaves_nothing[12.0]",
    "tests/e2e/test_nothing_is_left.py::test_a_killed_controller_leaves_nothing[3.5]",
    "tests/e2e/test_nothing_is_left.py::test_a_killed_controller_leaves_nothing[7.0]",
    "tests/e2e/test_nothing_is_left.py::test_a_killed_controller_leaves_nothing[9.0]",
    "tests/e2e/test_nothing_is_left.py::test_a_stopped_run_cleans_up_before_it_ends[2-",
    "tests/e2e/test_orphans.py",
    "tests/e2e/test_planted_faults.py::test_a_fault_on_one_host_is_the_only_fail[gradient after]",
    "tests/e2e/test_planted_faults.py::test_a_fault_on_one_host_is_the_only_fail[slow link]",
    "tests/e2e/test_planted_faults.py::test_a_fault_on_one_host_is_the_only_fail[torch",
    "tests/e2e/test_planted_faults.py::test_faults_that_keep_no_job_from_running_are_the_only_fails",
    "tests/e2e/test_planted_faults.py::test_pruning_measures_the_good_hosts_and_stays_a_fail",
    "tests/e2e/test_pods.py::test_an_image_without_bash_and_tar_is_enough",
    "tests/e2e/test_ray.py::test_a_killed_controller_leaves_nothing[3.0",
    "tests/e2e/test_ray.py::test_the_example_trains_behind_go_and_never_behind_no_go[False",
    "tests/e2e/test_rehearse.py::test_a_fault_is_named_at_its_node_and_line[a lock",
    "tests/e2e/test_rehearse.py::test_a_healthy_start_goes[plain",
    "tests/e2e/test_rehearse_ends.py::test_a_cut_link_leaves_nothing",
    "tests/e2e/test_rehearse_ends.py::test_a_rehearsal_that_is_ended_leaves_nothing[2-1.0",
    "tests/e2e/test_rehearse_ends.py::test_a_rehearsal_that_is_ended_leaves_nothing[2-12.0",
    "tests/e2e/test_rehearse_ends.py::test_a_rehearsal_that_is_ended_leaves_nothing[2-3.0",
    "tests/e2e/test_rehearse_ends.py::test_a_rehearsal_that_is_ended_leaves_nothing[2-6.0",
    "tests/e2e/test_rehearse_ends.py::test_a_rehearsal_that_is_ended_leaves_nothing[9-1.0",
    "tests/e2e/test_rehearse_ends.py::test_a_rehearsal_that_is_ended_leaves_nothing[9-12.0",
    "tests/e2e/test_rehearse_ends.py::test_a_rehearsal_that_is_ended_leaves_nothing[9-3.0",
    "tests/e2e/test_rehearse_ends.py::test_a_script_that_ignores_signals_is_ended_too[15",
    "tests/e2e/test_rehearse_guides.py::test_the_start_of_a_guide_goes[diffsynth",
    "tests/e2e/test_rehearse_guides.py::test_the_start_of_a_guide_goes[minimind",
    "tests/e2e/test_rehearse_guides.py::test_the_start_of_a_guide_goes[sana",
    "tests/e2e/test_rehearse_inside.py::test_a_launcher_that_is_older_on_one_node",
    "tests/e2e/test_rehearse_launchers.py::test_a_script_for_each_node_with_its_number",
    "tests/e2e/test_rehearse_launchers.py::test_accelerate_on_one_node",
    "tests/e2e/test_rehearse_launchers.py::test_accelerate_on_two_nodes[c10d",
    "tests/e2e/test_rehearse_launchers.py::test_deepspeed[no_ssh",
    "tests/e2e/test_rehearse_launchers.py::test_mpirun_that_hands_on_what_it_is_told_to",
    "tests/e2e/test_rehearse_launchers.py::test_through_a_wrapper",
    "tests/e2e/test_rehearse_launchers.py::test_torchrun[module",
    "tests/e2e/test_rehearse_remote.py::test_a_node_that_cannot_log_in_to_itself[pdsh",
    "tests/e2e/test_rehearse_remote.py::test_a_node_that_cannot_log_in_to_itself[ssh",
    "tests/e2e/test_rehearse_remote.py::test_a_start_over_ssh_goes[pdsh",
    "tests/e2e/test_rehearse_remote.py::test_a_start_over_ssh_goes[ssh",
    "tests/e2e/test_rehearse_remote.py::test_pdsh_that_is_missing_on_the_first_node[pdsh",
    "tests/e2e/test_rehearse_slurm.py::test_a_batch_script_is_submitted_with_its_own_lines[srun",
    "tests/e2e/test_rehearse_slurm.py::test_a_killed_controller_leaves_no_job_and_no_step[2.0",
    "tests/e2e/test_rehearse_slurm.py::test_a_killed_controller_leaves_no_job_and_no_step[6.0",
    "tests/e2e/test_rehearse_slurm.py::test_a_limit_of_the_batch_shell_alone_is_named",
    "tests/e2e/test_rehearse_slurm.py::test_a_variable_that_a_quoted_body_does_not_know",
    "tests/e2e/test_reuse.py::test_a_path_that_became_slow_is_measured_again[slow_rule",
    "tests/e2e/test_reuse.py::test_a_path_that_became_slow_is_measured_again[slow_switch",
    "tests/e2e/test_slurm.py::test_a_batch_script_starts_its_job_on_good_nodes_only",
    "tests/e2e/test_slurm.py::test_a_daemon_of_slurm_that_is_started_again_in_mid_run_changes_nothing",
    "tests/e2e/test_slurm.py::test_a_heterogeneous_job_is_read_whole",
    "tests/e2e/test_slurm.py::test_a_job_that_is_requeued_is_checked_anew",
    "tests/e2e/test_slurm.py::test_a_node_that_dies_in_mid_run_is_named",
    "tests/e2e/test_slurm.py::test_a_node_whose_slurmd_is_gone_is_told_and_the_others_are_judged",
    "tests/e2e/test_slurm.py::test_a_time_limit_that_ends_the_job_says_so",
    "tests/e2e/test_slurm.py::test_our_step_has_every_gpu_that_the_job_has_on_its_node[by node",
    "tests/e2e/test_slurm.py::test_our_step_has_every_gpu_that_the_job_has_on_its_node[by task",
    "tests/e2e/test_slurm.py::test_the_prolog_drains_a_bad_node_and_slurm_requeues_the_job",
    "tests/e2e/test_slurm.py::test_the_ranks_get_what_the_allocation_gives_a_task[of torchrun]",
    "tests/e2e/test_together.py::test_a_node_that_is_lost_in_mid_run_costs_its_own_verdicts",
    "tests/e2e/test_together.py::test_under_torchrun_a_fault_is_found_and_every_rank_leaves_with_the_verdict",
    "tests/e2e/test_training.py::test_a_host_that_spoils_the_job_is_the_only_fail[port filtered]",
    "tests/e2e/test_training.py::test_a_host_that_spoils_the_job_is_the_only_fail[slow]",
    "tests/e2e/test_training.py::test_a_host_that_spoils_the_job_is_the_only_fail[wrong",
    "tests/e2e/test_training.py::test_a_seed_that_differs_is_told_by_its_shards",
    "tests/e2e/test_training.py::test_a_spoilt_rank_is_the_only_fail[nan]",
    "tests/e2e/test_training.py::test_a_spoilt_rank_is_the_only_fail[same rank]",
    "tests/e2e/test_training.py::test_a_spoilt_rank_is_the_only_fail[shard]",
    "tests/e2e/test_training.py::test_a_spoilt_rank_is_the_only_fail[stopped]",
    "tests/e2e/test_training.py::test_the_job_passes_through_accelerate",
    "tests/e2e/test_training.py::test_the_job_passes_through_each_launcher[direct",
    "tests/e2e/test_training.py::test_the_job_passes_through_each_launcher[env",
    "tests/e2e/test_training.py::test_the_job_passes_through_each_launcher[mpirun",
    "tests/e2e/test_training.py::test_the_job_passes_through_each_launcher[ray",
    "tests/e2e/test_training.py::test_the_job_passes_through_each_launcher[torchrun",
    "tests/e2e/test_words.py::test_a_hostfile_gives_slots_and_the_wrap_holds_the_job",
    "tests/e2e/test_words.py::test_what_a_finished_run_stored_is_judged_again_without_contact",
    "tests/field/test_healthy_lab.py",
    "tests/job/ranks/test_train.py::test_the_same_seed_gives_the_same_curve_again",
    "tests/job/ranks/test_train.py::test_every_option_trains_as_one_process_does[2-",
    "tests/job/ranks/test_train.py::test_every_option_trains_as_one_process_does[4-",
    "tests/reach/session/test_hostile_nodes.py::test_a_node_that_is_silent_in_a_round_of_shared_paths_costs_nobody_else_the_folders[read",
    "tests/reach/session/test_hostile_nodes.py::test_a_node_that_is_silent_in_a_round_of_shared_paths_costs_nobody_else_the_folders[written",
    "tests/reach/session/test_hostile_nodes.py::test_a_node_that_lies_about_its_streams_makes_no_other_look_slow[round.belittling",
    "tests/report/test_html_browser.py::test_a_hostile_name_stays_text[all]",
    "tests/run/test_turns.py::test_three_percent_of_bad_nodes_cost_the_others_neither_verdict_nor_time",
    "tests/twins/test_over_ssh.py::test_a_platform_is_judged_over_ssh[l40s]",
)


def kind(item: pytest.Item) -> str:
    """One of the markers unit, process and lab."""
    if "lab_is_possible" in getattr(item, "fixturenames", ()):
        return "lab"
    return "process" if item.nodeid.startswith(PROCESSES) else "unit"


def has_no_unit_test(path: str) -> bool:
    """Whether a file or folder, from the root, holds tests that start processes and no others."""
    return path.startswith(PROCESSES) or f"{path}/" in PROCESSES


def leave_long_out(config: pytest.Config) -> None:
    """Let a run of the whole suite, or of a kind of it, do without what is marked `long` and not asked for."""
    option = config.option
    is_part = config.args_source is pytest.Config.ArgsSource.ARGS or option.keyword or config.getoption("lf", False)
    if not is_part and "long" not in option.markexpr:
        option.markexpr = f"({option.markexpr}) and not long" if option.markexpr else "not long"


def is_about_units(words: str) -> bool:
    """Whether a run of these markers takes no test that starts processes."""
    return words in ("unit", "(unit) and not long")


def is_long(item: pytest.Item) -> bool:
    """Is it one more sample of what other tests show?"""
    return item.nodeid.startswith(LONG)


def is_exclusive(item: pytest.Item) -> bool:
    """Must no other test run meanwhile?"""
    return item.get_closest_marker("exclusive") is not None


def in_order(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests as workers take them: what takes long first, and what must run alone at the end.

    A test of the lab waits half of its time, and what starts processes never does: both are dealt out in turn, so that
    the processors have work meanwhile.
    """
    of_kind: dict[str, list[pytest.Item]] = {"process": [], "lab": [], "unit": [], "exclusive": []}
    for item in items:
        of_kind["exclusive" if is_exclusive(item) else kind(item)].append(item)
    of_kind["process"].sort(key=_seat_among_processes)
    dealt = [
        (place / len(of_kind[name]), item) for name in ("process", "lab") for place, item in enumerate(of_kind[name])
    ]
    dealt.sort(key=lambda turn: turn[0])
    return [*(item for _, item in dealt), *of_kind["unit"], *of_kind["exclusive"]]


def _seat_among_processes(item: pytest.Item) -> int:
    return next(seat for seat, path in enumerate(PROCESSES) if item.nodeid.startswith(path))
