"""A decoder's next step is begun before it is asked for, while programs take the likeliest tokens.

Between two steps onnxruntime-genai looks at logits, chooses a token, and hands over masks and lengths; the device would
wait for that. So the step of the likeliest token is begun as soon as the logits are there. Where it is the one that is
asked for, it has run meanwhile. Else the step that is asked for writes over what this one wrote; where it does not,
since it stands elsewhere in the text, the rows of the caches are put back. So they are before anyone else reads caches
or appends to them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.errors import OutOfMemoryError
from dmlvk.onnx.nodes.values import Bytes, bytes_of
from dmlvk.onnxruntime.kept_rows import KeptRows
from dmlvk.onnxruntime.memory import Content
from dmlvk.running.replay import Replay

_CERTAIN = 2  # Tokens in a row that were the likeliest ones before the next one is counted upon

_MOST_ERRORS = 4
"""Steps that nobody asked for, after which nothing is begun any more: tokens are drawn at random, or caches shared."""

_FORGIVEN = 32  # Steps in a row that were asked for, behind which earlier errors do not count

_Array = npt.NDArray[Any]


class Ahead:
    """The steps of one decoder on caches that stay where they are."""

    def __init__(
        self,
        whole: Replay,  # a step, as one submission
        inputs: Mapping[str, _Array],  # of a step, by name: arrays as the host writes them
        logits: str,
        dtype: npt.DTypeLike,  # of the logits, which are those of one token
        # where in the caches a step on such inputs writes; ``None``: it cannot be run with them as they lie
        row_of: Callable[[Mapping[str, _Array]], int | None],
        rows: KeptRows,  # the rows of the caches
        contents: Sequence[Content],  # what lies at the caches' places
    ) -> None:
        self._whole, self._logits, self._dtype = whole, logits, np.dtype(dtype)
        self._kinds = {name: (array.dtype, array.shape) for name, array in inputs.items()}
        self._row_of, self._rows, self._contents = row_of, rows, contents
        self._last: Mapping[str, _Array] | None = None
        self._likeliest = -1
        self._token: str | None = None
        self._certain = self._errors = self._taken = 0
        self._begun: Mapping[str, _Array] | None = None
        self._row = 0
        """Where what was begun writes."""
        self._lock = threading.RLock()  # caches may be read while another thread runs the decoder

    @property
    def has_begun(self) -> bool:
        """Whether there is a step that nobody has asked for yet."""
        return self._begun is not None

    def run(self, given: Mapping[str, Bytes], results: Mapping[str, Bytes]) -> None:
        """Runs a step, or takes what it gave; then begins the next one.

        Args:
            given: as for :meth:`Replay.run`.
            results: likewise; the logits among them.

        Raises:
            DeviceRemovedError: when the device is lost or closed.
        """
        with self._lock:
            self._run(given, results)

    def _run(self, given: Mapping[str, Bytes], results: Mapping[str, Bytes]) -> None:
        now = {name: given[name].view(dtype).reshape(shape) for name, (dtype, shape) in self._kinds.items()}
        begun = self._taken_over()
        if begun is not None and all(np.array_equal(now[name], array) for name, array in begun.items()):
            self._taken += 1
            if self._taken >= _FORGIVEN:
                self._errors = 0
            self._whole.finish(results)
        else:
            if begun is not None:
                self._count_error()
                if self._row_of(now) != self._row:
                    self._rows.put_back(self._row)
                self._rows.forget()
            self._whole.run(given, results)
        if self._errors >= _MOST_ERRORS:
            return
        growing = self._growing(now)
        is_likeliest = self._token is not None and int(now[self._token].item()) == self._likeliest
        self._certain = self._certain + 1 if is_likeliest else 0
        self._last = {name: array.copy() for name, array in now.items()}  # they may be views of memory that is reused
        self._likeliest = _index_of_largest(results[self._logits].view(self._dtype))
        if growing is not None and self._certain >= _CERTAIN:
            self._begin(growing)

    def stop(self) -> None:
        """Takes back what was begun: something else is about to run, or to use the caches."""
        with self._lock:
            if self._taken_over() is not None:
                self._count_error()
                self._rows.put_back(self._row)
            self._rows.forget()
            self._last = None
            self._certain = 0

    def _count_error(self) -> None:
        self._errors += 1
        self._taken = 0

    def _taken_over(self) -> Mapping[str, _Array] | None:
        """What was begun, which is no longer on its own from now on."""
        begun, self._begun = self._begun, None
        if begun is not None:
            for content in self._contents:
                content.take_back = None
        return begun

    def _growing(self, now: Mapping[str, _Array]) -> list[str] | None:
        """The inputs that grow by one from step to step; ``None`` where others than these and the token change."""
        if self._last is None:
            return None
        growing: list[str] = []
        others: list[str] = []
        for name, array in now.items():
            last = self._last[name]
            if name == self._token or np.array_equal(array, last):
                continue
            is_counted = array.dtype.kind in "iu" and np.array_equal(array, _one_more(last))
            (growing if is_counted else others).append(name)
        if self._token is None and len(others) == 1 and now[others[0]].size == 1 and now[others[0]].dtype.kind in "iu":
            self._token = others.pop()
        return growing if self._token is not None and not others else None

    def _begin(self, growing: Collection[str]) -> None:
        """Hands the step of the likeliest token to the device, if the caches have room for it."""
        assert self._last is not None and self._token is not None  # else nothing is certain
        following = {name: _one_more(array) if name in growing else array for name, array in self._last.items()}
        following[self._token] = np.full_like(self._last[self._token], self._likeliest)
        row = self._row_of(following)
        if row is None:
            return
        try:
            self._rows.keep(row)
        except OutOfMemoryError:
            self._errors = _MOST_ERRORS  # it works without
            return
        self._whole.start({name: bytes_of(array) for name, array in following.items()})
        self._begun, self._row = following, row
        for content in self._contents:
            content.take_back = self.stop


def _one_more(array: _Array) -> _Array:
    return np.asarray(np.add(array, 1, dtype=array.dtype))  # whose type NumPy 1 would not keep of a single number


def _index_of_largest(logits: _Array) -> int:
    if logits.dtype == np.float16:
        bits = logits.view(np.int16)  # which are ordered as positive halves are, and compared many at a time
        index = int(bits.argmax())
        return index if bits[index] > 0 else int(logits.argmax())
    return int(logits.argmax())
