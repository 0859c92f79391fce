"""Programs that know nothing of dmlvk: every session that they make computes with it."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnxruntime

from dmlvk.onnxruntime import PROVIDER
from dmlvk.support.processes import STARTUP, reach_processes, startup_module

_CPU = "CPUExecutionProvider"


def first(
    providers: Sequence[Any] | None, provider_options: Sequence[Any] | None, options: Mapping[str, str]
) -> tuple[Any, Any]:
    """A program's providers with dmlvk's before all others, and the CPU provider at the end.

    Where the program names dmlvk's itself, that goes before the CPU provider with the options that it has there, and
    stays where it is beside others. What ONNX Runtime refuses is given to it as it is.

    Args:
        providers: names, and pairs of names and options.
        provider_options: for names alone, the options of each; ``None``: there are none.
        options: dmlvk's, where the program does not name it.
    """
    if not _is_valid(providers, provider_options):
        return providers, provider_options
    given = list(providers or [])
    pairs: list[Any] = given if provider_options is None else list(zip(given, provider_options, strict=True))
    names = [pair if isinstance(pair, str) else pair[0] for pair in pairs]
    if PROVIDER not in names:
        pairs.insert(0, (PROVIDER, dict(options)) if options else PROVIDER)
    elif _CPU in names and names.index(_CPU) < names.index(PROVIDER):
        pairs.insert(names.index(_CPU), pairs.pop(names.index(PROVIDER)))
    return [*pairs, *([] if _CPU in names else [_CPU])], None


def _is_valid(providers: Any, provider_options: Any) -> bool:
    """Whether ONNX Runtime takes such lists."""
    if providers is None:
        return provider_options is None
    if not isinstance(providers, Sequence) or isinstance(providers, (str, bytes)):
        return False
    if provider_options is None:
        return all(isinstance(provider, str) or _is_pair(provider) for provider in providers)
    return (
        isinstance(provider_options, Sequence)
        and len(provider_options) == len(providers)
        and all(map(_is_pair, zip(providers, provider_options, strict=True)))
    )


def _is_pair(provider: Any) -> bool:
    is_one = isinstance(provider, tuple) and len(provider) == 2
    return is_one and isinstance(provider[0], str) and isinstance(provider[1], dict)


def take_sessions() -> None:
    """Lets every session of ONNX Runtime's that is made from now on, or given other providers, have dmlvk's first.

    The device is the one that the environment variable ``DMLVK_DEVICE`` names. Sessions whose options name devices
    themselves, or a policy, stay as they are, and so do those that dmlvk makes. Twice changes nothing.
    """
    session: Any = onnxruntime.InferenceSession
    made: Callable[..., None] = session.__init__
    changed: Callable[..., None] = session.set_providers
    if hasattr(made, "takes_dmlvk"):
        return

    def taken(providers: Any, provider_options: Any) -> tuple[Any, Any]:
        device = os.environ.get("DMLVK_DEVICE")
        return first(providers, provider_options, {"device": device} if device else {})

    @functools.wraps(made)
    def make(
        self: Any,
        path_or_bytes: Any,
        sess_options: Any = None,
        providers: Any = None,
        provider_options: Any = None,
        *rest: Any,
        **more: Any,
    ) -> None:
        is_own = str(sys._getframe(1).f_globals.get("__name__")).startswith("dmlvk.")
        if not is_own and not getattr(sess_options, "has_providers", lambda: False)():
            providers, provider_options = taken(providers, provider_options)
        made(self, path_or_bytes, sess_options, providers, provider_options, *rest, **more)

    @functools.wraps(changed)
    def change(self: Any, providers: Any = None, provider_options: Any = None) -> None:
        # ONNX Runtime itself does so with providers to fall back on, when a run fails by those that it has.
        if providers is not getattr(self, "_fallback_providers", self):
            providers, provider_options = taken(providers, provider_options)
        changed(self, providers, provider_options)

    make.takes_dmlvk = True  # type: ignore[attr-defined]
    session.__init__, session.set_providers = make, change


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
