"""How the chosen files are written: what most of them do is what new code should do."""

from collections import Counter
from collections.abc import Iterable, Mapping

from headgate.first_use import regex
from headgate.outlines import Outline
from headgate.reading import is_test, word_set

_SNAKE = regex(r"_*[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
_CAMEL = regex(r"[a-z]+[a-z0-9]*(?:[A-Z][a-z0-9]*)+")
_PASCAL = regex(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)*")
_CALLABLE = frozenset(["function", "method"])
_FRAMEWORKS = sorted(
    word_set(
        """
        pytest unittest hypothesis nose jest vitest mocha chai ava tap supertest jasmine testing testify
        ginkgo junit testng mockito assertj rspec minitest phpunit xunit nunit gtest catch2 doctest
        """
    )
)
_PART = regex(r"[a-z0-9]+")


def conventions_of(chosen: Iterable[str], outlines: Mapping[str, Outline]) -> tuple[str, ...]:
    """One sentence for each convention that can be seen, for the language that most of the files are in."""
    code = {path: outlines[path] for path in chosen if path in outlines and outlines[path].language}
    languages = Counter(outline.language for path, outline in code.items() if not is_test(path))
    if not languages:
        return ()
    main = min(languages, key=lambda name: (-languages[name], name))
    files = [outline for path, outline in code.items() if outline.language == main]
    found = [f"{main}:", _indentation(files), _line_length(files), _quotes(files), _naming(files)]
    style = " ".join(part for part in found if part)
    tests = [outline for path, outline in outlines.items() if is_test(path) and outline.language]
    frameworks = _test_frameworks(tests)
    return (style.replace(":", ": ", 1).replace(":  ", ": ").rstrip(",;"), *frameworks)


def _indentation(files: Iterable[Outline]) -> str:
    steps = Counter(outline.layout.indent for outline in files if outline.layout.indent)
    if not steps:
        return ""
    step = min(steps, key=lambda name: (-steps[name], name))
    return "indented with tabs," if step == "tab" else f"indented by {step} spaces,"


def _line_length(files: Iterable[Outline]) -> str:
    longest = sorted(outline.layout.long_line for outline in files)
    return f"lines of up to {longest[len(longest) * 3 // 4]} characters," if longest else ""


def _quotes(files: Iterable[Outline]) -> str:
    single = sum(outline.layout.single_quoted for outline in files)
    double = sum(outline.layout.double_quoted for outline in files)
    if single + double < 5 or max(single, double) < 2 * min(single, double):
        return ""
    return f"{'single' if single > double else 'double'} quotes,"


def _naming(files: Iterable[Outline]) -> str:
    counts: Counter[str] = Counter()
    for outline in files:
        for one in outline.definitions:
            if one.kind in _CALLABLE:
                for style, pattern in (
                    ("snake_case", _SNAKE),
                    ("camelCase", _CAMEL),
                    ("PascalCase", _PASCAL),
                ):
                    counts[style] += pattern.fullmatch(one.name) is not None
    if not counts or sum(counts.values()) < 2:
        return ""
    best = min(counts, key=lambda style: (-counts[style], style))
    return f"functions in {best}"


def _test_frameworks(tests: Iterable[Outline]) -> list[str]:
    """What test files import, or, where it need not be imported, use."""
    counts: Counter[str] = Counter()
    for outline in tests:
        parts = {part for module in outline.imports for part in _PART.findall(module.lower())}
        found = [
            name for name in _FRAMEWORKS if name in parts and (name != "testing" or outline.language == "go")
        ]
        if not found and {"describe", "expect"} <= outline.references.keys():
            found = ["describe and it"]
        counts.update(found)
    best = sorted(counts, key=lambda name: (-counts[name], name))[:3]
    return [f"tests with {', '.join(best)}"] if best else []
