"""Counts what is made on Vulkan devices: memory, pipelines, descriptors of buffers, and recordings with their pools."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from dmlvk.runtime.kompute_library import kompute

_MADE_BY = ("sequence", "tensor_t", "device_tensor", "algorithm", "algorithms", "algorithm_like")


@contextlib.contextmanager
def native_objects() -> Iterator[collections.Counter[str]]:
    """How many were made since the block began, on all devices, by the names of Kompute's functions."""
    counts: collections.Counter[str] = collections.Counter()
    module = kompute()
    makers = [(module.Manager, name) for name in _MADE_BY] + [(module.Tensor, "create_staging")]
    with contextlib.ExitStack() as stack:
        for owner, name in makers:
            if hasattr(owner, name):  # not all in Kompute as it is on PyPI
                stack.enter_context(mock.patch.object(owner, name, _noting(getattr(owner, name), name, counts)))
        yield counts


def _noting(made: Any, name: str, counts: collections.Counter[str]) -> Any:
    def noting(owner: Any, *given: Any, **more: Any) -> Any:
        counts[name] += 1
        return made(owner, *given, **more)

    return noting
