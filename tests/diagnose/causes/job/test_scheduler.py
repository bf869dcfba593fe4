"""Do lines of schedulers lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2024-04-20T09:09:37 DUE TO TIME LIMIT ***", "time-limit"),
    ("slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2024-04-20T09:09:37 DUE TO PREEMPTION ***", "preempted"),
    (
        "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2024-04-20T09:09:37 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
        "node-fail",
    ),
    ("slurmstepd: error: *** STEP 77.0 ON n1 CANCELLED AT 2024-04-20T09:09:37 ***", "cancelled"),
    ("ping RPC timeout from n7.hostmgmt after 120s", "node-fail"),
    ("ping failed on n6: Couldn't forward RPC ping(24c9) to child n7: Resource temporarily unavailable", "node-fail"),
    ("srun: error: Cannot communicate with node 3.  Aborting job.", "node-fail"),
    (
        "Normal   EvictedDueToPreempted  kueue  Preempted to accommodate a workload (UID: x) due to prioritization",
        "preempted",
    ),
    ("Warning  ContainerGCFailed  kubelet  rpc error: code = DeadlineExceeded desc = context deadline exceeded", ""),
    ("srun: Ignoring SRUN_NODE_FAIL for JobId=7 (our JobId=8)", ""),
    ("=>> PBS: job killed: walltime 7230 exceeded limit 7200", "time-limit"),
    ("Job exceeded its walltime limit. Job was aborted", "time-limit"),
    ("TERM_DEADLINE: job killed after deadline expires", "time-limit"),
    ("flux-job: job.exception type=timeout severity=0 resource allocation expired", "time-limit"),
    ("=>> PBS: job killed: ncpus 39.46 exceeded limit 32 (sum)", "scheduler-usage"),
    ("=>> PBS: job killed: vmem 51231789056 exceeded limit 17179869184", "scheduler-usage"),
    ("Job 7.gadi-pbs killed due to exceeding jobfs quota. Quota: 15.0GB, Used: 15.0GB, Host: n7", "scheduler-usage"),
    ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", "scheduler-usage"),
    ("TERM_THREADLIMIT: job killed after reaching LSF thread limit", "scheduler-usage"),
    ('job 7.1 exceeds job hard limit "h_vmem" of queue "gpu@n7" - sending SIGKILL', "scheduler-usage"),
    ("TERM_OWNER: job killed by owner.", "cancelled"),
    ("TERM_ADMIN: job killed by root or LSF administrator.", "cancelled"),
    ("TERM_REQUEUE_ADMIN: job killed and requeued by root or LSF administrator", "cancelled"),
    ("TERM_ORPHAN_SYSTEM: the orphan job was automatically terminated by LSF", "cancelled"),
    ("TERM_PREEMPT: job killed after preemption", "preempted"),
    ("Completed <exit>; TERM_LOAD: job killed after load exceeds threshold", "preempted"),
    ("Completed <exit>; TERM_SWAP: job killed after reaching LSF swap usage limit", "scheduler-usage"),
    ("Completed <exit>; TERM_WINDOW: job killed after queue run window closed", "time-limit"),
    ("Completed <exit>; TERM_ZOMBIE: job exited while LSF is not available", "node-fail"),
    ("slurmstepd: error: Step 7.0 exceeded memory limit (6776728 > 6291456), being killed", "oom-killed"),
    ("Job exceeded resource walltime", "time-limit"),
    ("Job exceeded resource vmem", "scheduler-usage"),
    ("qsub: Unknown queue", "job-refused"),
    ("qsub: Job violates queue and/or server resource limits", "job-refused"),
    ("qsub: waiting for job 7.pbs to start", ""),
    ("qsub: job 7.pbs ready", ""),
    ("User cannot use the queue. Job not submitted.", "job-refused"),
    ("Unable to run job: error: no suitable queues.", "job-refused"),
    (
        'INF Got interruption event from channel {"Kind":"SPOT_ITN","Description":"Spot ITN received. Instance will be interrupted at 2025-03-01T10:02:00Z"}',
        "preempted",
    ),
    ("INF Started monitoring for events event_type=SPOT_ITN", ""),
    (
        '{"EventStatus":"Scheduled","EventType":"Preempt","ResourceType":"VirtualMachine","Resources":["gpu_7"]}',
        "preempted",
    ),
    ("shutdown-script: Received preemption notice, ACPI G2 soft off in 30 s", "preempted"),
    ('{"action": "terminate", "time": "2025-03-01T10:02:00Z"}', "preempted"),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
