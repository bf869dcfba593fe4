"""Which rows of commands has a test run on the fault that they are for, and what is said of the others?

Each of these was planted on hosts of a lab, its command typed as printed: the check was green after it, no other was
worse, and typing it twice was the same as once. The rest is shown as a comment that says so: it needs hardware, a
driver or a service that no lab has.
"""

TRIED = frozenset(
    {
        "environment.a_persons_shell_has_the_variables_of_the_job",
        "environment.nothing_is_left_from_debugging",
        "environment.other_variables_are_the_same_on_every_node",
        "environment.proxies_leave_the_peers_out",
        "environment.values_are_possible",
        "environment.variables_exist",
        "environment.variables_of_all_ranks_agree",
        "environment.what_sets_nodes_apart_is_each_nodes_own",
        "files.no_token_is_left_behind",
        "files.places_can_be_written_to",
        "limits.devices_of_every_program_are_there",
        "limits.shared_memory_is_enough",
        "master.address_belongs_to_the_first_node",
        "master.address_is_on_the_training_interface",
        "master.address_leads_every_node_to_the_first",
        "master.first_node_knows_the_address_for_its_own",
        "master.port_is_outside_the_ephemeral_range",
        "master.variables_are_the_same_on_every_node",
        "mesh.every_node_reaches_every_other_on_random_ports: nft",
        "mesh.every_node_reaches_the_port_of_rank_0: nft",
        "names.every_node_reaches_itself: nft",
        "names.every_node_speaks_one_address_family: own hostname",
        "names.full_names_of_peers_lead_to_them",
        "names.localhost_is_the_node_itself",
        "names.look_ups_are_answered",
        "names.look_ups_are_fast",
        "names.own_hostname_is_an_address_of_the_node",
        "names.own_hostname_is_not_loopback",
        "names.peers_are_taken_for_themselves",
        "names.peers_can_be_resolved",
        "names.reverse_names_lead_back",
        "network.default_routes_are_alike",
        "network.interface_variables_match_an_interface",
        "network.interfaces_of_nccl_have_subnets_of_their_own",
        "network.mtu_is_the_same_on_every_node",
        "network.nccl_starts_on_an_interface_of_the_peers",
        "network.nccl_takes_no_more_interfaces_than_meant",
        "network.routes_to_peers_leave_by_the_training_interface",
        "network.training_addresses_share_a_subnet",
        "network.training_interface_is_a_real_one",
        "ports.ephemeral_ports_are_enough",
        "rdma.gid_index_exists_on_every_node",
        "rdma.gid_index_is_routable_roce_v2",
        "rdma.nccl_ib_hca_matches_a_port",
        "rdma.nccl_ib_hca_takes_no_more_than_it_names",
    }
)
