"""Is there room where a job writes, and are shared paths really shared, and equal paths equal?"""

import pytest

from preflight.judge.tables import mounts
from preflight.said import joined, knowing, said
from preflight.said.errors import Blame, BlameMany, FactMissing, NotApplicable


def test_network_file_systems_answer(node):
    """Every network file system that is mounted on a node answers.

    When its server is gone, every process that touches it hangs, and no signal ends such a process.
    Fix: `umount -l <path>` and mount it again on the nodes named, or bring its server back.
    """
    if not node.files.mounts:
        raise NotApplicable("no network file system is mounted")
    silent = [
        f"{mount.path} ({mount.kind} {mount.source}): {mount.trouble}" for mount in node.files.mounts if mount.trouble
    ]
    assert not silent, joined(silent)


@pytest.mark.advisory
def test_network_file_systems_are_mounted_on_every_node(cluster):
    """What nearly all nodes have mounted from the network every node has, and from the same folder of its server.

    On the node that lacks it a rank finds no data, or writes checkpoints onto its own disk below the empty folder.
    Fix: `findmnt <path>` here and on another node; `mount <path>`, and the line of /etc/fstab that the others have.
    """
    cluster.needs_peers()
    if not any(node.files.mounts for node in cluster):
        raise NotApplicable("no network file system is mounted")
    told = mounts.differing(cluster)
    if told:
        raise BlameMany([Blame(joined(words), nodes=[name]) for name, words in told.items()])


@pytest.mark.advisory
def test_the_user_has_one_id_on_every_node(cluster):
    """Where network file systems are mounted, the job's user has the same user ID on every node.

    A file server knows the user ID and not the name: what one node writes, another may not read or replace.
    Fix: `id -u` on the nodes named; take users from one directory (LDAP, SSSD), or start containers with `--user`.
    """
    cluster.needs_peers()
    if not any(node.files.mounts for node in cluster):
        raise NotApplicable("no network file system is mounted")
    cluster.same(lambda node: node.identity.user_id, "id of the job's user")


@pytest.mark.advisory
def test_places_can_be_written_to(node):
    """The home folder and the folder for temporary files exist, can be written to, and allow programs to run.

    torchrun, Triton and torch.compile write there before the first step: with a read-only home a rank ends, or compiles
    everything again, on a noexec mount with "failed to map segment from shared object".
    Fix: mount it writable, or point HOME, TMPDIR, TRITON_CACHE_DIR and TORCHINDUCTOR_CACHE_DIR at a folder that is.
    """
    places = [place for place in node.files.places if not place.purpose.startswith("--")]
    if not places:
        raise NotApplicable("no folder was looked at")
    messages = [
        f"{place.purpose} ({place.path}): {place.trouble or 'cannot be written to'}"
        for place in places
        if place.trouble or not place.is_writable
    ]
    messages += [
        said("{purpose} ({path}): no program may be run from there (noexec)", place.purpose, place.path)
        for place in places
        if not place.may_run
    ]
    assert not messages, joined(messages)


@pytest.mark.advisory
def test_there_is_room(node, settings):
    """There is room for files, and for their names, wherever a job writes.

    Checkpoints and logs end with "No space left on device", after hours; with no inodes left, though `df` shows room.
    Fix: `df -h` and `df -i` on the nodes named; remove what is old, or write elsewhere.
    """
    messages = []
    places = [place for place in node.files.places if not place.trouble]  # of these another check says so
    if not places:
        raise NotApplicable("no folder could be looked at")
    for place in places:
        if place.free_bytes < settings.files.free_min_bytes:
            wanted = settings.files.free_min_bytes >> 20
            messages.append(
                said(
                    "{path}: {free_bytes} MiB free; wanted at least {wanted}",
                    place.path,
                    place.free_bytes >> 20,
                    wanted,
                )
            )
        if isinstance(place.free_inodes, int) and place.free_inodes < settings.files.free_min_inodes:
            wanted = settings.files.free_min_inodes
            messages.append(
                said(
                    "{path}: room for {free_inodes} more files; wanted at least {wanted}",
                    place.path,
                    place.free_inodes,
                    wanted,
                )
            )
    assert not messages, joined(messages)


def test_shared_paths_are_shared(cluster):
    """What one node writes into a path named with --shared can be read there by every node.

    A checkpoint, an index or a dataset cache that one rank writes is not there for the others: they end with
    FileNotFoundError, or train from a file of their own.
    Fix: mount the same file system on the nodes named (`findmnt -T <path>` shows what is there), or use a node-local
    checkpoint (`checkpoint.use_node_local_storage` of DeepSpeed).
    """
    _shared_by_all(cluster, "--shared")


def test_the_checkpoint_folder_is_shared(cluster):
    """What one node writes into the folder of --checkpoint-dir can be read there by every node.

    Where it is missing, may not be written to, or is each node's own, the job trains for hours and then ends at its
    first checkpoint, or cannot resume. This is checked before the training starts.
    Fix: `mkdir -p <path>` on the file system that all nodes share, and mount it at the same path on the nodes named
    (`findmnt -T <path>` shows what is there).
    """
    _shared_by_all(cluster, "--checkpoint-dir")


@pytest.mark.advisory
def test_shared_files_are_seen_soon(node, settings):
    """A new file in a shared path is seen by every node within seconds.

    Where it takes longer, a node looks for the index that another has just built and does not find it.
    Fix: build caches and indexes before the start; mount NFS with `lookupcache=positive` or `actimeo=1`.
    """
    limit = settings.files.visible_max_seconds
    late = [
        f"{shared.path}: {shared.seconds:.3g} s"
        for shared in _asked(node)
        if shared.seconds > limit and not shared.trouble
    ]
    assert not late, said(
        "a file of another node was seen late: {late}; wanted within {limit:g} s", joined(late), limit
    )


