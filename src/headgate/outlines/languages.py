"""Which language a file is in, by its name, and the package that can parse it."""

from pathlib import Path

from headgate.first_use import dataclass, regex

_QUERIES = Path(__file__).parent / "queries"


@dataclass(frozen=True, slots=True)
class Language:
    """A language with a grammar. Its package is imported when the first such file is parsed."""

    name: str
    package: str
    function: str = "language"
    query_name: str = ""

    @property
    def query(self) -> str:
        """What is looked for in its syntax trees."""
        return (_QUERIES / f"{self.query_name or self.name}.scm").read_text(encoding="utf-8")


LANGUAGES: dict[str, Language] = {
    language.name: language
    for language in (
        Language("python", "tree_sitter_python"),
        Language("javascript", "tree_sitter_javascript"),
        Language("typescript", "tree_sitter_typescript", "language_typescript"),
        Language("tsx", "tree_sitter_typescript", "language_tsx", "typescript"),
        Language("go", "tree_sitter_go"),
        Language("rust", "tree_sitter_rust"),
        Language("java", "tree_sitter_java"),
        Language("c", "tree_sitter_c"),
        Language("cpp", "tree_sitter_cpp"),
        Language("ruby", "tree_sitter_ruby"),
        Language("php", "tree_sitter_php", "language_php"),
        Language("c_sharp", "tree_sitter_c_sharp"),
        Language("bash", "tree_sitter_bash"),
    )
}
_SUFFIXES = {
    "python": "py pyi pyw",
    "javascript": "js jsx mjs cjs",
    "typescript": "ts mts cts",
    "tsx": "tsx",
    "go": "go",
    "rust": "rs",
    "java": "java",
    "c": "c h",
    "cpp": "cc cpp cxx c++ hh hpp hxx ipp tpp cu cuh",
    "ruby": "rb rake gemspec",
    "php": "php phtml",
    "c_sharp": "cs",
    "bash": "sh bash bats",
}
_BY_SUFFIX = {suffix: name for name, suffixes in _SUFFIXES.items() for suffix in suffixes.split()}
_INTERPRETERS = {
    "python": "python",
    "node": "javascript",
    "ruby": "ruby",
    "php": "php",
    "bash": "bash",
    "sh": "bash",
}
_SHEBANG = regex(rb"#!.*?\b(python|node|ruby|php|bash|sh)[\d.]*(?:\s|$)")


def language_of(path: str, data: bytes = b"") -> Language | None:
    """The language by the suffix; of a file without one, by the program that its first line names."""
    name = path.rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    if dot and stem:
        return LANGUAGES.get(_BY_SUFFIX.get(suffix.lower(), ""))
    found = _SHEBANG.match(data[:200]) if data.startswith(b"#!") else None
    return LANGUAGES[_INTERPRETERS[found[1].decode()]] if found else None
