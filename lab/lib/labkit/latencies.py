"""When was content destroyed that lay in certain blocks?"""

from bisect import bisect_right

# A record says milliseconds, a relay more: what came within one comes together.
ROUNDING_SECONDS = 0.001


class Destroyed:
    """The instants at which each block was overwritten, by the server or by its guest."""

    def __init__(self, acts, writes, block_bytes):
        self.times = {}
        for act in acts:
            first, end = act.start // block_bytes, -(-(act.start + act.length) // block_bytes)
            for block in range(first, end):
                self.times.setdefault(block, []).append(act.time + ROUNDING_SECONDS)
        for write in writes:
            self.times.setdefault(write.block, []).append(write.time)
        for times in self.times.values():
            times.sort()

    def at(self, blocks, since):
        """When the last of the blocks had been overwritten after `since`; None if one was not."""
        found = [self._next(block, since) for block in blocks]
        return max(found, default=since) if None not in found else None

    def _next(self, block, since):
        times = self.times.get(block, [])
        at = bisect_right(times, since)
        return times[at] if at < len(times) else None


def percentile(values, percent):
    """The smallest value that so many percent do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]
