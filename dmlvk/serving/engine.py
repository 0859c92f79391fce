"""One thread that continues all texts under way, and tells each one's reader what came."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dmlvk.errors import DeviceRemovedError, DmlError
from dmlvk.serving.errors import SERVER, ApiError, overloaded

if TYPE_CHECKING:
    from dmlvk.language.batch import Batch, BatchText, Likelihood, Step, Wishes
    from dmlvk.language.generation import LanguageModel
    from dmlvk.language.sampling import Sampling

_LOG = logging.getLogger("dmlvk.serving")


@dataclasses.dataclass(frozen=True)
class Token:
    """A token that came."""

    number: int  # of the vocabulary
    likelihood: Likelihood | None  # as far as it is wanted
    is_last: bool  # whether no more will come, since there is no more room or none is wanted
    ends: bool  # whether it ends the text, and is none of it
    digest: str = ""  # of the bits of all logits up to this one's; empty: not wanted


Event = Token | ApiError


class Generation:
    """A text that is to be continued.

    Attributes:
        events: what came of it, for its reader, who has the event loop.
        count: tokens that came.

    Args:
        most: how many tokens at most, those that are forced among them.
    """

    def __init__(self, tokens: Sequence[int], sampling: Sampling, wishes: Wishes, most: int) -> None:
        self.tokens, self.sampling, self.wishes, self.most = tokens, sampling, wishes, most
        self.events: asyncio.Queue[Event] = asyncio.Queue()
        self.is_cancelled, self.count = False, 0


class Engine:
    """Continues texts, as many at once as the model has places; the others wait in turn.

    Args:
        model: the model, which nobody else may use meanwhile.
        most_waiting: texts that may wait for a place.
    """

    def __init__(self, model: LanguageModel, most_waiting: int) -> None:
        self._model, self._most_waiting = model, most_waiting
        self._waiting: collections.deque[Generation] = collections.deque()
        self._under_way: dict[BatchText, Generation] = {}
        self._changed = threading.Condition()
        self._refusal: ApiError | None = None
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="dmlvk.serving", daemon=True)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begins; events go to readers in this loop."""
        self._loop = loop
        self._thread.start()

    def close(self) -> None:
        """Ends all texts and the thread."""
        self.refuse(overloaded("the server is ending"), ends_all=True)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def refuse(self, error: ApiError, *, ends_all: bool = False) -> None:
        """Takes no more texts; those that are there are told so, too, or finished."""
        with self._changed:
            self._refusal = self._refusal or error
            if ends_all:
                self._fail(error)
            self._changed.notify_all()

    @property
    def counts(self) -> tuple[int, int]:
        """Texts under way, and those that wait."""
        return len(self._under_way), len(self._waiting)

    def submit(self, generations: Sequence[Generation]) -> None:
        """Takes texts, all or none.

        Raises:
            ApiError: too many wait, or the server is ending.
        """
        with self._changed:
            if self._refusal is not None:
                raise self._refusal
            if len(self._waiting) + len(generations) > self._most_waiting:
                raise overloaded(
                    f"{len(self._waiting)} texts wait for a place; with these {len(generations)} they would be more "
                    f"than {self._most_waiting}"
                )
            self._waiting += generations
            self._changed.notify_all()

    def cancel(self, generations: Sequence[Generation]) -> None:
        """Nobody reads any more what comes of these texts: their places are free from the next step on."""
        with self._changed:
            for generation in generations:
                generation.is_cancelled = True
            self._changed.notify_all()

    def _run(self) -> None:
        reason = "the engine stopped; the server's log says why"
        try:
            batch = self._model.batch()
            while self._admit(batch):
                try:
                    found = batch.step()
                except DmlError as error:
                    _LOG.exception("a step failed")
                    with self._changed:
                        self._fail(ApiError(500, f"the device failed: {error}", SERVER), waiting=False)
                    if isinstance(error, DeviceRemovedError):
                        reason = f"the device is lost: {error}"
                        return
                    continue
                with self._changed:
                    self._tell([self._event(batch, step) for step in found if step.text in self._under_way])
        finally:
            self.refuse(ApiError(503, reason, SERVER), ends_all=True)

    def _admit(self, batch: Batch) -> bool:
        """Waits until there is something to do, gives free places to those that wait; false at the end."""
        with self._changed:
            while True:
                for text, generation in list(self._under_way.items()):
                    if generation.is_cancelled:
                        del self._under_way[text]
                for text in list(batch.texts):
                    if text not in self._under_way:
                        batch.remove(text)
                while self._waiting and batch.free:
                    generation = self._waiting.popleft()
                    if not generation.is_cancelled:
                        text = batch.add(generation.tokens, generation.sampling, generation.wishes)
                        self._under_way[text] = generation
                if self._is_closed:
                    return False
                if self._under_way:
                    return True
                self._changed.wait()

    def _event(self, batch: Batch, step: Step) -> tuple[Generation, Token]:
        generation, text, token = self._under_way[step.text], step.text, step.token
        generation.count += 1
        ends = generation.count > len(generation.wishes.forced) and token in self._model.folder.end_tokens
        is_last = ends or generation.count >= generation.most
        if is_last:
            del self._under_way[text]
            batch.remove(text)
        digest = text.hash.hexdigest() if generation.wishes.hashes else ""
        return generation, Token(token, step.likelihood, is_last, ends, digest)

    def _fail(self, error: ApiError, *, waiting: bool = True) -> None:
        """Tells all texts that they end; the lock is held."""
        ended = [*self._under_way.values(), *(self._waiting if waiting else ())]
        self._under_way.clear()
        if waiting:
            self._waiting.clear()
        self._tell([(generation, error) for generation in ended])

    def _tell(self, events: Sequence[tuple[Generation, Event]]) -> None:
        def put() -> None:
            for generation, event in events:
                generation.events.put_nowait(event)

        if events and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and so have all readers
                self._loop.call_soon_threadsafe(put)
