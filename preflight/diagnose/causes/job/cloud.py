"""Which words say that a cloud or its job service gave no machines, or took them back?"""

from __future__ import annotations

from preflight.diagnose.cause import Cause, Kind

CAUSES = (
    Cause(
        "no-capacity",
        "the cloud has no capacity left for this machine type there",
        (
            r"insufficientinstancecapacity",
            r"insufficientcapacityerror",
            r"do not have sufficient .*capacity",
            r"does not have enough resources available",
            r"unable to provision requested ml compute capacity",
            r"zone_resource_pool_exhausted",
            r"gce_stockout",
            r"gce out of resources",
            r"skunotavailable",
            r"\ballocationfailed: ",
            r"zonalallocationfailed",
            r"overconstrainedallocationrequest",
            r"failed_to_start_due_to_no_capacity",
            r"cloud providers not having enough capacity",
            r"does not contain any instances satisfying",
            r"failed to acquire resources in (?:all|any) \w+",
            r"no launchable resource found",
        ),
        "try another zone, region or machine type; reserve capacity (capacity blocks, reservations, DWS); ask"
        " for fewer nodes at once in a placement group",
        "Amazon EC2; Google Compute Engine; Azure",
        Kind.SUSPICION,
        weight=6,
    ),
    Cause(
        "cloud-quota",
        "the account's quota does not allow this many machines",
        (
            r"resourcelimitexceeded",
            r"vcpulimitexceeded",
            r"instancelimitexceeded",
            r"quota '[\w.-]+' exceeded",
            r"exceeding approved .*quota",
            r"quotaexceeded\b",
            r"quota_exceeded",
        ),
        "ask the provider to raise the quota that the line names, in that region; end machines that nobody uses",
        "Amazon SageMaker; Google Compute Engine; Azure",
        Kind.SUSPICION,
        weight=6,
    ),
    Cause(
        "node-shut-down",
        "a machine was stopped or started again while the job ran on it",
        (
            r"imminent node shutdown",
            r"reason: +nodeshutdown",
            r"host ec2 \(instance \S+\) terminated",
            r"server\.spotinstance(?:shutdown|termination)",
            r"node (?P<node>[\w.-]+) has been rebooted, boot id",
        ),
        "find out who stopped it: upgrades and repair of the node pool, the autoscaler, spot capacity or an"
        " administrator; keep them off the nodes while jobs run (PodDisruptionBudget, safe-to-evict=false, a"
        " maintenance window)",
        "Kubernetes, node shutdowns; AWS Batch",
        weight=7,
    ),
)
