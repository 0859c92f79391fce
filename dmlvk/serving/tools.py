"""Functions that a model may call: told to its template, and found in what it says."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

from dmlvk.serving.fields import Fields, loaded

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MOST_TOOLS = 128
_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*(?:</tool_call>|$)", re.DOTALL)  # As Hermes, Qwen and others write calls

_PREFIX = re.compile(r"^\s*(?:\[TOOL_CALLS\]|<\|python_tag\|>)?\s*")
"""What Mistral and Llama 3 may write in front of a call, which is JSON and nothing else."""


@dataclasses.dataclass(frozen=True)
class Tools:
    """The functions of a request."""

    definitions: Sequence[dict[str, Any]] = ()  # as the request has them
    choice: str = "none"  # ``none``, ``auto``, ``required``, or the name of the function to call

    @classmethod
    def read(cls, fields: Fields) -> Tools:
        """The request's.

        Raises:
            ApiError: they break a rule.
        """
        definitions = fields.listed("tools", _MOST_TOOLS)
        for number, each in enumerate(definitions):
            tool = fields.of(each, f"tools[{number}]")
            function = tool.inside("function")
            if tool.text("type") != "function" or function is None:
                raise tool.fault("type", "function, with an object of that name")
            tool.check()
            if not _NAME.fullmatch(function.text("name")):
                raise function.fault("name", "1 to 64 letters, digits, points, dashes or underscores")
            function.inside("parameters")
            function.text("description")
            function.flag("strict")
            function.check()
        names = [each["function"]["name"] for each in definitions]
        choice = fields.value("tool_choice")
        if isinstance(choice, dict):
            wanted = Fields(choice, "tool_choice")
            wanted.one_of("type", ("function",))
            inner = wanted.inside("function")
            wanted.check()
            choice = "" if inner is None else inner.text("name")
            if inner is not None:
                inner.check()
            if choice not in names:
                raise fields.fault("tool_choice", f"one of the functions {', '.join(names)[:200]}")
        elif choice is None:
            choice = "auto" if definitions else "none"
        elif choice not in ("none", "auto", "required") or (choice != "none" and not definitions):
            raise fields.fault("tool_choice", "none, auto, required or a function, of which there are some")
        return cls(definitions, choice)

    def for_template(self) -> dict[str, Any]:
        """What a template reads."""
        return {"tools": list(self.definitions)} if self.choice != "none" else {}

    def grammar(self) -> str:
        """The JSON schema of an answer that must be a call; empty: it need not."""
        if self.choice in ("none", "auto"):
            return ""
        functions = [each["function"] for each in self.definitions]
        kinds = [
            {
                "type": "object",
                "properties": {
                    "name": {"const": function["name"]},
                    "arguments": function.get("parameters") or {"type": "object"},
                },
                "required": ["name", "arguments"],
                "additionalProperties": False,
            }
            for function in functions
            if self.choice in ("required", function["name"])
        ]
        return json.dumps(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})

    def calls(self, text: str) -> tuple[str, list[tuple[str, str]]]:
        """What of an answer is text, and the calls in it: a function's name, and JSON of its arguments."""
        if self.choice == "none":
            return text, []
        found = [_call(match[1]) for match in _CALL.finditer(text)]
        if found and all(found):
            return _CALL.sub("", text).strip(), [call for each in found for call in each]
        whole = _call(_PREFIX.sub("", text, count=1))
        return ("", whole) if whole and all(name in self._names() for name, _ in whole) else (text, [])

    def _names(self) -> set[str]:
        return {each["function"]["name"] for each in self.definitions}

    @staticmethod
    def call(fields: Fields) -> dict[str, Any]:
        """A call of an earlier message, with its arguments as an object, as templates read it.

        Raises:
            ApiError: it is none.
        """
        function = fields.inside("function")
        if function is None:
            raise fields.fault("function", "an object")
        fields.one_of("type", ("function",))
        arguments = function.value("arguments")
        if isinstance(arguments, str):
            arguments = loaded(arguments or "{}", function.name("arguments"), function.name("arguments"))
        if not isinstance(arguments, dict | None):
            raise function.fault("arguments", "an object, or a text that is JSON of one")
        made = {"type": "function", "function": {"name": function.text("name"), "arguments": arguments}}
        made["id"] = fields.text("id")
        fields.ignore(("index",))
        for each in (function, fields):
            each.check()
        return made


def _call(text: str) -> list[tuple[str, str]]:
    """The calls that a JSON text says; none where it is no such text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    made = []
    for each in found if isinstance(found, list) else [found]:
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            return []
        arguments = each.get("arguments", each.get("parameters"))
        if not isinstance(arguments, dict):
            return []
        made.append((each["name"], json.dumps(arguments, ensure_ascii=False)))
    return made
