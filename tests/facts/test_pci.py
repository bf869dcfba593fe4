"""Is one PCI address the same, whoever writes it?"""

from __future__ import annotations

from preflight.facts.pci import without_domain_zeros


def test_an_address_is_the_same_with_a_long_and_a_short_domain():
    """NVML writes eight digits and capitals, the kernel four digits and small letters."""
    assert without_domain_zeros("00000000:0F:00.0") == without_domain_zeros("0000:0f:00.0")
    assert without_domain_zeros("00000009:01:00.0") == without_domain_zeros("0009:01:00.0")
    assert without_domain_zeros("0000:0f:00.0") != without_domain_zeros("0001:0f:00.0")
