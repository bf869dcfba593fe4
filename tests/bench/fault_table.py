"""Which fault of a cluster is tried by which test, and which is not, and why?"""

from __future__ import annotations

from dataclasses import dataclass

PLANTED = "tests/bench/faults.py"
HOSTILE = "tests/bench/hostile.py"
ATTACKS = "tests/bench/attacks.py"


@dataclass(frozen=True)
class Fault:
    """A fault, the tests that plant it (file::function, or a command's file), or why none does."""

    title: str
    tests: tuple[str, ...] = ()
    why_not: str = ""


def by(title: str, *tests: str) -> Fault:
    """A fault that is tried."""
    return Fault(title, tests)


def not_yet(title: str, why: str) -> Fault:
    """A fault that no test plants."""
    return Fault(title, why_not=why)


LET_IN = "tests/e2e/test_core_faults.py::test_hosts_that_let_nobody_in_are_named_and_the_others_are_judged"
SESSION = "tests/reach/session/test_connection.py"
FLEET = "tests/reach/session/test_fleet.py"
ORPHANS = "tests/e2e/test_orphans.py::test_nothing_outlives_who_ran_the_job"
LEFT = "tests/e2e/test_nothing_is_left.py"
PLANTS = "tests/e2e/test_planted_faults.py"
FRAMES = "tests/node/agent/test_frames.py"
STRICT = "tests/node/agent/test_strict.py"
KEEPER = "tests/node/agent/test_keeper.py"
MESH = "tests/node/calls/test_mesh.py"
STREAM = "tests/node/calls/test_stream.py"
BENCH = "tests/e2e/test_bench.py"
TRAIN = "tests/e2e/test_training.py"
JUDGED = "tests/run/suite/test_session.py"
LEAVING = "tests/run/suite/test_leaving.py"
STOPPING = "tests/run/suite/test_stopping.py"
RECORDS = "tests/job/start/test_records.py"
SLURM = "tests/e2e/test_slurm.py"
NODES = "tests/reach/session/test_hostile_nodes.py::test_hostile_nodes_cost_themselves_alone"
LIES = "tests/reach/session/test_replies.py::test_nonsense_is_read_or_is_a_bad_reply_and_never_anything_else"
NO_RIG = "the lab has no rig for it"

