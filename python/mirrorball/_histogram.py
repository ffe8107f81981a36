"""Latency histograms in fio's bins: 64 to the octave, exact below 128 ns, within 1/128 above.

Histograms of several runs are merged by adding the counts of their bins. The percentile of a merged
histogram is that of all its requests; a mean of percentiles is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Dict, Iterable, List, Tuple

_BITS = 6
_PER_GROUP = 1 << _BITS
#: Number of bins.
BINS = 29 * _PER_GROUP


def bin_middle_ns(index: int) -> int:
    """Return the latency in the middle of a bin, in nanoseconds."""
    if not 0 <= index < BINS:
        raise ValueError(f"there is no bin {index}: the last is {BINS - 1}")
    if index < 2 * _PER_GROUP:
        return index
    shift = (index >> _BITS) - 1
    base = 1 << (shift + _BITS)
    return base + ((index & (_PER_GROUP - 1)) << shift) + (1 << (shift - 1))


@dataclass
class Histogram:
    """Latencies of requests, counted by bin."""

    #: Number of requests in each bin that is not empty, by the index of the bin.
    bins: Dict[int, int] = field(default_factory=dict)
    #: Sum of all latencies.
    sum_ns: float = 0
    #: The least latency; meaningless if there are no requests.
    min_ns: int = (1 << 64) - 1
    #: The greatest latency.
    max_ns: int = 0

    @property
    def count(self) -> int:
        """Number of requests."""
        return sum(self.bins.values())

    @property
    def mean_ns(self) -> float:
        """Mean latency; zero if there are no requests."""
        count = self.count
        return self.sum_ns / count if count else 0.0

    def add(self, other: Histogram) -> None:
        """Add the requests of `other`."""
        for index, count in other.bins.items():
            self.bins[index] = self.bins.get(index, 0) + count
        self.sum_ns += other.sum_ns
        self.min_ns = min(self.min_ns, other.min_ns)
        self.max_ns = max(self.max_ns, other.max_ns)

    def __add__(self, other: Histogram) -> Histogram:
        return merge([self, other])

    def quantile(self, fraction: float) -> int:
        """Return the latency in nanoseconds that `fraction` of the requests do not exceed.

        It is the middle of a bin, limited by the exact least and greatest latency, as the binary
        and fio print it. Zero if there are no requests.
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"a quantile is a fraction from 0 to 1, not {fraction}")
        count = self.count
        rank = min(max(math.ceil(count * fraction), 1), max(count, 1))
        below = 0
        for index in sorted(self.bins):
            below += self.bins[index]
            if below >= rank:
                return min(max(bin_middle_ns(index), self.min_ns), self.max_ns)
        return 0

    def slower_than(self) -> Tuple[List[int], List[float]]:
        """Return latencies in nanoseconds, and the fraction of the requests that are slower.

        One point for each bin that is not empty: the curve to draw when tails are compared.
        """
        latencies, fractions = [], []
        left = count = self.count
        for index in sorted(self.bins):
            left -= self.bins[index]
            latencies.append(bin_middle_ns(index))
            fractions.append(left / count)
        return latencies, fractions


def merge(histograms: Iterable[Histogram]) -> Histogram:
    """Return the histogram of the requests of all `histograms` together."""
    merged = Histogram()
    for histogram in histograms:
        merged.add(histogram)
    return merged
