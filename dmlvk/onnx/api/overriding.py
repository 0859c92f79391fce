"""Runs that give contents for initializers: those that a model lists among its inputs, too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from dmlvk.onnx.model.loading import OnnxModel
from dmlvk.support.recent import Recent

_MOST = 4  # Sessions of other inputs that are kept for a model; each has its weights on the device

_FIRST_VERSION = 4  # Of ONNX's files: before it every initializer was listed as an input, and none could be given


class _Closable(Protocol):
    def close(self) -> None: ...


SessionT = TypeVar("SessionT", bound=_Closable)


class Overriding(Generic[SessionT]):
    """Sessions of one model for each choice of initializers that runs give as inputs.

    Such an initializer is no constant there, so nothing that follows from it is computed ahead.

    Attributes:
        names: of the initializers that a run may give.
    """

    def __init__(self, model: OnnxModel) -> None:
        is_possible = model.proto.ir_version >= _FIRST_VERSION
        self.names = frozenset(info.name for info in model.overridable) if is_possible else frozenset()
        self._lock = threading.Lock()
        self._sessions: Recent[frozenset[str], SessionT] = Recent(_MOST)

    def session_for(self, feed: Any, made: Callable[[frozenset[str]], SessionT]) -> SessionT | None:
        """The session for what a run is given; ``None``: it gives no initializer.

        Args:
            feed: the inputs by name; whatever else it is, others refuse.
            made: makes a session in which these initializers are inputs.

        Raises:
            DmlError: when it cannot be made.
        """
        given = self.names.intersection(feed) if self.names and isinstance(feed, Mapping) else frozenset()
        if not given:
            return None
        with self._lock:
            return self._sessions.of(given, lambda: made(given))

    def close(self) -> None:
        """Frees what lies on the device."""
        with self._lock:
            for session in self._sessions.values():
                session.close()
            self._sessions.clear()