# Those that are tried before every change lands, and left out nowhere that the lab is required.
CORE_OF = {
    "A": (2, 4, 6, 7, 10, 11, 13, 21),
    "B": (1, 4, 6, 7, 8, 9, 11, 12, 13, 16),
    "C": (1, 4, 6, 11, 12),
    "D": (1, 4, 5, 6, 7, 10, 14),
    "E": (1, 2, 3, 4, 5),
    "F": (1, 2, 3, 4, 8, 10, 14),
    "G": (1, 5, 7),
    "H": (1, 3, 5, 6, 9),
}
CORE = tuple(f"{kind}{number}" for kind, numbers in CORE_OF.items() for number in numbers)
TABLE: dict[str, Fault] = {
    "A1": by("host down", PLANTED, f"{PLANTS}::test_an_unreachable_host_is_an_error_and_the_others_are_judged"),
    "A2": by("port 22 dropped", PLANTED, LET_IN),
    "A3": by("port 22 rejected", PLANTED),
    "A4": by("sshd accepts, no banner", PLANTED, f"{LEFT}::test_a_stopped_sshd_costs_its_host_alone"),
    "A5": by("key exchange stalls", PLANTED),
    "A6": by("authentication stalls", LET_IN),
    "A7": by("login shell hangs", PLANTED, LET_IN, f"{FLEET}::test_hosts_answer_while_another_hangs"),
    "A8": by("authentication refused", PLANTED, f"{FLEET}::test_only_what_may_pass_is_tried_again_and_not_for_ever"),
    "A9": by("locked account", PLANTED, f"{FLEET}::test_what_a_login_says_on_standard_output_is_told"),
    "A10": by("host key changed", "tests/reach/transport/test_ssh.py::test_what_ssh_says_is_told_with_what_to_do"),
    "A11": by(
        "host key unknown", PLANTED, "tests/reach/transport/test_ssh.py::test_host_keys_are_checked_as_the_user_says"
    ),
    "A12": by("prompts", "tests/reach/transport/test_ssh.py::test_ssh_is_called_exactly_so"),
    "A13": by("MaxStartups", f"{FLEET}::test_a_connection_that_is_closed_early_is_tried_again"),
    "A14": not_yet("PerSourcePenalties", "needs sshd 9.8; Debian 12 has 9.2"),
    "A15": by("DNS slow or failing", PLANTED),
    "A16": by("own name is loopback", f"{PLANTS}::test_a_fault_on_one_host_is_the_only_fail"),
    "A17": not_yet("IPv6-only host", "facts and selection have it as made-up nodes; the lab has IPv4 links"),
    "A18": by("jump host down", "tests/run/test_jumps.py::test_a_silent_jump_host_is_named_for_all_nodes_behind_it"),
    "A19": by(
        "remote 255 and missing programs",
        "tests/reach/transport/test_ssh.py::test_another_exit_code_is_the_commands_own",
    ),
    "A20": by("hostile ssh config", "tests/reach/transport/test_ssh.py::test_ssh_is_called_exactly_so"),
    "A21": by("cut in mid-frame", f"{FRAMES}::test_a_cut_frame_gives_nothing", HOSTILE),
    "A22": not_yet("slow link", "links of the lab have a rate; latency needs netem, which its kernel lacks"),
    "B1": by("noise around frames", PLANTED, f"{SESSION}::test_noise_before_the_frames_is_kept_and_not_parsed"),
    "B2": by("frames of another run", f"{FRAMES}::test_a_frame_of_another_run_is_noise"),
    "B3": by("no UTF-8", HOSTILE, f"{FRAMES}::test_any_bytes_are_messages_noise_or_a_frame_error"),
    "B4": by("floods", PLANTED, HOSTILE, NODES),
    "B5": by("slow drip", PLANTED, HOSTILE),
    "B6": by("lengths that lie", f"{FRAMES}::test_a_lying_header_is_an_error_at_once", HOSTILE),
    "B7": by("nesting", f"{STRICT}::test_only_strict_json_objects_are_messages", HOSTILE),
    "B8": by("NaN, infinities, digits", f"{STRICT}::test_only_strict_json_objects_are_messages", HOSTILE),
    "B9": by("duplicate keys", f"{STRICT}::test_only_strict_json_objects_are_messages", HOSTILE),
    "B10": by("wrong keys and types", LIES, NODES, HOSTILE),
    "B11": by("escape sequences", HOSTILE, "tests/report/test_hostile.py"),
    "B12": by("markup of other formats", "tests/report/test_hostile.py", HOSTILE),
    "B13": by("commands of CI systems", "tests/report/test_hostile.py", HOSTILE),
    "B14": not_yet("stdout of a TaskProlog", "preflight is no TaskProlog; the example of a prolog is run as it is"),
    "B15": by(
        "claims about others",
        "tests/reach/session/test_replies.py::test_a_node_cannot_aim_its_peers_elsewhere",
        RECORDS,
    ),
    "B16": by("no end frame, two ends", HOSTILE, NODES),
    "B17": by("clock", f"{KEEPER}::test_a_ping_is_answered_with_the_nodes_clock", HOSTILE),
    "C1": by("no Python", f"{SESSION}::test_no_python_is_said_with_what_to_do"),
    "C2": by("old Python", f"{SESSION}::test_an_old_python_is_named_with_its_version"),
    "C3": by("hostile modules", f"{SESSION}::test_a_stranger_by_the_same_name_is_never_loaded"),
    "C4": by("broken torch", f"{PLANTS}::test_a_fault_on_one_host_is_the_only_fail"),
    "C5": by("versions that differ", f"{PLANTS}::test_a_fault_on_one_host_is_the_only_fail"),
    "C6": by("disk full on a node", LET_IN),
    "C7": by("read-only and noexec", "tests/node/calls/test_files.py"),
    "C8": by("no /dev/shm", "tests/node/subjects/test_limits.py::test_a_node_without_shared_memory_says_so"),
    "C9": by("limits", f"{PLANTS}::test_a_fault_on_one_host_is_the_only_fail"),
    "C10": by("CPU quota", f"{TRAIN}::test_a_host_that_spoils_the_job_is_the_only_fail"),
    "C11": by("nvidia-smi broken", "tests/node/agent/test_programs.py::test_a_program_that_hangs_is_stopped"),
    "C12": by(
        "file system hangs", "tests/node/agent/test_within.py::test_a_question_without_an_answer_costs_its_time_only"
    ),
    "C13": by("hidepid, no /sys", PLANTED),
    "C14": by("zombie storm", PLANTED),
    "C15": by("locales", PLANTED),
    "C16": by("hostile environment", f"{SESSION}::test_dropped_variables_do_not_reach_the_job"),
    "C17": by("bare userland", PLANTED),
    "C18": not_yet("reboot in mid-run", "as a lost connection: F3 and A21"),
    "D1": by("one direction dropped", f"{PLANTS}::test_a_fault_on_one_host_is_the_only_fail"),
    "D2": not_yet("one port rejected", "ports are random and differ in each run"),
    "D3": by("mesh isolated, ssh not", f"{PLANTS}::test_a_fault_on_one_host_is_the_only_fail"),
    "D4": by("port held", f"{PLANTS}::test_a_held_master_port_is_named_with_its_holder"),
    "D5": by("somebody else answers", f"{MESH}::test_a_peer_of_another_run_is_never_ok"),
    "D6": by("a stopped peer accepts", "tests/node/calls/test_attempt.py"),
    "D7": by("self-connect", "tests/node/calls/test_attempt.py"),
    "D8": by("looped address", "tests/node/calls/test_attempt.py"),
    "D9": by("MTU black hole", f"{PLANTS}::test_a_fault_on_one_host_is_the_only_fail"),
    "D10": by("peer vanishes", f"{MESH}::test_the_call_ends_at_its_deadline_when_an_expected_peer_never_comes"),
    "D11": not_yet("loss, reordering", "needs netem, which the lab's kernel lacks"),
    "D12": by("slow node", "tests/e2e/test_bandwidth.py::test_busbw_is_what_the_link_carries"),
    "D13": by("interface down", f"{LEFT}::test_a_cut_link_leaves_nothing"),
    "D14": by("cut in mid-run", f"{LEFT}::test_a_cut_link_leaves_nothing"),
    "D15": by("no ephemeral port", PLANTED),
    "D16": by("slowloris", f"{MESH}::test_garbage_floods_and_silent_strangers_do_not_keep_a_peer_out"),
    "D17": by("strangers", f"{STREAM}::test_strangers_are_dropped_and_the_sender_is_still_measured"),
    "D18": not_yet("NAT", NO_RIG),
    "D19": by("two interfaces", f"{PLANTS}::test_an_interface_only_the_others_have_is_named"),
    "D20": by("many peers", f"{MESH}::test_many_peers_at_once"),
    "E1": by("a rank never starts", f"{TRAIN}::test_a_host_that_spoils_the_job_is_the_only_fail[wrong interface]"),
    "E2": by("a rank is killed", f"{BENCH}::test_a_rank_that_ends_or_hangs_is_named_with_its_node"),
    "E3": by("a rank is stopped", f"{BENCH}::test_a_rank_that_ends_or_hangs_is_named_with_its_node"),
    "E4": by("a host is lost in a job", f"{LEFT}::test_a_cut_link_leaves_nothing"),
    "E5": by("wrong sums", f"{BENCH}::test_a_wrong_element_is_counted_and_fails"),
    "E6": by("slow rank", f"{TRAIN}::test_a_host_that_spoils_the_job_is_the_only_fail"),
    "E7": by("master port taken", f"{PLANTS}::test_a_held_master_port_is_named_with_its_holder"),
    "E8": not_yet("strangers on TCPStore", "it is torch's own, without authentication: SECURITY.md"),
    "E9": by("loopback fallback", f"{PLANTS}::test_a_fault_on_one_host_is_the_only_fail"),
    "E10": by("figures that cannot be", f"{RECORDS}::test_what_no_rank_was_asked_for_is_a_bad_reply_of_its_node"),
    "E11": not_yet("teardown hangs", "ranks leave without a teardown"),
    "E12": by("leftovers of a job", f"{LEFT}::test_a_killed_controller_leaves_nothing"),
    "F1": by("INT", f"{JUDGED}::test_a_signal_leaves_a_report_and_its_own_code", STOPPING),
    "F2": by("TERM, HUP", f"{JUDGED}::test_a_signal_leaves_a_report_and_its_own_code", "tests/bench/ending.py"),
    "F3": by("SIGKILL", f"{LEFT}::test_a_killed_controller_leaves_nothing", ORPHANS),
    "F4": by(
        "the controller stands still",
        PLANTED,
        f"{LEFT}::test_a_controller_that_stands_still_leaves_nothing_and_is_not_green",
    ),
    "F5": by("report cannot be written", f"{JUDGED}::test_an_unwritable_report_is_an_error"),
    "F6": by("standard output closed", "tests/cli/test_streams.py"),
    "F7": by(
        "two runs",
        f"{LEFT}::test_a_second_run_is_told_that_the_nodes_are_busy",
        f"{FLEET}::test_of_two_runs_of_one_moment_the_later_lets_go_of_every_node",
    ),
    "F8": by("one machine twice", "tests/e2e/test_words.py::test_one_machine_under_two_names_is_told"),
    "F9": by("host lists", "tests/reach/test_hosts.py"),
    "F10": by(
        "5,000 hosts",
        "tests/bench/scale.py",
        "tests/run/test_turns.py::test_with_few_files_all_nodes_are_judged_and_the_bad_ones_named",
    ),
    "F11": by("few descriptors", f"{FLEET}::test_as_many_nodes_are_connected_at_a_time_as_files_may_be_open"),
    "F12": not_yet("a local child in D state", NO_RIG),
    "F13": not_yet("wall clock stepped", "all deadlines are monotonic; a namespace cannot step the wall clock"),
    "F14": by("checks that break or leave", f"{JUDGED}::test_whatever_a_check_does_it_is_not_green", LEAVING),
    "F15": by("foreign configuration", f"{JUDGED}::test_preflight_run_ignores_the_configuration_around_it"),
    "F16": by("hostile settings", "tests/judge/test_settings.py"),
    "G1": by("Slurm kills the prolog", f"{LEFT}::test_a_killed_controller_leaves_nothing", ORPHANS),
    "G2": by("bare environment", PLANTED),
    "G3": by("srun", f"{SLURM}::test_a_node_whose_slurmd_is_gone_is_told_and_the_others_are_judged"),
    "G4": not_yet("srun and INT", "INT is sent to no run over srun"),
    "G5": by("kubectl", "tests/e2e/test_kubernetes.py"),
    "G6": by("TERM by Kubernetes", f"{LEFT}::test_a_stopped_run_cleans_up_before_it_ends"),
    "G7": by("common outage", "tests/judge/test_unreached.py::test_reasons_that_differ_in_the_nodes_own_name_are_one"),
    "G8": by("real Slurm", f"{SLURM}::test_a_time_limit_that_ends_the_job_says_so"),
    "G9": not_yet("size limits of CI logs", NO_RIG),
    "G10": by(
        "leftovers of a crash",
        "tests/node/agent/test_scratch.py::test_what_a_killed_run_left_is_swept_and_what_a_living_one_holds_is_not",
    ),
    "H1": by("hostile host names", "tests/reach/transport/test_ssh.py::test_hostile_names_never_become_a_command"),
    "H2": by("metacharacters", "tests/reach/transport/test_loader.py::test_the_loader_needs_no_quoting"),
    "H3": by("paths from a node", "tests/run/test_folder.py"),
    "H4": by("archives and pickles", "tests/test_architecture.py::test_nothing_dangerous_is_called"),
    "H5": by("templates in facts", "tests/report/test_hostile.py"),
    "H6": by("paths that others made", ATTACKS, "tests/node/agent/test_scratch.py"),
    "H7": by(
        "local listeners and files", ATTACKS, "tests/node/calls/test_ranks.py::test_another_user_speaks_for_no_rank"
    ),
    "H8": by("forged echoes", f"{MESH}::test_a_peer_of_another_run_is_never_ok"),
    "H9": by("planted secrets", "tests/said/test_redact.py"),
    "H10": by(
        "hostile settings in a PR",
        "tests/job/options/test_launch.py::test_settings_that_lie_in_the_folder_hold_and_are_said",
    ),
    "H11": by("floods by many nodes", HOSTILE, "tests/reach/session/test_budget.py"),
    "H12": by("forwardings", "tests/reach/transport/test_ssh.py::test_ssh_is_called_exactly_so"),
    "H13": not_yet("open ssh files", "ssh itself refuses keys that others can read"),
    "H14": by("known weaknesses of packages", "tests/test_contributing.py"),
}


def run_by_pytest(name: str) -> list[str]:
    """The tests of a fault that pytest runs."""
    return [test for test in TABLE[name].tests if test.partition("::")[0].rpartition("/")[2].startswith("test_")]


def must_run(nodeid: str) -> bool:
    """Whether a test tries a fault of the core."""
    named = {test for name in CORE for test in run_by_pytest(name)}
    return bool({nodeid, nodeid.partition("[")[0], nodeid.partition("::")[0]} & named)


def table_text() -> str:
    """A line a fault, and the sums."""
    lines = [
        f"{'core' if name in CORE else '':5}{name:4} {fault.title:34} "
        + (", ".join(fault.tests) if fault.tests else f"not tried: {fault.why_not}")
        for name, fault in TABLE.items()
    ]
    tried = sum(bool(fault.tests) for fault in TABLE.values())
    core = sum(bool(run_by_pytest(name)) for name in CORE)
    sums = f"{len(TABLE)} faults, {tried} tried, {len(TABLE) - tried} not; {core} of {len(CORE)} of the core by a test"
    return "\n".join([*lines, sums])