@pytest.mark.advisory
def test_shared_paths_take_writes_fast_enough(node, settings):
    """Writing into a shared path is fast enough for checkpoints.

    All ranks wait while a checkpoint is written: gigabytes at a few MB/s are hours.
    Fix: `dd if=/dev/zero of=<path>/x bs=1M count=64 oflag=direct` on the nodes named; write elsewhere, or less often.
    """
    wanted = settings.files.write_min_mbytes_per_s
    speeds = {shared.path: shared.write_mbytes_per_s for shared in _asked(node)}
    slow = [f"{path}: {speed:g} MB/s" for path, speed in speeds.items() if isinstance(speed, float) and speed < wanted]
    assert not slow, said("8 MiB were written slowly: {slow}; wanted at least {wanted:g} MB/s", joined(slow), wanted)


@pytest.mark.advisory
def test_no_token_is_left_behind(node):
    """No earlier run of preflight left a token in a shared path.

    It means that a run was killed so abruptly that it could not clean up.
    Fix: `rm` what is named, once no other preflight runs there.
    """
    left = [name for shared in _asked(node) for name in shared.leftovers]
    assert not left, said("left by an earlier run: {left}", ", ".join(left))


def test_same_paths_hold_the_same(cluster):
    """A path named with --same holds the same on every node.

    Older or newer code, configuration or data on one node: its rank takes another branch, and the job hangs or learns
    something else.
    Fix: copy it again to the nodes named (`rsync -c`), or keep it in one place that all nodes mount.
    """
    cluster.needs_peers()
    blames = []
    for path in _paths(cluster, "same", "--same"):
        held = cluster.gather(lambda node, path=path: _one(node.files.same, path))
        lost = {name: same.digest.missing for name, same in held.items() if not isinstance(same.digest, str)}
        blames += [
            Blame(knowing(said("{path}: {reason}", path, reason), about=path), nodes=[name])
            for name, reason in lost.items()
        ]
        words = {name: _shown(same) for name, same in held.items() if name not in lost}
        groups = {
            message: tuple(name for name in words if words[name] == message)
            for message in dict.fromkeys(words.values())
        }
        blames += cluster.differing(groups, path)
    if blames:
        raise BlameMany(blames)


def test_no_pointer_stands_for_data(node):
    """No file under a path named with --same is a git-lfs pointer where data should be.

    Cloned without git-lfs, weights and datasets are text files of 130 bytes: loading them fails on this node.
    Fix: `git lfs pull` in the folder, on the nodes named.
    """
    if not node.files.same:
        raise NotApplicable("no path is named with --same")
    found = [f"{same.path}: {', '.join(same.pointers[:4])}" for same in node.files.same if same.pointers]
    assert not found, said("git-lfs pointers instead of data: {found}", joined(found))


def _shared_by_all(cluster, option):
    """Every path of an option is there, can be written to, and holds on every node what one wrote."""
    files = cluster.gather(lambda node: node.files)
    ours = {place.path for held in files.values() for place in held.places if place.purpose == "--checkpoint-dir"}
    named = dict.fromkeys(shared.path for held in files.values() for shared in held.shared)
    paths = [path for path in named if (path in ours) == (option == "--checkpoint-dir")]
    if not paths:
        raise NotApplicable(said("no path is named with {option}", option))
    blames = []
    for path in paths:
        seen = cluster.gather(lambda node, path=path: _one(node.files.shared, path))
        absent = {name: place.trouble for name in seen for place in cluster[name].files.places if place.path == path}
        absent = {name: trouble for name, trouble in absent.items() if trouble}
        blames += [
            Blame(said("{path}: {trouble}", path, trouble), nodes=[name for name in absent if absent[name] == trouble])
            for trouble in dict.fromkeys(absent.values())
        ]
        there = {name: shared for name, shared in seen.items() if name not in absent}
        for trouble in dict.fromkeys(shared.trouble for shared in there.values() if shared.trouble):
            names = [name for name, shared in there.items() if shared.trouble == trouble]
            writer = there[names[0]].writer
            if writer:
                blames.append(
                    Blame(said("{path}: {trouble} (written on {writer})", path, trouble, writer), nodes=names)
                )
            else:
                for name in names:
                    cluster.cannot_judge(name, FactMissing(path, trouble))
    if blames:
        raise BlameMany(blames)


def _paths(cluster, subject, option):
    """The paths that were asked for."""
    files = cluster.gather(lambda node: node.files)
    paths = dict.fromkeys(entry.path for held in files.values() for entry in getattr(held, subject))
    if not paths:
        raise NotApplicable(said("no path is named with {option}", option))
    return tuple(paths)


def _one(entries, path):
    """What a node says of a path."""
    for entry in entries:
        if entry.path == path:
            return entry
    raise FactMissing(path, "the node was not asked for it")


def _asked(node):
    """What a node says of the shared paths, where there are any."""
    if not node.files.shared:
        raise NotApplicable("no path is named with --shared")
    return node.files.shared


def _shown(same):
    """What a path holds as a message says it."""
    part = "" if same.is_whole else ", read in part"
    return said(
        "{digest} ({file_count} files, {bytes} bytes{part})", same.digest[:12], same.file_count, same.bytes, part
    )
