"""What does a node report of the folders and files that a job reads and writes there?"""

from __future__ import annotations

from preflight.facts.value import NOT_REPORTED, Count, Missing, Text, Value


class Place(Value, frozen=True):
    """A folder that a job writes to, and the room in it."""

    path: Text
    purpose: Text  # "home", "temporary files", "--shared", "--checkpoint-dir"
    trouble: Text  # why it cannot be looked at, "" where it can
    is_writable: bool
    free_bytes: Count
    free_inodes: Count | Missing  # absent where the file system counts none
    may_run: bool = True  # False where it is mounted noexec


class Cache(Value, frozen=True, kw_only=True):
    """A folder that a library keeps what it compiles or downloads in."""

    what: Text  # "Triton", "torch extensions"
    path: Text
    variable: Text  # that moves it elsewhere
    trouble: Text = ""  # why it cannot be looked at, "" where it can
    exists: bool = False
    below: Text = ""  # itself, or the folder it will be made in
    kind: Text = ""  # of its file system: "ext4", "nfs4"
    source: Text = ""
    is_of_network: bool = False
    owner: Count = 0
    is_writable: bool = True
    may_run: bool = True
    free_bytes: Count = 0
    locks: tuple[tuple[Text, Count], ...] = ()  # of builds -> seconds since anything changed beside it
    stale: tuple[tuple[Text, Text], ...] = ()  # folder of an extension -> its torch, which is gone or newer


class Shared(Value, frozen=True):
    """Whether a token that another node wrote into a path is read here."""

    path: Text
    writer: Text  # the node that wrote it; "" where none could
    trouble: Text  # "" where the token was read as written
    seconds: float  # until it was there to read
    write_mbytes_per_s: float | Missing
    leftovers: tuple[Text, ...]  # tokens of earlier runs


class Same(Value, frozen=True):
    """What a path holds: compared between nodes."""

    path: Text
    digest: Text | Missing
    file_count: Count
    bytes: Count
    is_whole: bool  # False where it was too much to read all of it
    pointers: tuple[Text, ...]  # git-lfs pointer files that stand where data should be


class Named(Value, frozen=True):
    """A path that the launch files give to the program, as far as a quick look shows."""

    path: Text
    trouble: Text  # why it cannot be looked at, "" where it can
    pointers: tuple[Text, ...]  # git-lfs pointer files that stand where data should be


class Mount(Value, frozen=True):
    """A file system of the network."""

    path: Text
    kind: Text
    source: Text
    trouble: Text  # "" where it answered
    is_automatic: bool = False  # it comes when it is used, and goes again (autofs)


class Files(Value, frozen=True, kw_only=True):
    """The folders of every job, the file systems of the network, and the paths that were asked for."""

    places: tuple[Place, ...]
    mounts: tuple[Mount, ...]
    shared: tuple[Shared, ...]
    same: tuple[Same, ...]
    named: tuple[Named, ...] = ()
    caches: tuple[Cache, ...] | Missing = NOT_REPORTED
