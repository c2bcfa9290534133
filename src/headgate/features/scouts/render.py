"""A map as text for a model, in a given number of tokens: first fewer symbols, then fewer files."""

from collections.abc import Iterator

from headgate.core import CHARS_PER_CODE_TOKEN, show_path
from headgate.features.scouts.code_map import CodeMap, MappedFile

_STEPS = (
    (20, 14, 20), (20, 10, 16), (16, 8, 12), (14, 6, 10), (12, 5, 8), (10, 4, 6), (8, 4, 4), (8, 3, 2),
    (6, 3, 2), (6, 3, 0), (5, 3, 0), (5, 2, 0), (5, 1, 0), (5, 0, 0), (3, 0, 0), (1, 0, 0),
)  # fmt: skip
"""How many files are shown, how many symbols of each, and how many lines of other things."""
_LATER_FILES = 5
"""Files behind these have half as many symbols."""


def render_map(code_map: CodeMap, tokens: int) -> str:
    """The most that fits. Empty where there is nothing to say, or no room for even one file."""
    if not code_map.files:
        return ""
    room = int(tokens * CHARS_PER_CODE_TOKEN)
    for step in _STEPS:
        text = "\n".join(map(_one_line, _lines(code_map, *step)))
        if len(text) <= room:
            return text
    first = show_path(code_map.files[0].path)
    return first if len(first) <= room else ""


def _one_line(text: str) -> str:
    """Nothing in a file, nor in an index that somebody else wrote, can begin a line of its own."""
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def _lines(code_map: CodeMap, most_files: int, most_symbols: int, most_extra: int) -> Iterator[str]:
    files = code_map.files[:most_files]
    shown = {file.path for file in files}
    yield "Files that the task is likely about, the most likely first:"
    for position, file in enumerate(files):
        yield from _file(file, most_symbols if position < _LATER_FILES else most_symbols // 2)
    uses = [one for one in code_map.references if one.source in shown and one.target in shown][:most_extra]
    if uses:
        yield "Uses:"
        for one in uses:
            yield f"- {show_path(one.source)} -> {show_path(one.target)}: {', '.join(one.names[:4])}"
    if code_map.tests:
        yield f"Tests that cover them: {_list(test.path for test in code_map.tests[: max(2, most_symbols)])}"
    if most_extra and code_map.entry_points:
        yield f"Entry points: {_list(code_map.entry_points[:5])}"
    if code_map.conventions:
        yield f"Conventions: {'; '.join(code_map.conventions)}"
    if most_extra and code_map.prior_art:
        yield "Existing code with a similar name:"
        for art in code_map.prior_art[:most_extra]:
            yield f"- {show_path(art.path)}:{art.first} {art.signature}"
    if code_map.files_left:
        yield f"({code_map.files_left} of {code_map.files_seen} files were not read in time.)"


def _file(file: MappedFile, most: int) -> Iterator[str]:
    lines = f" ({file.lines} line{'s' * (file.lines > 1)})" if file.lines else ""
    purpose = f": {file.purpose}" if file.purpose else ""
    yield f"{show_path(file.path)}{lines}{purpose}"
    if file.why:
        yield f"  why: {'; '.join(file.why)}"
    for symbol in file.symbols:
        if symbol.rank <= most:
            within = symbol.name.rpartition(".")[0]
            yield f"  {symbol.first}-{symbol.last} {symbol.signature}{f'  [{within}]' if within else ''}"


def _list(paths: Iterator[str] | tuple[str, ...]) -> str:
    return ", ".join(show_path(path) for path in paths)
