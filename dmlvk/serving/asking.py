"""What a request asks for: prompts as tokens, and how they are to be continued."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dmlvk.errors import InvalidArgumentError, ModelFileError
from dmlvk.language.batch import MOST_TOP, Constraint, Drafter, Wishes
from dmlvk.language.conversation import chat_prompt
from dmlvk.serving.constraints import Grammars
from dmlvk.serving.engine import Generation
from dmlvk.serving.errors import NOT_FOUND, ApiError, invalid
from dmlvk.serving.fields import Fields, shown
from dmlvk.serving.tools import Tools

if TYPE_CHECKING:
    from dmlvk.language.generation import LanguageModel
    from dmlvk.language.sampling import Sampling

MOST_CHOICES = 128  # Answers of a request: prompts times ``n``

_MOST_STOPS, _LONGEST_STOP = 16, 1000
_MOST_MESSAGES = 10_000
_IGNORED = ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "verbosity")
"""Fields that say something of the client, or how to keep books."""

_ROLES = ("system", "developer", "user", "assistant", "tool", "function")


@dataclasses.dataclass(frozen=True)
class Choice:
    """One answer that is asked for."""

    prompt: list[int]  # its tokens
    sampling: Sampling  # how tokens are chosen
    forced: list[int]  # tokens of the prompt that are run as if they were chosen, for their likelihoods


@dataclasses.dataclass(frozen=True)
class Asked:
    """A request for text."""

    is_chat: bool  # whether it is one of messages
    choices: list[Choice]  # the answers
    most: int  # tokens of each at most
    stops: tuple[str, ...]  # texts before which an answer ends
    likeliest: int | None  # how many tokens are told beside each; ``None``: no likelihoods
    echoes: bool  # whether the prompt stands in front of the answer
    streams: bool  # whether it comes piece by piece
    shows_usage: bool  # whether a stream ends with counts of tokens
    grammar: str  # of llguidance, for all answers; empty: none
    tools: Tools  # what the model may call
    wants_receipt: bool  # whether each answer comes with what it can be verified by

    @property
    def prompt_tokens(self) -> int:
        """Of all prompts, each once."""
        distinct = {id(choice.prompt): choice for choice in self.choices}
        return sum(len(choice.prompt) for choice in distinct.values())


class Reader:
    """Reads requests to a model.

    Args:
        model: whose tokens and template are used.
        grammars: for answers of a given form.
        drafter: what guesses tokens; ``None``: nothing does.
    """

    def __init__(self, model: LanguageModel, name: str, grammars: Grammars, drafter: Drafter | None = None) -> None:
        self._model, self._name, self._grammars, self._drafter = model, name, grammars, drafter

    def chat(self, body: Mapping[str, Any]) -> Asked:
        """A request of /v1/chat/completions.

        Raises:
            ApiError: it breaks a rule.
        """
        fields = Fields(body)
        self._check_model(fields)
        tools = Tools.read(fields)
        messages = [self._message(fields.of(each, f"messages[{n}]")) for n, each in enumerate(self._messages(fields))]
        try:
            text = chat_prompt(self._model.folder, messages, **tools.for_template())
        except ModelFileError as error:
            raise invalid(f"messages: {error}", "messages") from error
        prompt = self._encoded(text, "messages", is_whole=not self._model.folder.chat_template)
        top = fields.whole("top_logprobs", None, 0, MOST_TOP)
        likeliest = (top or 0) if fields.flag("logprobs") else None
        if likeliest is None and top is not None:
            raise invalid("top_logprobs needs logprobs to be true", "top_logprobs")
        most = fields.whole("max_completion_tokens", fields.whole("max_tokens", None, 1, 2**31), 1, 2**31)
        grammar, called = self._grammars.of_response_format(fields), tools.grammar()
        if grammar and called:
            raise invalid("response_format does not go with tools of which one must be called", "response_format")
        grammar = grammar or called
        fields.ignore(("parallel_tool_calls", "reasoning_effort", "modalities"))
        return self._asked(fields, [prompt], most, likeliest, grammar, tools, is_chat=True)

    def completion(self, body: Mapping[str, Any]) -> Asked:
        """A request of /v1/completions.

        Raises:
            ApiError: it breaks a rule.
        """
        fields = Fields(body)
        self._check_model(fields)
        prompts = self._prompts(fields)
        likeliest = fields.whole("logprobs", None, 0, MOST_TOP)
        echoes = fields.flag("echo")
        most = fields.whole("max_tokens", 16, 0 if echoes else 1, 2**31)
        if fields.text("suffix"):
            raise invalid("suffix is not run: models continue texts at their end", "suffix")
        if fields.whole("best_of", 1, 1, MOST_CHOICES) != 1:
            raise invalid("best_of must be 1: no answer is thrown away", "best_of")
        grammar = self._grammars.of_response_format(fields)
        return self._asked(fields, prompts, most, likeliest, grammar, Tools(), echoes=echoes)

    def _check_model(self, fields: Fields) -> None:
        name = fields.text("model", self._name)
        if name != self._name:
            raise ApiError(
                404,
                f"there is no model {name[:100]!r}; this server has {self._name!r}",
                NOT_FOUND,
                "model",
                "model_not_found",
            )

    def _messages(self, fields: Fields) -> list[Any]:
        found = fields.listed("messages", _MOST_MESSAGES)
        if not found:
            raise fields.fault("messages", f"a list of 1 to {_MOST_MESSAGES} messages")
        return found

    def _message(self, fields: Fields) -> dict[str, Any]:
        """A message as templates read it: its parts of text put together."""
        role = fields.text("role")
        if role not in _ROLES:
            raise fields.fault("role", f"one of {', '.join(_ROLES)}")
        content = fields.value("content")
        if isinstance(content, list):
            texts = []
            for number, part in enumerate(content):
                inner = fields.of(part, f"content[{number}]")
                if inner.text("type") != "text":
                    raise inner.fault("type", "text: pictures and sounds are not read")
                texts.append(inner.text("text"))
                inner.check()
            content = "".join(texts)
        if content is not None and not isinstance(content, str):
            raise fields.fault("content", "a text, or a list of parts")
        calls = fields.listed("tool_calls", 128)
        if content is None and not calls:
            raise fields.fault("content", "a text, or a list of parts")
        message: dict[str, Any] = {"role": "system" if role == "developer" else role, "content": content or ""}
        if calls:
            message["tool_calls"] = [Tools.call(fields.of(call, f"tool_calls[{n}]")) for n, call in enumerate(calls)]
        for name in ("name", "tool_call_id"):
            if text := fields.text(name):
                message[name] = text
        fields.ignore(("refusal", "annotations", "audio", "function_call", "reasoning_content"))
        fields.check()
        return message

    def _prompts(self, fields: Fields) -> list[list[int]]:
        """A text, tokens, or a list of one or the other."""
        value = fields.value("prompt")
        listed = value if isinstance(value, list) and value and not isinstance(value[0], int) else [value]
        if not 0 < len(listed) <= MOST_CHOICES:
            raise fields.fault("prompt", f"at most {MOST_CHOICES} prompts")
        made = []
        for each in listed:
            if isinstance(each, str):
                made.append(self._encoded(each, "prompt", is_whole=True))
            elif isinstance(each, list) and each and all(type(token) is int for token in each):
                outside = next((token for token in each if not 0 <= token < self._model.folder.vocabulary), None)
                if outside is not None:
                    raise invalid(f"prompt: the token {shown(outside)} is none of the vocabulary's", "prompt")
                made.append(each)
            else:
                raise fields.fault("prompt", "a text, a list of tokens, or a list of such")
        return made

    def _encoded(self, text: str, param: str, *, is_whole: bool) -> list[int]:
        try:
            tokens = self._model.encode(text, is_whole=is_whole)
        except (InvalidArgumentError, ModelFileError) as error:
            raise invalid(f"{param}: {str(error).removeprefix(f'{self._model.folder.path}: ')}", param) from error
        if not tokens:
            raise invalid(f"{param}: a text of no tokens has no next one", param)
        return tokens

    def _asked(
        self,
        fields: Fields,
        prompts: list[list[int]],
        most: int | None,
        likeliest: int | None,
        grammar: str,
        tools: Tools,
        *,
        is_chat: bool = False,
        echoes: bool = False,
    ) -> Asked:
        """What both kinds have in common; looks whether each prompt and its answer have room."""
        room = self._model.max_length
        longest = max(map(len, prompts))
        if longest + (most or 1) > room + 1:
            more = "" if most is None else f", and an answer of {most}"
            raise invalid(
                f"the prompt has {longest} tokens{more}; there is room for {room}",
                "messages" if is_chat else "prompt",
                "context_length_exceeded",
            )
        count = fields.whole("n", 1, 1, MOST_CHOICES) or 1
        if count * len(prompts) > MOST_CHOICES:
            raise fields.fault("n", f"at most {MOST_CHOICES // len(prompts)} for {len(prompts)} prompts")
        sampling = self._sampling(fields)
        forces = echoes and likeliest is not None
        choices = []
        for prompt in prompts:
            for number in range(count):
                own = dataclasses.replace(sampling, seed=(sampling.seed + number) % 2**64)
                choices.append(Choice(prompt, own, prompt[1:] if forces else []))
        options = fields.inside("stream_options")
        asked = Asked(
            is_chat,
            choices,
            room + 1 - longest if most is None else most,
            fields.texts("stop", _MOST_STOPS, _LONGEST_STOP),
            likeliest,
            echoes,
            fields.flag("stream"),
            options is not None and options.flag("include_usage"),
            grammar,
            tools,
            fields.flag("receipt"),
        )
        if options is not None:
            options.ignore(("include_obfuscation",))
            options.check()
        fields.ignore(_IGNORED)
        fields.check()
        if grammar and echoes:
            raise invalid("echo does not go with response_format", "echo")
        return asked

    def _sampling(self, fields: Fields) -> Sampling:
        """The folder's, with what the request says."""
        own = self._model.folder.sampling
        for name in ("frequency_penalty", "presence_penalty"):
            if fields.number(name, 0.0, -2.0, 2.0):
                raise invalid(f"{name} must be 0; repetition_penalty is run", name)
        if fields.value("logit_bias"):
            raise invalid("logit_bias must be empty: it is not run", "logit_bias")
        return dataclasses.replace(
            own,
            temperature=fields.number("temperature", own.temperature, 0.0, 1e4),
            top_p=fields.number("top_p", own.top_p, 0.0, 1.0),
            top_k=fields.whole("top_k", own.top_k, 0, 2**31 - 1) or 0,
            repetition_penalty=fields.number("repetition_penalty", own.repetition_penalty, 1e-4, 1e4),
            seed=(fields.whole("seed", 0, -(2**63), 2**64 - 1) or 0) % 2**64,
        )

    def generations(self, asked: Asked) -> list[Generation]:
        """The texts that are to be continued for a request's answers.

        Raises:
            ApiError: the form that answers must have cannot be met.
        """
        made = []
        for choice in asked.choices:
            constraint: Constraint | None = self._grammars.constraint(asked.grammar) if asked.grammar else None
            drafter = None if choice.forced else self._drafter  # forced tokens need no guesses
            wishes = Wishes(asked.likeliest, constraint, choice.forced, asked.wants_receipt, drafter)
            start = choice.prompt[:1] if choice.forced else choice.prompt
            made.append(Generation(start, choice.sampling, wishes, len(choice.forced) + asked.most))
        return made
