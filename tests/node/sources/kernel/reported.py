"""What do the records of a log report, from their bytes on?"""

from preflight.node.sources.kernel import events, log


def reported(records, *, now_s):
    """What the records of a log report."""
    lines = log.of_interest("\n".join(records).encode())
    return events.parse([line.decode() for line in lines], now_s=now_s)
