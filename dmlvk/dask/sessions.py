"""ONNX sessions over blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dmlvk.dask.models import Array, Block, BlockModel, chosen, in_working_order
from dmlvk.errors import InvalidArgumentError
from dmlvk.onnx.api.session import InferenceSession


class SessionModel(BlockModel):
    """A session; which shapes its outputs have for a set of blocks, a run with zeros tells, once."""

    def __init__(self, session: InferenceSession, outputs: Sequence[str] | None) -> None:
        self._session = session
        self.label = type(session).__name__
        self.input_names = tuple(argument.name for argument in session.get_inputs())
        there = [argument.name for argument in session.get_outputs()]
        self.output_names = tuple(chosen(self.label, dict.fromkeys(there), outputs))
        self._known: dict[tuple[Block, ...], dict[str, Block]] = {}

    def results(self, blocks: Sequence[Block]) -> dict[str, Block]:
        key = tuple(blocks)
        if key not in self._known:
            assert self.output_names is not None
            zeros = [np.zeros(block.shape, block.dtype) for block in blocks]
            made = zip(self.output_names, self.run(zeros), strict=True)
            self._known[key] = {name: Block(array.shape, array.dtype) for name, array in made}
        return self._known[key]

    def run(self, blocks: Sequence[Array]) -> list[Array]:
        self._session = in_working_order(self._session)
        assert self.input_names is not None
        results: list[Any] = self._session.run(self.output_names, dict(zip(self.input_names, blocks, strict=True)))
        for name, result in zip(self.output_names or (), results, strict=True):
            if not isinstance(result, np.ndarray):
                raise InvalidArgumentError(
                    f"{self.label}: the output {name!r} is no array; got {type(result).__name__}"
                )
        return results

    def __dask_tokenize__(self) -> object:
        return self._session.__dask_tokenize__(), self.output_names
