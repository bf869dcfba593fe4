"""Whose certificates are taken, and which are kept?"""

import os
import stat

import pytest

from preflight.run.reuse.archive import KEPT, Archive
from preflight.run.reuse.certificates import Asked
from preflight.said.errors import UsageError
from tests.run.reuse.samples import CHECKS, kept, options


def test_a_certificate_that_this_key_did_not_sign_is_none(archive, tmp_path):
    """One letter changed, or a key of another user: both are measured anew."""
    opts = options(tmp_path)
    kept(archive, opts)
    path = archive.path(Asked(opts, CHECKS))
    text = path.read_bytes()
    path.write_bytes(text.replace(b'"wrong": 0', b'"wrong": 1', 1))
    assert "was changed after it was signed" in archive.find(Asked(opts, CHECKS))
    path.write_bytes(text)
    (tmp_path / "state" / "certificates.key").write_bytes(bytes(32))
    other = Archive.opened(tmp_path / "state")
    assert other.find(Asked(opts, CHECKS)) == "no --reuse run of these hosts with these options is certified yet"
    os.rename(path, other.path(Asked(opts, CHECKS)))
    assert "signed with another key" in other.find(Asked(opts, CHECKS))


def test_the_key_is_for_this_user_alone(tmp_path):
    """It is made 0600 in a folder 0700, kept from run to run, and refused where others can read or replace it."""
    first = Archive.opened(tmp_path / "state")
    path = tmp_path / "state" / "certificates.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert Archive.opened(tmp_path / "state").key == first.key
    assert len(first.key) == 32
    path.chmod(0o640)
    with pytest.raises(UsageError, match="can be read by others: chmod 600 it"):
        Archive.opened(tmp_path / "state")
    path.chmod(0o600)
    path.parent.chmod(0o777)
    with pytest.raises(UsageError, match="can be written by others"):
        Archive.opened(tmp_path / "state")
    path.parent.chmod(0o700)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").write_bytes(bytes(32))
    with pytest.raises(UsageError, match=r"certificates\.key: Too many levels of symbolic links"):
        Archive.opened(tmp_path / "state")
    path.unlink()
    os.mkfifo(path, 0o666)  # nobody will ever write into it
    with pytest.raises(UsageError, match="can be read by others"):
        Archive.opened(tmp_path / "state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
@pytest.mark.parametrize("which", ["certificates.key", "."])
def test_what_another_user_made_is_refused(tmp_path, which):
    """A key that he holds would sign whatever he writes; a folder of his holds what he puts there."""
    Archive.opened(tmp_path / "state")
    os.chown(tmp_path / "state" / which, 65534, 65534)
    with pytest.raises(UsageError, match="by others: chmod"):
        Archive.opened(tmp_path / "state")


def test_old_certificates_go(archive, tmp_path):
    """Fifty are kept; what else lies in the folder stays."""
    for number in range(KEPT + 2):
        kept(archive, options(tmp_path, deadline=60.0, bench_iters=str(number + 1)))
    assert len(list(archive.folder.glob("*.certificate"))) == KEPT
    assert (archive.folder / "certificates.key").exists()
