"""Chat templates: right ones say what Jinja says; damaged and endless ones end in one error, soon, in little memory."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

import dmlvk as dml
from dmlvk.language.templates import rendered

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "<think>x</think> Hällo "}]

SOUND = (
    "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' + m['content'] | trim }}{% if loop.last %}!{% endif %}{% endfor %}",
    "{% macro f(x, y=3) %}[{{ x }}{{ y }}]{% endmacro %}{{ f(1) }}{{ f(x=2, y='q') }}",
    "{% macro g(x) %}({{ caller() }}{{ x }}){% endmacro %}{% call g(3) %}z{% endcall %}",
    "{% for i in range(10) %}{% if i == 3 %}{% break %}{% endif %}{{ i }}{{ loop.revindex }}{% endfor %}",
    "{{ messages | tojson(indent=2) }}{{ messages | tojson }}{{ 'é' | tojson(ensure_ascii=True) }}",
    "{{ messages[1].content.split('</think>')[-1].lstrip() }}{{ 'a,b'.replace(',', ';') }}{{ ', '.join(['a', 'b']) }}",
    "{{ messages | map(attribute='role') | join(',') }}{{ messages | selectattr('role', 'eq', 'user') | list }}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}{{ x }}",
    "{{ 2 ** 10 }} {{ 7 % 4 }} {{ '%s-%d%%' % ('a', 3) }} {{ '**{}** 24'.format('x') }} {{ 'ab' * 3 }} {{ [1] + [2] }}",
    "{% for x in [[1, [2]]] recursive %}{% if x is iterable %}<{{ loop(x) }}>{% else %}{{ x }}{% endif %}{% endfor %}",
    "{{ 'x y' | title | indent(2) | center(20) }}{{ [3, 1] | sort }}{{ {'a': 1} | items | list }}{{ [1] | sum }}",
    "{% block b %}q{% endblock %}{{ self.b() }}{% filter upper %}a{% endfilter %}{% set z %}i{% endset %}{{ z }}",
    "{{ messages[1:] | length }}{{ messages | reverse | first }}{{ 'a' in 'abc' }}{{ messages | groupby('role') }}",
)


@pytest.mark.parametrize("template", SOUND)
def test_templates_say_what_jinjas_sandbox_says(template: str) -> None:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = lambda value, **named: json.dumps(value, **{"ensure_ascii": False, **named})
    expected = environment.from_string(template).render(messages=MESSAGES)
    assert rendered(template, MESSAGES, {}, "folder") == expected


DOUBLED = "{% set n = namespace(s=START) %}{% for i in range(60) %}{% set n.s = MORE %}{% endfor %}"
ENDLESS = {
    "a long range": "{% for i in range(10**9) %}a{% endfor %}",
    "loops in loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "loops that skip all": "{% for i in range(99999) %}{% for j in range(99999) if false %}{% endfor %}{% endfor %}",
    "macros calling macros": "{% macro f(n) %}{% if n %}{{ f(n-1) ~ f(n-1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "blocks that show themselves": "{% block a %}{{ self.a() }}{% endblock %}",
    "a repeated text": "{{ 'x' * 10**8 }}",
    "a repeated list": "{{ (['x'] * 10**8) | join }}",
    "texts put together": DOUBLED.replace("START", "'x'").replace("MORE", "n.s ~ n.s"),
    "texts added": DOUBLED.replace("START", "'x'").replace("MORE", "n.s + n.s"),
    "lists of the same list": DOUBLED.replace("START", "[]").replace("MORE", "[n.s, n.s]") + "{{ n.s }}",
    "such a list as JSON": DOUBLED.replace("START", "[]").replace("MORE", "[n.s, n.s]") + "{{ n.s | tojson }}",
    "such a list in a format": DOUBLED.replace("START", "[]").replace("MORE", "[n.s, n.s]") + "{{ '%s' % [n.s] }}",
    "a much larger number": DOUBLED.replace("START", "9").replace("MORE", "n.s * n.s"),
    "a power": "{{ 10 ** (10 ** 9) }}",
    "a wide filter": "{{ 'a' | center(10**9) }}",
    "an indent": "{{ ('a\n' * 1000) | indent(10**6) }}",
    "a wide method": "{{ 'a'.ljust(10**9) }}",
    "a wide format": "{{ '%1000000000d' % 1 }}",
    "a wide format by a value": "{{ '{:{w}}'.format(1, w=10**9) }}",
    "a repeated field": "{{ ('{0}' * 100000).format('a' * 100000) }}",
    "bytes of a number": "{{ (1).to_bytes(10**9, 'big') }}",
    "tabs": "{{ '\t'.expandtabs(10**9) }}",
    "a replacement": "{{ ('a' * 10**6).replace('a', 'b' * 10**6) }}",
    "a filter of replacements": "{{ ['a' * 10**6] | map('replace', 'a', 'b' * 10**6) | list }}",
    "a long separator": "{{ ('a' * 10**6).join(['b'] * 10**6) }}",
    "a batch": "{{ [1] | batch(10**9, 'x') | list }}",
    "a sum of lists": "{{ ([[1] * 1000] * 100000) | sum(start=[]) }}",
    "a time": "{{ strftime_now('%1000000000d') }}",
    "much text of its own": "{% for i in range(99999) %}" + 2000 * "a" + "{% endfor %}",
    "much text in a variable": "{% set x %}{% for i in range(99999) %}" + 2000 * "a" + "{% endfor %}{% endset %}",
    "100 MB in pieces": "{% set a = 'x' * 10**6 %}{% for i in range(100) %}{{ a }}{% endfor %}",
    "a prompt for no model": "{{ 'x' * 10**7 }}",
}


@pytest.mark.parametrize("template", ENDLESS.values(), ids=list(ENDLESS))
def test_templates_that_never_end_or_fill_memory_are_ended(template: str) -> None:
    start = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(dml.ModelFileError, match="folder: its chat template"):
            rendered(template, MESSAGES, {}, "folder")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 700e6
    assert time.process_time() - start < 30, "with the tracing of memory, which takes most of it"


@pytest.mark.parametrize(
    "template",
    [
        *("{{", "{% for %}", "{{ 1/0 }}", "{% include 'x' %}", "{{ messages.x.y }}", "{{ 1 if }}", "{% break %}"),
        *("{{ " + 5000 * "(" + "1" + 5000 * ")" + " }}", 3000 * "{% if 1 %}" + 3000 * "{% endif %}", 2**21 * "a"),
        *("{{ lipsum(10**8) }}", "{{ [].append(1) }}", "{{ ''.__class__.__mro__ }}", "{{ raise_exception(3) }}"),
    ],
    ids=lambda template: template[:20],
)
def test_damaged_templates_are_one_error(template: str) -> None:
    with pytest.raises(dml.ModelFileError, match="folder: its chat template"):
        rendered(template, MESSAGES, {}, "folder")


def test_a_long_conversation_is_within_the_budget() -> None:
    template: Any = SOUND[0] + "{{ messages | tojson }}" + SOUND[5]
    messages = [{"role": "user", "content": f"{n}</think>" + 1000 * "words, "} for n in range(250)]
    assert len(rendered(template, messages, {}, "folder")) > 2 * 250 * 7000
