"""Which rules about launch files are there, and with which verdicts? Every finding about such a file names one."""

from __future__ import annotations

from collections.abc import Mapping

VERDICTS: Mapping[str, tuple[str, ...]] = {
    "adapters_are_adapters": ("fail", "warn"),
    "batch_script_is_read": ("fail", "warn"),
    "batch_sizes_multiply": ("fail",),
    "commands_are_continued": ("fail",),
    "compile_finds_a_compiler": ("fail",),
    "config_files_are_read": ("fail",),
    "config_files_are_there": ("fail",),
    "containers_get_the_variables": ("warn",),
    "containers_have_shared_memory": ("warn",),
    "containers_lock_memory": ("warn",),
    "containers_share_the_network": ("fail",),
    "counts_are_positive": ("fail",),
    "cpu_ranks_form_one_world": ("fail", "warn"),
    "cuda_launches_do_not_block": ("warn",),
    "data_is_no_lfs_pointer": ("fail",),
    "devices_come_from_their_plugin": ("warn",),
    "deepspeed_finds_its_python": ("fail",),
    "deepspeed_hands_variables_on": ("warn",),
    "deepspeed_reaches_every_machine": ("fail",),
    "deepspeed_tells_the_right_address": ("fail",),
    "entrypoint_runs_in_the_cluster": ("fail",),
    "environment_file_lines_are_read": ("fail",),
    "every_node_has_its_file": ("fail",),
    "every_node_is_started": ("fail",),
    "exports_agree": ("fail", "warn"),
    "fields_agree": ("fail",),
    "file_is_judged": ("skip",),
    "files_are_judged": ("error", "pass"),
    "folders_are_entered": ("fail",),
    "gang_is_the_whole_job": ("fail", "warn"),
    "gpu_requests_equal_limits": ("fail",),
    "headless_service_is_there": ("fail", "warn"),
    "host_network_resolves_names": ("fail",),
    "hostfile_and_filters_agree": ("fail", "warn"),
    "hostfile_is_the_hosts": ("fail", "warn"),
    "hostfile_lines_are_read": ("fail", "warn"),
    "hostfile_names_a_host_once": ("fail",),
    "hostfile_slots_fit_gpus": ("fail",),
    "images_agree": ("warn",),
    "interface_leads_to_other_nodes": ("fail",),
    "interfaces_are_the_pods": ("fail", "warn"),
    "jobs_are_told_apart": ("skip",),
    "keys_are_indented": ("fail",),
    "keys_are_known": ("fail", "warn"),
    "keys_stand_once": ("warn",),
    "launcher_reaches_every_host": ("fail",),
    "letters_are_plain": ("fail", "warn"),
    "limits_are_those_of_slurmd": ("skip",),
    "local_rank_is_not_fixed": ("fail",),
    "manifest_is_accepted": ("fail",),
    "master_address_is_an_address": ("fail", "warn"),
    "master_address_is_given": ("fail",),
    "master_address_is_on_the_training_interface": ("warn",),
    "master_address_is_rank_0s": ("fail", "warn"),
    "master_address_is_the_same_everywhere": ("fail", "warn"),
    "master_address_leads_to_rank_0": ("fail", "warn"),
    "master_is_one_pod": ("fail",),
    "master_port_is_free": ("fail",),
    "master_port_is_not_ephemeral": ("warn",),
    "master_port_is_the_same_everywhere": ("fail",),
    "master_port_is_valid": ("fail", "warn"),
    "model_parallelism_fits": ("fail",),
    "mpi_hands_variables_on": ("warn",),
    "mpi_slots_are_enough": ("fail", "warn"),
    "nccl_variables_are_known": ("warn",),
    "nccl_variables_are_safe": ("warn",),
    "no_proxy_between_the_pods": ("warn",),
    "nodes_are_counted_right": ("fail",),
    "nodes_are_granted": ("fail", "warn"),
    "nodes_are_the_hosts": ("fail",),
    "nodes_start_together": ("warn",),
    "num_machines_is_given": ("fail",),
    "num_processes_are_started": ("fail", "warn"),
    "num_processes_divides": ("fail",),
    "num_processes_is_given": ("fail",),
    "numbers_are_numbers": ("fail",),
    "offload_fits_memory": ("warn",),
    "operator_finds_its_container": ("fail",),
    "options_are_known": ("fail",),
    "options_stand_before_the_program": ("fail",),
    "options_stand_once": ("warn",),
    "outside_variables_are_set": ("fail", "warn"),
    "own_addresses_differ": ("fail",),
    "owner_accepts_it": ("fail",),
    "packages_are_there": ("fail",),
    "parallelism_fits_num_processes": ("fail",),
    "paths_are_on_every_node": ("fail",),
    "placeholders_are_filled_in": ("fail", "warn"),
    "pods_have_shared_memory": ("warn",),
    "pods_know_their_rank": ("fail", "warn"),
    "policies_let_pods_talk": ("fail",),
    "precision_fits_gpus": ("fail",),
    "processes_agree": ("warn",),
    "processes_divide_by_nodes": ("fail",),
    "processes_fit_gpus": ("fail", "warn"),
    "processes_match_devices": ("fail", "warn"),
    "program_counts_what_is_started": ("warn",),
    "program_keeps_what_it_is_given": ("fail", "warn"),
    "programs_agree": ("warn",),
    "rank_0_is_reached": ("fail", "error"),
    "rank_is_in_range": ("fail",),
    "rank_is_read_where_it_is_set": ("fail",),
    "program_is_given": ("fail",),
    "ranks_are_distinct": ("fail",),
    "ray_jobs_reach_the_dashboard": ("fail",),
    "ray_nodes_meet": ("fail",),
    "ray_start_is_accepted": ("fail",),
    "rendezvous_endpoint_is_recognised": ("fail",),
    "rendezvous_id_is_the_same_everywhere": ("fail", "warn"),
    "rendezvous_is_reached": ("fail",),
    "resources_are_enough": ("fail", "warn"),
    "runtime_is_there": ("warn",),
    "same_network_fits_the_rendezvous": ("fail",),
    "scontrol_runs_outside_the_container": ("fail",),
    "script_is_bash": ("fail", "skip"),
    "servers_tell_the_right_address": ("warn",),
    "services_find_rank_0": ("fail",),
    "settings_fit_the_zero_stage": ("warn",),
    "settings_have_an_effect": ("warn",),
    "slurm_nodes_fit_the_job": ("fail", "warn"),
    "slurm_numbers_multiply": ("fail", "warn"),
    "slurm_tasks_are_counted_once": ("fail",),
    "slurm_tasks_fit_the_job": ("fail",),
    "slurm_tasks_have_cpus": ("warn",),
    "slurm_tasks_see_their_gpus": ("fail", "warn"),
    "stack_options_count": ("warn",),
    "static_rendezvous_has_node_ranks": ("fail", "warn"),
    "tasks_are_counted_once": ("fail",),
    "tensor_parallel_stays_in_a_node": ("warn",),
    "torchrun_is_forced": ("warn",),
    "values_are_allowed": ("fail", "warn"),
    "variables_are_assigned": ("fail", "warn"),
    "variables_are_exported": ("fail", "warn"),
    "variables_are_set": ("fail", "warn"),
    "variables_are_texts": ("fail",),
    "variables_fit_the_nodes": ("fail",),
    "variables_have_values_that_count": ("fail", "warn"),
    "versions_are_the_same": ("fail",),
    "versions_start_the_job": ("fail",),
    "world_size_counts_processes": ("fail", "warn"),
    "yaml_values_are_as_meant": ("fail",),
}

