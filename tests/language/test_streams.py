"""Several texts on one model, in turn, in threads and interrupted: each gets the tokens and bits that it gets alone."""

from __future__ import annotations

import contextlib
import linecache
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.language import Conversation, LanguageModel, Sampling
from tests.effort import IS_QUICK, TAKES_TURNS
from tests.language.small_llama import write_folder
from tests.processes import in_threads

ROUNDS = 2 if IS_QUICK else 6 if TAKES_TURNS else 20

Work = Callable[[LanguageModel], Iterator[Any]]  # What uses a model step by step, and gives what came of each step


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The converted small llama."""
    return write_folder(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Iterator[LanguageModel]:
    with LanguageModel(folder, max_length=96) as opened:
        yield opened


def random_work(choose: random.Random) -> Work:
    """A stream of tokens, an answer, or a text that is run part by part."""
    tokens = [70, 71, 72, 73][: choose.randrange(5)] + [choose.randrange(3, 250) for _ in range(choose.randint(1, 20))]
    samplings = [Sampling(), Sampling(0.9, 20, 0.95, seed=choose.randrange(2**40)), Sampling(1.2, 0, 1.0, 1.5, seed=3)]
    sampling, most = choose.choice([*samplings, Sampling(repetition_penalty=3.0)]), choose.randint(1, 12)
    cuts = sorted(choose.sample(range(1, len(tokens)), min(3, len(tokens) - 1)))
    system = choose.choice([None, "Be brief."])

    def parts(model: LanguageModel) -> Iterator[bytes]:
        text = model.sequence()
        for start, end in zip([0, *cuts], [*cuts, len(tokens)], strict=True):
            yield text.logits(tokens[start:end]).numpy().tobytes()
        kept = text.keep(tokens[: len(tokens) // 2 + 1])
        yield text.logits(tokens[kept:]).numpy().tobytes()

    def talk(model: LanguageModel) -> Iterator[str]:
        conversation = Conversation(model, system)
        for message in ("Hello", str(tokens)[:9]):
            yield from conversation.reply(message, sampling, most=min(most, 6))
            yield str(conversation.messages)

    return choose.choice([lambda model: model.generate(tokens, sampling, most=most), parts, talk])


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_texts_in_turn_are_what_they_are_alone(model: LanguageModel, seed: int) -> None:
    choose = random.Random(seed)
    works = [random_work(choose) for _ in range(4)]
    alone = [list(work(model)) for work in works]
    together: list[list[Any]] = [[] for _ in works]
    under_way = {place: iter(work(model)) for place, work in enumerate(works)}
    while under_way:
        place = choose.choice(list(under_way))
        for _ in range(choose.choice([1, 1, 2, 5])):
            step = next(under_way[place], None)
            if step is None:
                del under_way[place]
                break
            together[place].append(step)
    assert together == alone


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_texts_in_threads_are_what_they_are_alone(model: LanguageModel, seed: int) -> None:
    choose = random.Random(1000 + seed)
    works = [random_work(choose) for _ in range(4)]
    alone = [list(work(model)) for work in works]
    together: list[Any] = [None for _ in works]

    def run(place: int) -> None:
        together[place] = list(works[place](model))

    in_threads(run, range(len(works)))
    assert together == alone


def test_the_models_own_text_goes_on_behind_its_own_tokens(model: LanguageModel) -> None:
    model.keep([])
    whole = model.logits([65, 66, 67, 68]).numpy().tobytes()
    model.keep([])
    model.logits([65, 66])
    list(model.generate([90, 91], Sampling(), most=6))
    assert model.length == 2
    assert model.logits([67, 68]).numpy().tobytes() == whole


def test_threads_that_share_one_stream_get_each_token_once(model: LanguageModel) -> None:
    alone = list(model.generate([65, 66, 67], Sampling(), most=24))
    stream = model.generate([65, 66, 67], Sampling(), most=24)
    tokens: list[int] = []

    def run() -> None:
        for token in stream:
            tokens.append(token)

    in_threads(lambda _: run(), range(3))
    assert sorted(tokens) == sorted(alone)


def places(lines: int, count: int) -> list[int]:
    """So many lines at random, with the first and the last ones; ten times as many where there is time."""
    most = min(lines, count if IS_QUICK else 10 * count)
    chosen = random.Random(lines).sample(range(1, lines + 1), most)
    return sorted({1, 2, lines - 1, lines, *chosen})


class _Interrupted(BaseException):
    """Like KeyboardInterrupt no Exception."""


@contextlib.contextmanager
def interrupted_at(line: int) -> Iterator[list[int]]:
    """An interrupt at a line of what dmlvk.language runs, counted from here; how many lines were run.

    CPython handles signals where a function begins (RESUME), behind a call (CALL) and where a loop goes on
    (JUMP_BACKWARD): Python/bytecodes.c, and before 3.12 Python/ceval.c. Tracing functions are called at other places,
    too: between the last call of a ``with`` block and that of ``__exit__``, which is the line of ``with`` again, and at
    a ``try:`` that stands behind no call, an instruction that does nothing and has no handler. None comes there.
    """
    lines = [0]
    entered: set[tuple[FrameType, int]] = set()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if "/dmlvk/language/" not in frame.f_code.co_filename.replace("\\", "/"):
            return None
        if event == "line":
            before, source = (linecache.getline(frame.f_code.co_filename, frame.f_lineno - back) for back in (1, 0))
            if source.lstrip().startswith("with "):
                entered.symmetric_difference_update([(frame, frame.f_lineno)])
                if (frame, frame.f_lineno) not in entered:
                    return trace
            if source.lstrip().startswith("try:") and not before.rstrip().endswith(")"):
                return trace
            lines[0] += 1
            if lines[0] == line:
                raise _Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.9, 20, 0.95, 1.3, seed=5)], ids=["likeliest", "random"])
def test_an_interrupt_at_any_line_loses_no_token(model: LanguageModel, sampling: Sampling) -> None:
    tokens = [65, 66, 67]
    alone = list(model.generate(tokens, sampling, most=8))
    bits = model.sequence().logits([*tokens, *alone]).numpy().tobytes()
    list(model.generate([90], sampling, most=2))
    with interrupted_at(-1) as lines:
        list(model.generate(tokens, sampling, most=8))
    for line in places(lines[0], 25):
        list(model.generate([90], sampling, most=2))  # the text has no place in the caches
        stream, given, text = None, [], model.sequence()
        with contextlib.suppress(_Interrupted), interrupted_at(line):
            stream = model.generate(tokens, sampling, most=8)
            for token in stream:
                given.append(token)
        if stream is not None:
            given += stream
            assert given == alone, f"behind an interrupt at line {line}"
        assert text.logits([*tokens, *alone]).numpy().tobytes() == bits
    with interrupted_at(-1) as lines:
        model.sequence().logits(tokens)
    for line in places(lines[0], 10):
        text = model.sequence()
        with contextlib.suppress(_Interrupted), interrupted_at(line):
            text.logits([*tokens, *alone])
        before = text.length
        assert text.logits([*tokens, *alone][before:] or [1]).numpy().tobytes() == bits or before


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such signals")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of finalizers, where Python drops it
def test_a_signal_at_any_microsecond_loses_no_token_and_leaves_no_lock_held(model: LanguageModel) -> None:
    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if is_armed:
            raise _Interrupted

    tokens, choose, interrupts, is_armed = [65, 66, 67], random.Random(7), 0, False
    alone = list(model.generate(tokens, Sampling(), most=6))
    longest = 1.0
    for _ in range(5):  # the quickest of them: what took longer was kept waiting by other programs
        begin = time.perf_counter()
        assert list(model.generate(tokens, Sampling(), most=6)) == alone
        longest = min(longest, time.perf_counter() - begin)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for turn in range(20 if IS_QUICK else 60 if TAKES_TURNS else 300):
            if turn % 2:
                list(model.generate([90], Sampling(), most=1))  # the text has no place in the caches
            stream, given = None, []
            try:
                signal.setitimer(signal.ITIMER_REAL, choose.uniform(1e-6, longest))
                is_armed = True
                stream = model.generate(tokens, Sampling(), most=6)
                for token in stream:
                    given.append(token)
                is_armed = False
            except _Interrupted:
                is_armed, interrupts = False, interrupts + 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert not model._slot.caches._lock.locked()
            given += stream or []
            assert given == alone[: len(given)] and (stream is None or given in (alone, alone[: len(alone)])), turn
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts >= turn // 3


def test_a_conversation_that_is_interrupted_at_any_line_can_go_on(model: LanguageModel) -> None:
    expected = Conversation(model)
    list(expected.reply("Hello", Sampling(), most=5))
    with interrupted_at(-1) as lines:
        list(Conversation(model).reply("Hello", Sampling(), most=5))
    for line in places(lines[0], 10):
        conversation = Conversation(model)
        with contextlib.suppress(_Interrupted), interrupted_at(line):
            list(conversation.reply("Hello", Sampling(), most=5))
        said = [message["role"] for message in conversation.messages]
        assert said in ([], ["user", "assistant"])
        if said:
            assert expected.messages[1]["content"].startswith(conversation.messages[1]["content"])
        conversation.messages.clear()
        list(conversation.reply("Hello", Sampling(), most=5))
        assert conversation.messages == expected.messages


def test_a_message_in_the_middle_of_an_answer_ends_it(model: LanguageModel) -> None:
    conversation = Conversation(model)
    first = conversation.reply("Hello", Sampling(), most=6)
    piece = next(first)
    list(conversation.reply("What?", Sampling(), most=2))
    assert [message["content"] for message in conversation.messages[:3]] == ["Hello", piece, "What?"]
    before = list(conversation.messages)
    with pytest.raises(dml.InvalidArgumentError, match="another message was said in the middle of this answer"):
        next(first)
    assert conversation.messages == before


def test_a_stream_of_a_closed_model_says_so(folder: Path) -> None:
    with LanguageModel(folder, max_length=32) as model:
        stream = model.generate([65], Sampling(), most=20)
        for _ in range(3):
            next(stream)
    with pytest.raises(dml.DmlError, match="closed"):
        next(stream)
    with pytest.raises(dml.DeviceRemovedError, match="the model was closed"):
        model.logits([65])


def test_a_signals_handler_in_the_middle_of_a_step_is_told_so(model: LanguageModel) -> None:
    faults: list[str] = []

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_name == "_feed" and not faults:
            try:
                model.logits([65])
            except dml.InvalidArgumentError as error:
                faults.append(str(error))
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        next(model.generate([65, 66], Sampling(), most=1))
    finally:
        sys.settrace(before)
    assert "in the middle of its work" in faults[0]
