"""A decoder's runs on caches that lie on the device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk.onnx as ort

CACHES = ("past_key", "past_value")
PRESENTS = ("present_key", "present_value")

Array = npt.NDArray[Any]


def bound(
    session: ort.InferenceSession, feed: Mapping[str, Array], caches: Mapping[str, Any], *, are_shared: bool
) -> Any:
    """A binding for one run: results and new tokens go through the host, caches do not.

    Args:
        session: a model with the output ``y``.
        caches: an OrtValue for each of :data:`CACHES`.
        are_shared: whether presents are written where the pasts lie; else they get memory of their own.
    """
    binding = session.io_binding()
    for name, array in feed.items():
        binding.bind_cpu_input(name, array)
    binding.bind_output("y")
    for past, present in zip(CACHES, PRESENTS, strict=True):
        binding.bind_ortvalue_input(past, caches[past])
        if are_shared:
            binding.bind_ortvalue_output(present, caches[past])
        else:
            binding.bind_output(present, "dml")
    return binding


def bound_steps(session: ort.InferenceSession, feeds: Iterable[Mapping[str, Array]], empty: Array) -> Iterator[Array]:
    """The result ``y`` of each part of a text.

    Args:
        session: a model with the output ``y``.
        feeds: what the host gives for each part.
        empty: caches before the first one; without rows they grow, else they are shared.
    """
    caches = {name: ort.OrtValue.ortvalue_from_numpy(empty, "dml") for name in CACHES}
    are_shared = bool(empty.shape[2])
    for feed in feeds:
        binding = bound(session, feed, caches, are_shared=are_shared)
        binding.run()
        y, *presents = binding.get_outputs()
        yield np.asarray(y.numpy())
        if not are_shared:
            caches = dict(zip(CACHES, presents, strict=True))
