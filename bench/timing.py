"""How long a call takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

SHORTEST_SAMPLE = 0.002  # seconds; calls faster than this are timed several at once
WARM_UP_SECONDS = 0.03


def time_calls(call: Callable[[], Any], seconds: float) -> float:
    """Median seconds of one call, measured for about `seconds` after a warm-up of the caches."""
    warm_up_end = time.perf_counter() + WARM_UP_SECONDS
    start = time.perf_counter()
    calls = 0
    while calls == 0 or time.perf_counter() < warm_up_end:
        call()
        calls += 1
    one = (time.perf_counter() - start) / calls
    repeats = max(1, int(SHORTEST_SAMPLE / one))
    samples: list[float] = []
    end = time.perf_counter() + seconds
    while len(samples) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        samples.append((time.perf_counter() - start) / repeats)
    return statistics.median(samples)
