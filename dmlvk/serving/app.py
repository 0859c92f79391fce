"""The server's addresses: what is asked for there, within which bounds, and how it is answered."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dmlvk.serving.answers import Piece, Writer, pieces_of
from dmlvk.serving.asking import Asked, Reader
from dmlvk.serving.constraints import Grammars
from dmlvk.serving.engine import Engine, Generation
from dmlvk.serving.errors import NOT_FOUND, SERVER, TIMEOUT, UNAUTHORIZED, ApiError
from dmlvk.serving.fields import parsed

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from dmlvk.language.batch import Drafter
    from dmlvk.language.generation import LanguageModel
    from dmlvk.serving.vectors import Vectors

_BODY_SECONDS = 30.0  # For which a client may send a request's body

_LOCAL_ORIGINS = r"https?://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1")


@dataclasses.dataclass(frozen=True)
class Bounds:
    """What clients may ask for."""

    most_body: int = 2**22  # bytes of a request
    most_waiting: int = 256  # answers that may wait for a place
    seconds: float = 600.0  # until an answer is there, waiting included
    key: str = ""  # what clients must show; empty: nothing
    origins: tuple[str, ...] = ()  # of pages whose scripts may ask, besides those on this machine; ``*``: any
    # whether only names of this machine are answered to, as other pages' scripts could have others
    is_local: bool = True


class Server:
    """The application around a model.

    Attributes:
        app: for an ASGI server.
        engine: what continues texts.
    """

    def __init__(
        self,
        model: LanguageModel,
        name: str,
        bounds: Bounds,  # what they may ask for
        drafter: Drafter | None = None,  # what guesses tokens, where texts are not many
        vectors: Vectors | None = None,  # what makes vectors of texts; ``None``: nothing does
    ) -> None:
        self._vectors = vectors
        self._model, self._name, self._bounds = model, name, bounds
        self._reader = Reader(model, name, Grammars(model), drafter)
        self.engine = Engine(model, bounds.most_waiting)
        routes = [
            Route("/health", self._health, methods=["GET"]),
            Route("/v1/models", self._guarded(self._models), methods=["GET"]),
            Route("/v1/models/{name:path}", self._guarded(self._one_model), methods=["GET"]),
            Route("/v1/chat/completions", self._guarded(self._chat), methods=["POST"]),
            Route("/v1/completions", self._guarded(self._completion), methods=["POST"]),
            Route("/v1/embeddings", self._guarded(self._embedded), methods=["POST"]),
        ]
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(bounds.origins),
            allow_origin_regex=_LOCAL_ORIGINS,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
        )
        hosts = [Middleware(TrustedHostMiddleware, allowed_hosts=list(_LOCAL_HOSTS))] if bounds.is_local else []
        handlers: dict[Any, Any] = {ApiError: _error, HTTPException: _http_error, Exception: _fault}
        self.app = Starlette(
            routes=routes, middleware=[*hosts, cors], exception_handlers=handlers, lifespan=self._lifespan
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        self.engine.start(asyncio.get_running_loop())
        try:
            yield
        finally:
            await asyncio.to_thread(self.engine.close)

    def _guarded(self, answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """An address that only those get an answer from who have the key, if there is one."""

        async def guarded(request: Request) -> Response:
            given = request.headers.get("authorization", "").removeprefix("Bearer ").encode()
            if self._bounds.key and not hmac.compare_digest(given, self._bounds.key.encode()):
                raise ApiError(401, "the key is missing or wrong", UNAUTHORIZED, None, "invalid_api_key")
            return await answer(request)

        return guarded

    async def _health(self, _request: Request) -> Response:
        under_way, waiting = self.engine.counts
        return JSONResponse({"status": "ok", "under_way": under_way, "waiting": waiting})

    def _described(self) -> dict[str, Any]:
        return {
            "id": self._name,
            "object": "model",
            "created": 0,
            "owned_by": "dmlvk",
            "max_model_len": self._model.max_length,
        }

    def _all_described(self) -> list[dict[str, Any]]:
        others = [] if self._vectors is None else [self._vectors.described()]
        return [self._described(), *others]

    async def _models(self, _request: Request) -> Response:
        return JSONResponse({"object": "list", "data": self._all_described()})

    async def _one_model(self, request: Request) -> Response:
        name = request.path_params["name"]
        found = next((each for each in self._all_described() if each["id"] == name), None)
        if found is None:
            raise ApiError(404, f"there is no model {name[:100]!r}", NOT_FOUND, "model", "model_not_found")
        return JSONResponse(found)

    async def _chat(self, request: Request) -> Response:
        return await self._answered(request, self._reader.chat)

    async def _completion(self, request: Request) -> Response:
        return await self._answered(request, self._reader.completion)

    async def _embedded(self, request: Request) -> Response:
        if self._vectors is None:
            raise ApiError(404, "this server was started without --embeddings", NOT_FOUND)
        body = await self._body(request)
        until = asyncio.to_thread(self._vectors.answer, body)
        try:
            return JSONResponse(await asyncio.wait_for(until, self._bounds.seconds))
        except asyncio.TimeoutError as error:
            raise ApiError(504, "the answer took longer than this server allows", TIMEOUT) from error

    async def _answered(self, request: Request, read: Callable[[dict[str, Any]], Asked]) -> Response:
        until = time.monotonic() + self._bounds.seconds
        body = await self._body(request)
        asked = await asyncio.to_thread(lambda: read(parsed(body)))
        generations = await asyncio.to_thread(self._reader.generations, asked)
        writer = Writer(self._model, self._name, asked, hashlib.sha256(self._name.encode() + body).hexdigest()[:32])
        answer = _Answer(self._model, asked, generations, writer, until)
        self.engine.submit([generation for generation in generations if generation.most])
        if asked.streams:
            return _EventStream(answer, self.engine)
        try:
            made = await _unless_gone(answer.whole(), request.receive)
            return Response(status_code=499) if made is None else JSONResponse(made)
        finally:
            self.engine.cancel(generations)

    async def _body(self, request: Request) -> bytes:
        """All of a body, within its bound.

        Raises:
            ApiError: it is too long, or too slow.
        """
        most = self._bounds.most_body
        too_long = ApiError(413, f"the body has more than {most} bytes")
        if (
            request.headers.get("content-length", "0").isdecimal()
            and int(request.headers.get("content-length", "0")) > most
        ):
            raise too_long

        async def read() -> bytes:
            made = bytearray()
            async for part in request.stream():
                made += part
                if len(made) > most:
                    raise too_long
            return bytes(made)

        try:
            return await asyncio.wait_for(read(), _BODY_SECONDS)
        except asyncio.TimeoutError as error:
            raise ApiError(408, f"the body did not come within {_BODY_SECONDS:.0f} s", TIMEOUT) from error
        except ClientDisconnect as error:
            raise ApiError(400, "the client has gone") from error


class _Answer:
    """All choices of a request."""

    def __init__(
        self, model: LanguageModel, asked: Asked, generations: list[Generation], writer: Writer, until: float
    ) -> None:
        self._model, self.asked, self.generations, self._writer, self._until = model, asked, generations, writer, until

    def _pieces(self, number: int) -> AsyncIterator[Piece]:
        return pieces_of(self._model, self.asked, self.generations[number], self._until)

    def _completion_tokens(self, number: int, pieces: list[Piece]) -> int:
        return sum(len(piece.tokens) for piece in pieces) - len(self.generations[number].wishes.forced)

    async def whole(self) -> dict[str, Any]:
        """The answer in one."""
        choices, count = [], 0
        for number in range(len(self.generations)):
            pieces = [piece async for piece in self._pieces(number)]
            choices.append(self._writer.choice(number, pieces))
            count += self._completion_tokens(number, pieces)
        return self._writer.whole(choices, self._writer.usage(count))

    async def events(self) -> AsyncIterator[str]:
        """The answer piece by piece; choices come one after the other, so that the bytes are always the same."""
        asked, writer, count = self.asked, self._writer, 0
        for number in range(len(self.generations)):
            if asked.is_chat:
                yield _json(writer.whole([writer.role(number)], None))
            pieces: list[Piece] = []
            async for piece in self._pieces(number):
                pieces.append(piece)
                if asked.tools.choice == "none" and (piece.text or piece.finish or asked.likeliest is not None):
                    chunk = writer.chunk(number, piece, is_first=len(pieces) == 1)
                    if piece.finish and asked.wants_receipt:
                        tokens = [token for each in pieces for token in each.tokens]
                        chunk["receipt"] = writer.receipt(number, tokens)
                    yield _json(writer.whole([chunk], None))
            if asked.tools.choice != "none":
                yield _json(writer.whole([writer.said(writer.choice(number, pieces))], None))
            count += self._completion_tokens(number, pieces)
        if asked.shows_usage:
            yield _json(writer.whole([], writer.usage(count)))
        yield "[DONE]"


class _EventStream(Response):
    """Server-sent events until they end, or until nobody listens any more."""

    def __init__(self, answer: _Answer, engine: Engine) -> None:
        super().__init__(media_type="text/event-stream", headers={"cache-control": "no-cache"})
        del self.headers["content-length"]
        self._answer, self._engine = answer, engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends all."""
        try:
            await _unless_gone(self._send_all(send), receive)
        finally:
            self._engine.cancel(self._answer.generations)

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})

        async def put(data: str) -> None:
            await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True})

        try:
            async for data in self._answer.events():
                await put(data)
        except ApiError as error:
            await put(_json(error.content()))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _unless_gone(work: Any, receive: Receive) -> Any:
    """What work gives; ``None`` where the client went before, with which the work ends."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(gone())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def _error(_request: Request, error: ApiError) -> Response:
    headers = {"retry-after": "1"} if error.status == 503 else {}
    return JSONResponse(error.content(), error.status, headers)


async def _http_error(request: Request, error: HTTPException) -> Response:
    what = {404: f"there is no {request.url.path[:200]}", 405: f"{request.url.path[:200]} takes no {request.method}"}
    kind = NOT_FOUND if error.status_code == 404 else "invalid_request_error"
    content = ApiError(error.status_code, what.get(error.status_code, str(error.detail)), kind).content()
    return JSONResponse(content, error.status_code, error.headers)


async def _fault(_request: Request, _error: Exception) -> Response:
    return JSONResponse(ApiError(500, "the server failed; its log says how", SERVER).content(), 500)
