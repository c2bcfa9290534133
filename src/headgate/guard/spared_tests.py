"""Sentences that forbid changing the tests: the only prose that binds outside of a task's boundaries.

In each clause, what names the tests becomes TESTS, and words for changing become CHANGE; then a clause is one
of a few forms, or says nothing. A sentence that makes an exception, or speaks of some tests only, is not
enforced, and people are told so.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from headgate.core import Constraints, find_quotations
from headgate.first_use import regex

_TEST_FILE = r"(?<![\w./-])(?:[\w.-]+/)*(?:test[\w-]*|[\w-]+[._-](?:test|spec))\.\w+"
_NAMED = regex(_TEST_FILE)
_FOLDER = r"(?:the )?tests?(?:/| folder| directory)(?![\w.-]*\w)"
_QUOTED = regex(rf"`(?!tests?/?`|{_TEST_FILE}`)[^`\n]*`|\"[^\"\n]*\"|\u201c[^\u201d\n]*\u201d")
_MARKS = regex(r"[*_`>#]+")
_ITEM = regex(r"\n\s*(?:[-*+\u2022]|\d+[.)])\s+|\n(?=\s*(?:\n|[A-Z]))|^\s*(?:[-*+\u2022]|\d+[.)])\s+")
_SENTENCE = regex(r"(?<=[.!?;])\s+")
_CLAUSE = regex(r"[,:;)\u2013\u2014]+(?:\s+|$)|\(|\s--?\s")

_VERB = r"(?:chang|modify|edit|touch|alter|updat|rewrit|adapt|adjust)(?:e|ing)?"
_OTHER_VERB = r"(?:add|break|remov|delet|disabl|skip|weaken|renam|mov|fix)(?:p?ing|e)?"
_AND = r"(?:\s*,\s*(?:or |and )?|\s*/\s*| or | and )"
_CHANGE = regex(rf"\b(?:{_OTHER_VERB}{_AND}){{0,6}}{_VERB}(?:{_AND}(?:{_VERB}|{_OTHER_VERB})){{0,6}}\b")
_TESTS = regex(
    r"\b(?:(?:any(?: of)?|all(?: of)?|the|our|my|your|these|those|existing|current|given|failing|other"
    r"|remaining|unit|integration|acceptance|regression) )*"
    r"(?<![\w/.-])tests?(?:[ -]?(?:files?|suites?|cases?|code|folder|directory))?(?:/(?:\.\w+)?)?"
    rf"(?![\w.-]*\w)(?: in {_FOLDER})?"
)
_OPENING = regex(r"(?:please|and|but|then|also|so|just|note|important|make sure|be sure|that|to|you|we) ")
_CHANGED = r"(?:changed|modified|edited|touched|altered|updated|rewritten|adapted|adjusted)"
_SAME = (
    r"(?:alone|as (?:they|it) (?:are|is|were|was)|as[ -]is|unchanged|untouched|unmodified|intact|the same)"
)
_FORMS = (
    r"(?:do |must |may |should |can |could )?(?:not|never) (?:to |ever |try to )*CHANGE"
    r" (?:(?:(?!of |in |for |between )\S+ ){1,6}?(?:or|and|nor) "
    r"|(?:anything|(?:the |any )?files?) (?:in|under) )?TESTS",
    r"(?:.* )?not (?:under any circumstances|in any case) CHANGE TESTS",
    r"(?:.* )?(?:without|avoid|instead of|rather than|refrain from) CHANGE TESTS",
    r"(?:.* )?without (?:making )?(?:any )?(?:changes|edits|modifications) (?:to|in) TESTS",
    r"(?:make|get) TESTS (?:pass|green|work|succeed) without CHANGE (?:it|them)",
    r"(?:(?:it is |is |are )?(?:not allowed|not permitted|forbidden)|i do not want you) to CHANGE TESTS",
    r"CHANGE TESTS is (?:not allowed|not permitted|forbidden)",
    r"(?:hands off|keep off|stay away from) TESTS",
    rf"(?:leave|keep) TESTS {_SAME}",
    rf"TESTS (?:must not|may not|should not|can not|cannot|are not to) (?:be {_CHANGED}|CHANGE)",
    rf"TESTS (?:must |should |have to )?(?:stay|remain|be left|be kept) {_SAME}",
    r"TESTS (?:are|is) (?:off[ -]limits|out of bounds|read-only)",
    r"(?:do not make (?:any )?|make no |no )(?:changes|edits|modifications) (?:to|in) TESTS",
    r"(?:make )?no TESTS (?:changes|edits|modifications)",
    r"not TESTS",
)
_GOES_ON = (
    r"at all|themselves|either|directly|please|or|and|but|nor|to|because|since|as|while|when|in|of|for|under"
    r"|that|which|unless|except|other|apart|if|unnecessarily|more|without|yet"
)
_BESIDES = regex(r" (?:and|but) (?=(?:please |also |just )?(?:do not|must not|never|leave|keep)\b)")
"""Between what is to be done and what is not."""
_CONDITION = regex(r"(?:if|when|whenever|while|since|because|why)\b")
_FORBIDS = regex(rf"(?:{'|'.join(_FORMS)})(?: (?:{_GOES_ON})\b.*)?")
_LIMITED = regex(
    r"\b(?:unless|except|other than|apart from|if (?:possible|you can)|where possible|unnecessarily|more than"
    r"|without asking|yet)\b|\b(?:other|remaining) tests?\b"
    rf"|\btests?(?: \w+)? (?:in|of|for|under|that|which) (?!(?:the|this) (?:repo|project)|{_FOLDER})"
)
_NAMES_THEM = regex(r"(?:CHANGE )?TESTS(?: (?:changes|edits))?|(?:changes|edits) (?:to|in) TESTS")


class SparedTests(NamedTuple):
    """What of some texts forbids changing the tests."""

    binding: tuple[str, ...] = ()
    """The sentences that protect every test that exists."""
    loose: tuple[str, ...] = ()
    """Those that make an exception, or mean some tests only: nothing enforces them."""
    named: tuple[str, ...] = ()
    """Test files that a sentence closes by their names."""


def find_spared_tests(texts: Iterable[str], forbidden: Iterable[str] = ()) -> SparedTests:
    """The sentences of texts that forbid changing the tests. An item of `forbidden` need only name them."""
    binding: dict[str, None] = {}
    loose: dict[str, None] = {}
    named: dict[str, None] = {}
    for text in texts:
        for sentence in _sentences(text):
            plain = _plain(sentence)
            if plain.endswith("?") or not ("test" in plain or "spec" in plain):
                continue
            if any(map(_FORBIDS.fullmatch, _clauses(plain))):
                (loose if _LIMITED.search(plain) else binding)[sentence] = None
            elif any(map(_FORBIDS.fullmatch, _clauses(_NAMED.sub("tests", plain)))):
                files = _NAMED.findall(sentence)
                # Of several, only people know which one is meant.
                if len(files) == 1 and not _LIMITED.search(_NAMED.sub("", plain)):
                    named[files[0]] = None
                else:
                    loose[sentence] = None
    for item in forbidden:
        if any(map(_NAMES_THEM.fullmatch, _clauses(_plain(item)))) and not _LIMITED.search(_plain(item)):
            binding[item] = None
    return SparedTests(tuple(binding), tuple(loose), tuple(named))


def spared_by_task(request: str, constraints: Constraints, boundaries: Iterable[str] = ()) -> SparedTests:
    """The same for a task; `boundaries` are those of its configuration."""
    bounds = (*boundaries, *constraints.boundaries)
    asked = (*constraints.keep, *constraints.non_goals, *(text for text in bounds if " " in text))
    return _found((request, *asked), asked)


_found = lru_cache(maxsize=16)(find_spared_tests)


def _sentences(text: str) -> Iterator[str]:
    """The sentences that a person wrote; what a text only quotes is left out."""
    lines = text.splitlines()
    for quotation in find_quotations(lines):
        lines[quotation.first : quotation.end] = [""] * (quotation.end - quotation.first)
    for item in _ITEM.split("\n".join(lines)):
        for sentence in _SENTENCE.split(" ".join(item.split())):
            if sentence:
                yield sentence


def _plain(sentence: str) -> str:
    words = _MARKS.sub("", _QUOTED.sub("QUOTED", sentence)).lower().replace("\u2019", "'")
    words = re.sub(r"\b(do|must|should|can|could)n'?t\b", r"\1 not", words.replace("can't", "can not"))
    words = words.replace("w/o ", "without ").replace("'re ", " are ")
    return " ".join(words.split())


def _clauses(plain: str) -> Iterator[str]:
    """The clauses of a sentence, with TESTS and CHANGE for the words that stand for them."""
    marked = _TESTS.sub("TESTS", _CHANGE.sub("CHANGE", plain))
    for clause in _CLAUSE.split(marked.rstrip(".!;")):
        clause = clause.strip()
        for part in [clause] if _CONDITION.match(clause) else _BESIDES.split(clause):
            while opening := _OPENING.match(part):
                part = part[opening.end() :]
            yield part