# What each asks is said by the docstring of the function that finds it broken; of these by no single one.
TEXTS: Mapping[str, str] = {
    "cuda_launches_do_not_block": "CUDA_LAUNCH_BLOCKING=1 is for debugging: every kernel waits for the one before.",
    "config_files_are_read": (
        "A configuration is YAML or JSON as its format's own reader wants it.\n\n"
        "Where it is not, what reads it stops, on every node."
    ),
    "fields_agree": (
        "What every node's file must say alike, it says alike: address, port, counts, precision, backend.\n\n"
        "With different values the nodes never meet, or one of them stops."
    ),
    "file_is_judged": "What is not judged is said, with the reason: a start read in part, a file of no launcher.",
    "files_are_judged": "In a run with launch files: every start in them was read and could be judged.",
    "devices_come_from_their_plugin": (
        "A pod gets its adapters from the device plugin alone.\n\n"
        "Files of other devices beside them, which it may not open, hide its own from libfabric."
    ),
    "interface_leads_to_other_nodes": (
        "NCCL and Gloo are not told to use an interface that no other node is reached through, as lo or docker0."
    ),
    "keys_are_indented": (
        "The keys of a nested block are indented.\n\n"
        "At the margin they are keys of the file itself: what they were to set stays at its default."
    ),
    "keys_are_known": (
        "Every key of an accelerate or DeepSpeed file is one that its reader has.\n\n"
        "Another is refused, or a misspelled one silently left out."
    ),
    "master_address_is_on_the_training_interface": "The address of rank 0 is one of the training interface.",
    "mpi_hands_variables_on": (
        "mpirun hands the variables of the script on to other nodes only where it is told to, by -x or --envall."
    ),
    "nodes_are_granted": "PBS or LSF gives the script as many nodes as the job counts on.",
    "nccl_variables_are_known": (
        "Every variable of NCCL, torch and Gloo in the files is one that a library reads.\n\n"
        "A misspelled or removed name has no effect and gives no message."
    ),
    "nccl_variables_are_safe": (
        "No variable is left over from troubleshooting: in the files, or in a /etc/nccl.conf that no file shows.\n\n"
        "They switch fast paths off or log every call; the checks of a run warn of the same ones."
    ),
    "outside_variables_are_set": (
        "A variable that a start reads is set: by the script, a given file, the launcher, the scheduler or "
        "the platform.\n\n"
        "One that nothing sets is empty: the start stops, or every node takes itself for rank 0's."
    ),
    "owner_accepts_it": (
        "The parser that will read a command line or a configuration takes it: that of the installed torch, "
        "accelerate, DeepSpeed, transformers, hydra or Ray, and bash's.\n\n"
        "It is asked where the job's Python has it, in a process of its own that starts nothing."
    ),
    "policies_let_pods_talk": "The network policies of a manifest let the pods of the job reach each other.",
    "placeholders_are_filled_in": (
        "What has to be real was filled in: account, partition, folders, programs, images, addresses.\n\n"
        "A placeholder is refused, or the job runs elsewhere than meant."
    ),
    "rank_0_is_reached": "Every node of the job reaches the port of rank 0 that the files name.",
    "resources_are_enough": (
        "There are as many nodes and GPUs as are counted on, whoever gives and whoever takes them.\n\n"
        "A program waits for what nobody gives it until it times out, or stops at once."
    ),
    "scontrol_runs_outside_the_container": "scontrol is there on the node, and hardly ever inside a container.",
    "versions_start_the_job": "The versions that are installed start a job as the files ask for it.",
    "variables_have_values_that_count": (
        "Every variable holds a value that the library can read, and one that can be right.\n\n"
        "NCCL goes on with its default, torch stops. Where the job runs all the same (logs, threads) it is a warning."
    ),
    "slurm_tasks_are_counted_once": "srun starts the launcher once a task, and the launcher a process for each GPU.",
}
