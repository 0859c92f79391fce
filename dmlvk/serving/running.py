"""Runs the application until a signal ends it: answers under way are finished, or told."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from dmlvk.serving.app import Bounds, Server
from dmlvk.serving.errors import overloaded

if TYPE_CHECKING:
    from dmlvk.language.batch import Drafter
    from dmlvk.language.generation import LanguageModel
    from dmlvk.serving.vectors import Vectors

_MOST_CONNECTIONS = 1024
_LAST_SECONDS = 2
"""In which answers that were ended reach their clients."""


class EndingServer(uvicorn.Server):
    """An ASGI server that tells the engine when it ends.

    Args:
        config: uvicorn's.
        server: the application.
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


def serve(
    model: LanguageModel,
    name: str,
    bounds: Bounds,
    *,
    drafter: Drafter | None = None,
    vectors: Vectors | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    grace: float = 30.0,
    started: Callable[[str], object] = print,
) -> None:
    """Serves a model until a signal ends it.

    Args:
        model: what answers; nobody else may use it meanwhile.
        name: what clients call it.
        bounds: what they may ask for.
        drafter: what guesses tokens; the model was opened with ``drafts`` then.
        vectors: what makes vectors of texts.
        host: the address to listen at.
        port: likewise; 0: any that is free.
        grace: seconds for which answers under way may go on when a signal has come.
        started: is told the address when it listens.
    """
    server = Server(model, name, bounds, drafter, vectors)
    config = uvicorn.Config(
        server.app,
        host=host,
        port=port,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=round(grace) + _LAST_SECONDS,
    )
    EndingServer(config, server, grace, started).run()


__all__ = ["EndingServer", "serve"]
