"""Programs that know nothing of dmlvk: every session that they make computes with it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnxruntime

from dmlvk.onnxruntime import PROVIDER
from dmlvk.support.processes import STARTUP, reach_processes, startup_module


def first(providers: Sequence[Any] | None, options: Mapping[str, str]) -> list[Any]:
    """A program's list of providers with dmlvk's before all others, and the CPU provider at the end."""
    given = list(providers or [])
    names = [provider if isinstance(provider, str) else provider[0] for provider in given]
    if PROVIDER in names:
        return given
    own = (PROVIDER, dict(options)) if options else PROVIDER
    return [own, *given, *([] if "CPUExecutionProvider" in names else ["CPUExecutionProvider"])]


def take_sessions() -> None:
    """Lets every session of ONNX Runtime's that is made from now on have dmlvk's provider first.

    The device is the one that the environment variable ``DMLVK_DEVICE`` names. Sessions whose options name devices
    themselves, or a policy, stay as they are. Twice changes nothing.
    """
    session: Any = onnxruntime.InferenceSession
    made: Callable[..., None] = session.__init__
    if hasattr(made, "takes_dmlvk"):
        return

    def make(
        self: Any, path_or_bytes: Any, sess_options: Any = None, providers: Any = None, *rest: Any, **more: Any
    ) -> None:
        if sess_options is None or not getattr(sess_options, "has_providers", lambda: False)():
            given = rest[0] if rest else more.pop("provider_options", None)
            if given is not None:
                names = [provider if isinstance(provider, str) else provider[0] for provider in providers or []]
                providers = list(zip(names, given, strict=False))
            device = os.environ.get("DMLVK_DEVICE")
            providers, rest = first(providers, {"device": device} if device else {}), (None, *rest[1:]) if rest else ()
        made(self, path_or_bytes, sess_options, providers, *rest, **more)

    make.takes_dmlvk = True  # type: ignore[attr-defined]
    session.__init__ = make


def take_models() -> None:
    """Lets every model of onnxruntime-genai's that is made from now on run by dmlvk, whatever providers are named.

    Twice changes nothing.
    """
    import dmlvk.onnxruntime.genai

    dmlvk.onnxruntime.genai.take_models()


def pass_on(device: str | None) -> None:
    """Lets this process and those that it starts have dmlvk, by their environment.

    Args:
        device: what ``DMLVK_DEVICE`` is to say; ``None``: what it says.
    """
    startup = startup_module()
    os.environ[startup.VARIABLE] = "1"
    if device is not None:
        os.environ["DMLVK_DEVICE"] = device
    reach_processes()
    startup.install()


__all__ = ["STARTUP", "first", "pass_on", "take_models", "take_sessions"]
