"""How a model gets to the workers: as a task of its own, and a large one once for all arrays that it is mapped over."""

from __future__ import annotations

import pickle
import warnings
import weakref
from typing import Any

import distributed
from dask.base import tokenize
from dask.delayed import delayed

from dmlvk.dask.models import BlockModel
from dmlvk.support.recent import Recent

LARGE = 2**20  # Bytes of a model from which on it stays on the cluster: what is smaller is sent as fast as asked for

_MOST_KEPT = 8  # Large models that stay on a cluster whether arrays need them or not; the last ones

_kept: weakref.WeakKeyDictionary[distributed.Client, Recent[str, Any]] = weakref.WeakKeyDictionary()
"""By client and token: Dask's name of a task that the scheduler knows, and computes again where its worker dies."""


def sent(model: BlockModel, name: str | None) -> Any:
    """The model as an operand of Dask's blockwise operations: a task, which each worker gets once.

    A graph of Dask's has all its tasks in it, so 100 MB of weights would travel with every array that is computed. With
    a client those of a large model travel here, once; what is made of it belongs to that client, as what is
    persisted does.

    Args:
        name: beginning of the task's key; ``None``: the model's.
    """
    token = tokenize(model)
    task = delayed(model, name=f"{name or model.label}-model-{token}", traverse=False)
    client = _client()
    if client is None:
        return task
    kept = _kept.setdefault(client, Recent(_MOST_KEPT))
    there = kept.get(token)
    if there is None or _is_lost(there):
        if _size_in_bytes(model) < LARGE:
            return task
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # which is done once, here, for all others
            there = client.persist(task)
    return kept.keep(token, there)


def _is_lost(task: Any) -> bool:
    return any(future.status in ("cancelled", "lost", "error") for future in distributed.futures_of(task))


def _client() -> Any:
    """The client that computes arrays now, if there is one."""
    try:
        return distributed.default_client()
    except ValueError:
        return None


def _size_in_bytes(model: BlockModel) -> int:
    arrays: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(model, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(array.raw().nbytes for array in arrays)
