"""Do such lines lead to the cause that they speak of?"""

from __future__ import annotations

import pytest

from tests.diagnose.causes.lines import found

LINES = (
    ("Warning  Failed  kubelet  Error: ImagePullBackOff", "image-pull"),
    ("nvidia-container-cli: initialization error: load library failed", "container-gpus"),
    (
        "FATAL:   container creation failed: mount hook function failure: mount /m->/m error: destination /m doesn't exist in container",
        "apptainer-start",
    ),
    (
        'slurmstepd: error: pyxis: error: a container with name "pyxis_job" does not exist, and --container-image is not set',
        "image-import",
    ),
    ("[ERROR] Could not process JSON input", "image-import"),
    (
        "slurmstepd: error: pyxis:     enroot-nsenter: failed to create user namespace: No space left on device",
        "user-namespaces",
    ),
    ("slurmstepd: error: pyxis: --container-mounts: invalid format: /data", "container-options"),
    ("slurmstepd: error: pyxis: container exited too soon", "container-start"),
    ("slurmstepd: error: pyxis: child 77 failed with error code: 1", "image-import"),
    (
        "slurmstepd: error: pyxis:     [ERROR] URL https://registry-1.docker.io/v2/x/manifests/1 returned error code: 401 Unauthorized",
        "image-pull",
    ),
    (
        'Failed to apply default image tag "x:": couldn\'t parse image reference "x:": invalid reference format',
        "image-pull",
    ),
    (
        'rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is configured',
        "container-gpus",
    ),
    (
        "FATAL:   --fakeroot requires either being in /etc/subuid, unprivileged user namespaces, or the fakeroot command",
        "apptainer-start",
    ),
    ('slurmstepd: error: Warning: SPANK plugin "pyxis" option "container-image" not found', "pyxis-missing"),
    ("srun: unrecognized option '--container-image=x.sqsh'", "pyxis-missing"),
    (
        "Warning  BackOff  3s (x5 over 25s)  kubelet  Back-off restarting failed container pytorch in pod worker-0",
        "container-ends",
    ),
    (
        "FATAL:   container creation failed: while mounting image /proc/self/fd/3: failed to mount squashfs filesystem: input/output error",
        "apptainer-start",
    ),
    ("Error response from daemon: network llm_default not found", ""),
)


@pytest.mark.parametrize(("line", "cause"), LINES)
def test_a_line_leads_to_its_cause(line, cause):
    """Alone, as it stands in the log of one rank."""
    assert found(line) == cause
