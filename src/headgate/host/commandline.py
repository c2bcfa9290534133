"""What a shell command plainly names: its simple commands, their words, and the files it redirects into.

This reads a command for guards; it is no shell. Bad quoting is tolerated, variables and globs stay as they
are, and what a program does by itself is not seen. A sandbox is what really holds; this catches mistakes.
"""

import re
from dataclasses import dataclass, field

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_WRAPPERS = re.compile(
    r"!|builtin|command|do|doas|else|env|exec|if|ionice|nice|nohup|setsid|stdbuf|sudo|then|time|timeout|until"
    r"|while|xargs"
)
_OPERATORS = "\n;|&(){}`"


@dataclass(slots=True)
class Command:
    """One simple command."""

    words: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    """Files named behind `>`, `>>`, `>|`, `&>` or `<>`."""
    read: list[str] = field(default_factory=list)
    """Files named behind `<`."""

    @property
    def program(self) -> str:
        return next(iter(self._called()), "")

    @property
    def arguments(self) -> list[str]:
        return self._called()[1:]

    def _called(self) -> list[str]:
        """The words from the program on: assignments, wrappers and the wrappers' options are skipped."""
        wrapped = False
        for index, word in enumerate(self.words):
            if _ASSIGNMENT.match(word):
                continue
            if _WRAPPERS.fullmatch(word):
                wrapped = True
            elif not (wrapped and (word.startswith("-") or word[:1].isdigit())):
                return self.words[index:]
        return []


def split_commands(text: str) -> list[Command]:
    """The simple commands of a command line, those in substitutions and subshells included."""
    return _Reader(text).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.index = 0
        self.commands = [Command()]
        self.word: str | None = None
        self.redirect = ""

    def read(self) -> list[Command]:
        while self.index < len(self.text):
            self._step()
        self._end_command()
        return [command for command in self.commands if command.words or command.written or command.read]

    def _step(self) -> None:
        char = self._take()
        if char == "\\":
            following = self._take()
            if following != "\n":
                self._add(following)
        elif char == "'":
            end = self.text.find("'", self.index)
            end = len(self.text) if end < 0 else end
            self._add(self.text[self.index : end])
            self.index = end + 1
        elif char == '"':
            self._double_quoted()
        elif char in "<>":
            self._begin_redirection(char)
        elif char == "&" and self._peek() == ">":
            self._end_word()
            self._begin_redirection(self._take())
        elif char == "#" and self.word is None:
            end = self.text.find("\n", self.index)
            self.index = len(self.text) if end < 0 else end
        elif char in _OPERATORS and not (char in "{}" and self.word is not None):
            self._end_command()
        elif char.isspace():
            self._end_word()
        elif char != "$" or self._peek() != "(":
            self._add(char)

    def _double_quoted(self) -> None:
        self._add("")
        start = self.index
        while self.index < len(self.text):
            char = self._take()
            if char == '"':
                break
            if char == "\\" and self._peek() in '"\\$`\n':
                self._add(self._take())
            else:
                self._add(char)
        inner = self.text[start : self.index - 1]
        for found in re.findall(r"\$\(([^()]*)\)|`([^`]*)`", inner):
            self.commands[:0] = split_commands(found[0] or found[1])

    def _begin_redirection(self, char: str) -> None:
        if self.word is not None and self.word.isdigit():
            self.word = None  # the descriptor in `2>`
        self._end_word()
        operator = char
        while self._peek() in ("<", ">", "|", "&", "-"):
            operator += self._take()
        self.redirect = operator

    def _take(self) -> str:
        char = self.text[self.index : self.index + 1]
        self.index += 1
        return char

    def _peek(self) -> str:
        return self.text[self.index : self.index + 1] or "\0"

    def _add(self, text: str) -> None:
        self.word = (self.word or "") + text

    def _end_word(self) -> None:
        if self.word is None:
            return
        command = self.commands[-1]
        if ">" in self.redirect:
            command.written.append(self.word)
        elif self.redirect == "<":
            command.read.append(self.word)
        elif not self.redirect.startswith("<<"):
            command.words.append(self.word)
        self.word, self.redirect = None, ""

    def _end_command(self) -> None:
        self._end_word()
        self.redirect = ""
        self.commands.append(Command())
