"""A regular expression for ripgrep that matches at least where a Python one does.

ripgrep only picks the files worth searching; Python decides what matches. So the two need not agree on what
a word, a space or a line's end is, as long as ripgrep never misses a file. An atom becomes the set of ASCII
characters it may match plus, where it may match any other, any few bytes above 127; assertions are dropped.
"""

from headgate.first_use import regex

_ASCII = frozenset(range(128)) - {10}
_SETS = {
    "d": frozenset(range(48, 58)),
    "w": frozenset(code for code in _ASCII if chr(code).isalnum() or code == 95),
    "s": frozenset(code for code in _ASCII if chr(code).isspace()),
}
_CONTROLS = {"a": 7, "f": 12, "r": 13, "t": 9, "v": 11}
_NOTHING = "(?:)"
_WIDE = r"[\x80-\xff]{1,4}"
_FLAGS = regex(r"\(\?([aimsu]+)\)")
_REPEAT = regex(r"\{(\d*)(,?)(\d*)\}")
_GROUP = regex(r"\((?!\?)|\(\?:|\(\?P<\w+>")


class _Beyond(Exception):
    """The expression uses something that is not translated."""


def prefilter(pattern: str) -> str | None:
    """The wider expression; None where there is none. The pattern must be one that Python accepts."""
    try:
        return "(?-u)" + _Translation(pattern).run()
    except _Beyond:
        return None


def literal_prefilter(text: str) -> str | None:
    """The same for a text that is taken as it stands."""
    return prefilter("".join(char if char.isalnum() else "\\" + char for char in text))


class _Translation:
    def __init__(self, pattern: str) -> None:
        flags = _FLAGS.match(pattern)
        self.text = pattern[flags.end() :] if flags else pattern
        self.any_case = flags is not None and "i" in flags[1]
        self.index = 0

    def run(self) -> str:
        out = []
        while self.index < len(self.text):
            out.append(self._next())
        return "".join(out)

    def _next(self) -> str:
        char = self._take()
        match char:
            case "\\":
                return self._escape()
            case "[":
                return _atom(*self._class())
            case "(":
                return self._group()
            case ")" | "|":
                return char
            case "." | "^" | "$":
                return _atom(_ASCII, True) if char == "." else _NOTHING
            case "*" | "+" | "?":
                return self._repeat(char)
            case "{":
                repeat = _REPEAT.match(self.text, self.index - 1)
                if repeat is None or repeat[0] == "{}":
                    return self._literal(char)
                self.index = repeat.end()
                low, comma, high = repeat.groups()
                return self._repeat(f"{{{low or 0}{comma}{high}}}")
            case _:
                return self._literal(char)

    def _take(self) -> str:
        if self.index >= len(self.text):
            raise _Beyond
        self.index += 1
        return self.text[self.index - 1]

    def _repeat(self, operator: str) -> str:
        # Lazy or possessive: which match is found differs, or fewer are, but never more.
        if self.text[self.index : self.index + 1] in ("?", "+"):
            self.index += 1
        return operator

    def _group(self) -> str:
        opening = _GROUP.match(self.text, self.index - 1)
        if opening is None:
            raise _Beyond
        self.index = opening.end()
        return "(?:"

    def _escape(self) -> str:
        char = self._take()
        if char in "bBAZ":
            return _NOTHING
        if char.lower() in _SETS:
            return _atom(*_named_set(char))
        return self._literal(self._escaped_char(char))

    def _escaped_char(self, char: str) -> str:
        if char in _CONTROLS:
            return chr(_CONTROLS[char])
        if char.isalnum():
            raise _Beyond
        return char

    def _literal(self, char: str) -> str:
        if char == "\n":
            raise _Beyond
        if char.isascii():
            return _atom(*self._cases(frozenset({ord(char)}), False))
        if self.any_case:
            return _atom(frozenset(_ASCII), True)
        try:
            data = char.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            raise _Beyond from None
        return "(?:" + "".join(f"\\x{byte:02x}" for byte in data) + ")"

    def _cases(self, codes: frozenset[int], wide: bool) -> tuple[frozenset[int], bool]:
        if not self.any_case:
            return codes, wide
        letters = {code for code in codes if chr(code).isalpha()}
        # The Kelvin sign, the long s and the dotless i count as k, s and i.
        wide = wide or any(chr(code) in "iksIKS" for code in letters)
        return codes | {code ^ 32 for code in letters}, wide

    def _class(self) -> tuple[frozenset[int], bool]:
        negated = self.text.startswith("^", self.index)
        self.index += negated
        codes: set[int] = set()
        wide = False
        first = True
        while True:
            char = self._take()
            if char == "]" and not first:
                break
            first = False
            if char == "\\" and self.text[self.index : self.index + 1].lower() in _SETS:
                named, named_wide = _named_set(self._take())
                codes |= named
                wide = wide or named_wide
                continue
            low = self._class_char(char)
            high = low
            if self.text.startswith("-", self.index) and not self.text.startswith("-]", self.index):
                self.index += 1
                high = self._class_char(self._take())
            codes |= {code for code in _ASCII if ord(low) <= code <= ord(high)}
            wide = wide or ord(high) > 127
        if not negated:
            return self._cases(frozenset(codes), wide)
        if wide or self.any_case:
            return _ASCII, True  # what is left out may be less than it seems
        return _ASCII - codes, True

    def _class_char(self, char: str) -> str:
        if char != "\\":
            return char
        following = self._take()
        return "\b" if following == "b" else self._escaped_char(following)


def _named_set(name: str) -> tuple[frozenset[int], bool]:
    codes = _SETS[name.lower()]
    return (codes if name.islower() else _ASCII - codes), True


def _atom(codes: frozenset[int], wide: bool) -> str:
    allowed = sorted(codes - {10})
    if not allowed:
        if wide:
            return f"(?:{_WIDE})"
        raise _Beyond
    if len(allowed) == 1:
        text = f"\\x{allowed[0]:02x}"
    else:
        text = "[" + "".join(f"\\x{code:02x}" for code in allowed) + "]"
    return f"(?:{text}|{_WIDE})" if wide else text
