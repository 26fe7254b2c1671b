"""What operations on fakes gave in earlier processes' captures of the same callable.

They are kept by name alone: each result has its own key, so that a file of another callable with that name,
or of other sizes, costs a miss and no more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lamina.eager import known_results
from lamina.options import Options
from lamina.runtime.cache import Cache, key_of

KIND = "results"
CAPACITY = 4_000
"""Results in a file; the newest are kept."""


@contextlib.contextmanager
def earlier_results(name: str, options: Options) -> Iterator[None]:
    """Within it the earlier results are known; what was new is written at its end."""
    if not options.cache:
        yield
        return
    cache, key = Cache(options.cache_path()), key_of("results on fakes", name)
    earlier = read_earlier(cache, key)
    with known_results.recording() as used:
        yield
    if not used.keys() <= earlier.keys():
        others = [item for item in earlier.items() if item[0] not in used]
        cache.put(KIND, key, known_results.write(dict([*others, *used.items()][-CAPACITY:])))


def read_earlier(cache: Cache, key: str) -> dict[known_results.Key, known_results.Recipe]:
    """What is on disk; nothing where that is not readable."""
    data = cache.get(KIND, key)
    if data is None:
        return {}
    try:
        return known_results.read(data)
    except Exception as error:
        cache.reject(KIND, key, f"not readable ({type(error).__name__})")
        return {}
