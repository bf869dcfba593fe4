"""Tests of preflight.node.sources.metadata; what software tells of it stands in test_software.py."""

from preflight.node.sources import metadata
from tests.node.subjects.test_software import distribution


def test_what_packages_want_of_each_other_is_told(tmp_path):
    """Versions as they stand, for the packages that matter; extras, other machines and the description are left out."""
    says = (
        "0.15.2\nRequires-Dist: torch (==2.0.1)\nRequires-Dist: NumPy>=1.2,<3\nRequires-Dist: requests>=2\n"
        "Requires-Dist: nvidia-nccl-cu12==2.14.3; platform_system == 'Linux' and platform_machine == 'x86_64'\n"
        "Requires-Dist: ray[train]>=2.1\nRequires-Dist: triton\n"
        "Requires-Dist: accelerate>=9; extra == 'dev'\n\nRequires-Dist: transformers>9\n"
    )
    distribution(tmp_path, "torchvision", "0.15.2", says=says)
    wanted = {"torch": "==2.0.1", "numpy": ">=1.2,<3", "nvidia-nccl-cu12": "==2.14.3", "ray": ">=2.1"}
    assert metadata.requirements(metadata.installed([str(tmp_path)])) == {"torchvision": wanted}
    assert metadata.requirements({}) == {}
