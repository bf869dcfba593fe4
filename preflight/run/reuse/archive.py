"""Where do certificates lie between runs, and who could have written them?

Each is signed with a key that only this user can read, so a run takes over only what a run of this user measured.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path

import msgspec

from preflight.facts import decode
from preflight.report.files import plain_ascii, write_atomically
from preflight.run.reuse.certificates import Asked, Certificate
from preflight.said import said
from preflight.said.errors import UsageError

KEY_BYTES = 32
KEY_FILE = "certificates.key"
KEPT = 50  # certificates; the oldest go


def state_folder() -> Path:
    """Where programs keep state between runs: XDG_STATE_HOME, else ~/.local/state."""
    named = os.environ.get("XDG_STATE_HOME", "")
    return (Path(named) if named.startswith("/") else Path.home() / ".local" / "state") / "preflight"


@dataclass(frozen=True)
class Archive:
    """The certificates of this user, and the key that they are signed with."""

    folder: Path
    key: bytes

    @classmethod
    def opened(cls, folder: Path) -> Archive:
        """The archive in a folder, made where there is none yet.

        Raises UsageError where others could read or replace the key: what it signs would prove nothing.
        """
        path = folder / KEY_FILE
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not path.exists():
                _write_key(path)
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)  # no pipe holds us
            with open(descriptor, "rb") as stream:
                about, key = os.fstat(descriptor), stream.read(KEY_BYTES + 1)
            around = folder.stat()
        except OSError as error:
            raise UsageError(said("{filename}: {strerror}", error.filename or path, error.strerror)) from None
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
            raise UsageError(
                said("{path} can be read by others: chmod 600 it, or remove it and the files beside it", path)
            )
        if around.st_uid != os.geteuid() or around.st_mode & 0o022:
            raise UsageError(said("{folder} can be written by others: chmod 700 {folder}", folder))
        if len(key) != KEY_BYTES:
            raise UsageError(said("{path} holds no key of {KEY_BYTES} bytes: remove it", path, KEY_BYTES))
        return cls(folder, key)

    def path(self, asked: Asked) -> Path:
        """The file for these hosts and options."""
        return self.folder / f"{asked.digest(self.key)[:40]}.certificate"

    def keep(self, asked: Asked, certificate: Certificate) -> None:
        """Write a certificate, signed, and remove the oldest where there are many. Raises OSError."""
        body = plain_ascii(decode.encode(certificate).decode("ascii")).encode("ascii")
        write_atomically(self.path(asked), self._signature(body) + b"\n" + body)
        held = sorted(self.folder.glob("*.certificate"), key=lambda path: path.stat().st_mtime)
        for path in held[:-KEPT]:
            path.unlink(missing_ok=True)

    def find(self, asked: Asked) -> Certificate | str:
        """The certificate for these hosts and options, or why there is none."""
        try:
            signature, _, body = self.path(asked).read_bytes().partition(b"\n")
        except FileNotFoundError:
            return "no --reuse run of these hosts with these options is certified yet"
        except OSError as error:
            return said("the certificate cannot be read: {strerror}", error.strerror)
        if not hmac.compare_digest(signature, self._signature(body)):
            return "the certificate was changed after it was signed, or signed with another key"
        try:
            return msgspec.json.decode(body, type=Certificate)
        except (msgspec.DecodeError, UnicodeDecodeError):  # signed by us: by another version
            return "the certificate is of another version of preflight"

    def _signature(self, body: bytes) -> bytes:
        return hmac.new(self.key, body, "sha256").hexdigest().encode("ascii")


def _write_key(path: Path) -> None:
    """Write a new key; of two runs that begin at once, the first to write it wins."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(secrets.token_bytes(KEY_BYTES))
            stream.flush()
            os.fsync(descriptor)
        try:
            os.link(new, path)
        except FileExistsError:
            return
    finally:
        os.unlink(new)
