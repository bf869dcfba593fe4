"""May the ranks compile and keep code where they do, each node for itself, with no killed job in the way?"""

import pytest

from preflight.facts.value import present
from preflight.judge.tables import caches
from preflight.reach.hosts import fold
from preflight.said import joined, said
from preflight.said.errors import Blame, NotApplicable


def test_no_build_waits_for_a_lock(node):
    """No build of a torch extension that was killed has left its lock behind.

    Whoever loads that extension (DeepSpeed's operations, a CUDA kernel of the program) waits until the lock is gone:
    for ever, and without a message. It is a failure where the lock is of the job's Python, else a warning.
    Fix: `rm` of the lock named, once no job builds there.
    """
    held = [one for one in present(node.files.caches, "caches of compiled code") if one.what == caches.EXTENSIONS]
    left = [lock for cache in held for lock in caches.locks(cache, node.software.python_minor)]
    if not any(cache.exists for cache in held):
        raise NotApplicable("no extension of torch was built here yet")
    if left:
        words = [said("{path} is left from a build that ended {age} ago", path, age) for path, age, _ in left]
        fix = said("`rm {locks}`, once no job builds there", " ".join(path for path, _, _ in left))
        raise Blame(joined(words), nodes=[node.name], fix=fix, is_advisory=not any(waits for _, _, waits in left))


@pytest.mark.advisory
def test_every_node_compiles_for_itself(cluster):
    """No two nodes compile into one folder of a file server.

    Triton, torch.compile and FlashInfer lock and rename files there. Over NFS that is slow, and ranks of several nodes
    get in each other's way: "Stale file handle", "cannot stat shared object", or a rank that waits for a lock.
    Fix: point the variables in the finding at a disk of the node, in the line that starts the job.
    """
    cluster.needs_peers()
    used = cluster.gather(caches.used)
    if not any(used.values()):
        raise NotApplicable("nothing is installed that compiles code for itself")
    shared = caches.on_network(used)
    if not shared:
        return
    folders = {cache.what: cache for held in shared.values() for _, cache in held}
    sharing = {node for held in shared.values() for node, _ in held}
    names = [name for name in cluster.names if name in sharing]
    words = [
        said("{what}: {path} is on {kind} {source}", cache.what, cache.path, cache.kind, cache.source)
        for cache in folders.values()
    ]
    message = said("{names} compile into the same folders. {folders}", fold(names), joined(words))
    raise Blame(message, nodes=names, fix=caches.local(folders.values()))


@pytest.mark.advisory
def test_caches_take_new_files(node, settings):
    """The caches that the job's libraries use can be written to, have room, and hold code that may be run.

    A folder that root made with sudo, or in a container, keeps its user out: a rank ends with "Permission denied", or
    compiles everything again at every start.
    Fix: `chown` the folder named, or point the variable in the finding at another.
    """
    told = [place.path for place in node.files.places if place.trouble or not place.is_writable or not place.may_run]
    told += [mount.path for mount in node.files.mounts if mount.trouble]
    full = [place.path for place in node.files.places if place.free_bytes < settings.files.free_min_bytes]
    messages = []
    for cache in caches.needed(node):
        if any(f"{cache.path}/".startswith(f"{path.rstrip('/')}/") for path in told):
            continue  # of these files.places_can_be_written_to and files.network_file_systems_answer speak
        trouble = caches.held_back(
            cache,
            user_id=node.identity.user_id,
            min_bytes=settings.files.free_min_bytes,
            is_known=any(f"{cache.path}/".startswith(f"{path.rstrip('/')}/") for path in full),
        )
        if trouble:
            messages.append(
                said("{what} ({variable}, {path}): {trouble}", cache.what, cache.variable, cache.path, trouble)
            )
    assert not messages, joined(messages)


@pytest.mark.advisory
def test_extensions_are_of_this_torch(node):
    """What torch built as extensions was built with the torch that is installed.

    The cache is one for all environments of a Python: after torch was upgraded, or from another environment, a library
    is loaded as it lies there. It ends with "undefined symbol", or hangs.
    Fix: `rm -r` of the folders named: they are built anew at their first use.
    """
    held = [one for one in caches.needed(node) if one.what == caches.EXTENSIONS and one.exists]
    if not held:
        raise NotApplicable("no extension of torch was built here yet")
    python = node.software.python_minor
    stale = {folder: torch for one in held for folder, torch in one.stale if caches.is_of(folder, one.path, python)}
    if stale:
        words = [
            said("{folder} was built with {torch}, which is gone or newer than that", folder, torch)
            for folder, torch in stale.items()
        ]
        raise Blame(joined(words), nodes=[node.name], fix=said("`rm -r {folders}`", " ".join(stale)))
