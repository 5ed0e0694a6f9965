"""Load the next steps' batches in the background while this one computes; the order is that of the indices."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def prefetch(load: Callable[[int], T], indices: Iterable[int], *, depth: int = 2) -> Generator[T]:
    """Yield `load(index)` for every index in order, up to `depth` loads ahead of the consumer.

    An exception in `load` is raised where its result would have come. Closing the generator ends the thread.
    """
    waiting = iter(indices)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="osler-prefetch") as pool:
        ahead: deque[Future[T]] = deque(pool.submit(load, index) for index in islice(waiting, depth))
        try:
            while ahead:
                ready = ahead.popleft().result()
                ahead.extend(pool.submit(load, index) for index in islice(waiting, 1))
                yield ready
        finally:
            for future in ahead:
                future.cancel()
