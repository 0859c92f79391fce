"""Chat templates: Jinja's sandbox, as transformers has it, with a bound on steps, memory and time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dmlvk.errors import ModelFileError, UnsupportedError
from dmlvk.support import faults

_MOST_SOURCE = 2**20  # Characters of a template; those of models have some ten thousand

_MOST_OUTPUT = 2**22
"""Characters of a prompt: some hundred thousand tokens, of which each is looked at by the tokenizer."""


def rendered(template: str, messages: Sequence[Mapping[str, Any]], more: Mapping[str, Any], where: str) -> str:
    """A template with messages.

    Args:
        messages: each with a role and a content.
        more: what else it may read: texts of special tokens by their names, tools.
        where: the folder, for messages of errors.

    Raises:
        ModelFileError: the template is damaged, refuses the messages, or makes or takes too much.
        UnsupportedError: Jinja is not installed.
    """
    try:
        from dmlvk.language.template_sandbox import Environment  # needs Jinja, which need not be there
    except ImportError as error:
        raise UnsupportedError(f"language models need the extra chat: pip install dmlvk[chat] ({error})") from error
    if len(template) > _MOST_SOURCE:
        raise ModelFileError(
            f"{where}: its chat template has {len(template)} characters; at most {_MOST_SOURCE} are run"
        )
    environment = Environment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    try:
        text: str = environment.priced(template).render(messages=messages, add_generation_prompt=True, **more)
    except Exception as error:  # whatever a template makes Jinja or Python raise
        faults.raise_of_handler(error)
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise ModelFileError(f"{where}: its chat template fails: {reason}") from error
    if len(text) > _MOST_OUTPUT:
        raise ModelFileError(
            f"{where}: its chat template writes {len(text)} characters; at most {_MOST_OUTPUT} are run"
        )
    return text
