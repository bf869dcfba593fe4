"""How does a recorded text keep its form without anything that identifies the machine?

Serial numbers, UUIDs, GUIDs and hardware addresses become others: the same one the same, everywhere in one recording,
so that what was equal stays equal. Nobody who lacks the recording's key can tell what they were.
"""

from __future__ import annotations

import hashlib
import hmac
import re

UUID = re.compile(r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b")
MAC = re.compile(r"\b[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2}){5}\b")
# An EUI-64 in four groups: a GUID, or what makes a link-local GID. A mapped IPv4 address is none.
GUID = re.compile(r"(?<![0-9a-fA-F:])(fe80:0000:0000:0000:)?([0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![0-9a-fA-F:])")
LONG_NUMBER = re.compile(r"\b0x[0-9a-fA-F]{16}\b")
# What nvidia-smi (XML and text) and amd-smi call a serial number.
SERIAL = re.compile(
    r"(<(?:\w*serial\w*|pdi|img_version)>|(?:Serial Number|GPU PDI|Chassis Serial Number) +: |\"\w*serial\w*\": \")"
    r"([^<\"\n]+)"
)
NO_SERIAL = ("N/A", "0", "")


class Scrubber:
    """Replaces, within one recording, everything that identifies a machine."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def digits(self, text: str) -> str:
        """64 hexadecimal digits that stand for a text."""
        return hmac.new(self.key, text.lower().encode(), hashlib.sha256).hexdigest()

    def like(self, text: str, alphabet: str = "0123456789abcdef") -> str:
        """Another text of the same form: every letter and digit is replaced, everything between them stays."""
        found = iter(self.digits(text) * (len(text) // 64 + 1))
        return "".join(alphabet[int(next(found), 16) % len(alphabet)] if one.isalnum() else one for one in text)

    def text(self, text: str) -> str:
        """A text without anything that identifies the machine."""
        text = SERIAL.sub(self._serial, text)
        text = UUID.sub(lambda found: self._uuid(found.group()), text)
        text = LONG_NUMBER.sub(lambda found: f"0x{self.like(found.group()[2:])}", text)
        text = GUID.sub(self._guid, text)
        return MAC.sub(lambda found: self.like(found.group()), text)

    def _serial(self, found: re.Match[str]) -> str:
        title, value = found.groups()
        return title + (value if value.strip() in NO_SERIAL else self.like(value, "0123456789"))

    def _uuid(self, text: str) -> str:
        return self.like(text) if set(text) - set("0-") else text  # that of no fabric is all zeros

    def _guid(self, found: re.Match[str]) -> str:
        prefix, value = found.groups()
        is_own = int(value.replace(":", ""), 16) >= 1 << 16  # an empty row, or a number of somebody's choice, is not
        return (prefix or "") + (self.like(value) if is_own else value)
