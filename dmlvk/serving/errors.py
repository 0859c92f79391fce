"""What a client is told that asks for what it cannot have."""

from __future__ import annotations

from typing import Any

INVALID, NOT_FOUND, UNAUTHORIZED = "invalid_request_error", "not_found_error", "authentication_error"
SERVER, OVERLOADED, TIMEOUT = "server_error", "overloaded_error", "timeout_error"


class ApiError(Exception):
    """An answer that is an error, in OpenAI's form.

    Attributes:
        status: of HTTP.
        message: what is wrong.
        kind: OpenAI's type.
        param: the field; ``None``: no single one.
        code: OpenAI's code, where it has one.
    """

    def __init__(
        self, status: int, message: str, kind: str = INVALID, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.code = status, kind, code
        # halves of characters, which requests may have, are in no answer
        self.message, self.param = _whole(message), None if param is None else _whole(param)

    def content(self) -> dict[str, Any]:
        """The JSON object."""
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def _whole(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A request that no server could answer."""
    return ApiError(400, message, INVALID, param, code)


def overloaded(message: str) -> ApiError:
    """One that may be asked again later."""
    return ApiError(503, message, OVERLOADED)
