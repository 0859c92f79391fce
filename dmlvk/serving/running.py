"""Runs the application until a signal ends it: answers under way are finished, or told."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from dmlvk.serving.app import Bounds, Server
from dmlvk.serving.errors import invalid, overloaded

if TYPE_CHECKING:
    from dmlvk.language.batch import Drafter
    from dmlvk.language.generation import LanguageModel
    from dmlvk.serving.vectors import Vectors

_MOST_CONNECTIONS = 1024

_HEAD_SECONDS = 30.0  # In which a client must have sent a request's head
_LAST_SECONDS = 2  # In which answers that were ended reach their clients

_ARENA_MAX, _HEAPS = -8, 2  # M_ARENA_MAX of glibc's <malloc.h>, and how many


class HeadsInTime(H11Protocol):
    """Connections that are ended where no whole head of a request comes: else a few clients could hold all of them."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:  # an asyncio.Transport
        """The first head is awaited."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """A head is awaited, until it is whole; and the end of a body whose request has its answer already."""
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited."""
        super().connection_lost(exc)
        self._stop_timer()

    def send_400_response(self, msg: str) -> None:
        """What is no request is answered in the form of all other errors, unless its answer has begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps(invalid(msg).content()).encode()
            kind = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
            head = h11.Response(status_code=400, headers=kind, reason="Bad Request")
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event))
        self.transport.close()

    def _await_head(self) -> None:
        if self.conn.their_state is not h11.IDLE and self.conn.our_state is not h11.DONE:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(_HEAD_SECONDS, self._end)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        if self.conn.our_state is h11.DONE:  # what is left of a request's body that has its answer
            self.transport.close()
        elif not self.transport.is_closing():
            self.send_400_response(f"The request's head did not come within {_HEAD_SECONDS:.0f} s.")


def configured(server: Server, *, grace: float, **more: Any) -> uvicorn.Config:
    """What uvicorn is told of an application.

    Args:
        grace: seconds for which it waits for answers when it ends.
        more: fields of its configuration.
    """
    return uvicorn.Config(
        server.app,
        http=HeadsInTime,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=round(grace) + _LAST_SECONDS,
        **more,
    )


class EndingServer(uvicorn.Server):
    """An ASGI server that tells the engine when it ends.

    Args:
        grace: seconds for which answers under way may go on.
        started: is told the address when it listens.
    """

    should_exit: bool
    force_exit: bool

    def __init__(self, config: uvicorn.Config, server: Server, grace: float, started: Callable[[str], object]) -> None:
        super().__init__(config)
        self._engine, self._grace, self._started = server.engine, grace, started

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ends the server, and not the process, which has things to put away: a second Ctrl-C ends it at once."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begins to listen."""
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            self._started(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes no more requests, and lets those that are there end."""
        self._engine.refuse(overloaded("the server is ending"))
        ended = overloaded("the server is ending: the answer was cut off")
        timer = asyncio.get_running_loop().call_later(self._grace, lambda: self._engine.refuse(ended, ends_all=True))
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()


def share_heaps() -> None:
    """Has glibc's threads share two heaps, not one for every thread: what one of them frees another one takes.

    The server's threads hand on what they make, so that each heap keeps pieces of all: on an NVIDIA H200 10,000
    requests left 517 MiB in the process, of which 145 were free; with two heaps 406 and 20. Other C libraries are left
    as they are, and so is the number that MALLOC_ARENA_MAX says. To be called before there are threads.
    """
    if sys.platform == "linux" and "MALLOC_ARENA_MAX" not in os.environ:
        library = ctypes.CDLL(None)
        if hasattr(library, "gnu_get_libc_version"):
            library.mallopt(_ARENA_MAX, _HEAPS)


def serve(
    model: LanguageModel,  # what answers; nobody else may use it meanwhile
    name: str,  # what clients call it
    bounds: Bounds,  # what they may ask for
    *,
    drafter: Drafter | None = None,  # what guesses tokens; the model was opened with ``drafts`` then
    vectors: Vectors | None = None,  # what makes vectors of texts
    host: str = "127.0.0.1",  # the address to listen at
    port: int = 8000,  # likewise; 0: any that is free
    grace: float = 30.0,  # seconds for which answers under way may go on when a signal has come
    started: Callable[[str], object] = print,  # is told the address when it listens
) -> None:
    """Serves a model until a signal ends it."""
    if model.device.info.kind != "CPU":  # where a prompt takes longer than its plan
        model.batch().warm_up()
    server = Server(model, name, bounds, drafter, vectors)
    EndingServer(configured(server, grace=grace, host=host, port=port), server, grace, started).run()
