"""Writes the table of attempts in docs/security.md from the suite that tries them.

python scripts/gen_security_docs.py [--check]
"""

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "security.md"
ATTEMPTS = ROOT / "tests" / "escapes" / "attempts.yaml"
BEGIN, END = "<!-- attempts: made by scripts/gen_security_docs.py -->", "<!-- end of the attempts -->"
CLASSES = {
    "read": (
        "Reading what is private",
        "mounts: home folders are empty, files with secrets cannot be opened",
    ),
    "process": ("The environment and other processes", "a process namespace of its own"),
    "outlive": ("Outliving the call", "the process namespace ends with the call"),
    "write": (
        "Writing outside the repository",
        "the file system is read-only, the home folder a private one",
    ),
    "git": ("git's own files", "`.git` is read-only"),
    "protected": (
        "Tests, boundaries and Headgate's own files",
        "read-only or hidden, and put back afterwards",
    ),
    "left": ("What is left in the file system", "a filter for system calls, and put right afterwards"),
    "network": ("Network", "a network namespace of its own"),
    "calls": ("System calls", "a filter for system calls"),
    "resources": ("Using up the machine", "limits, and a control group where one can be made"),
}
WITHOUT = {
    "shell": "gets through",
    "steps": "held; gets through in the code under test",
    "both": "gets through",
}


def table() -> str:
    """The attempts by class, with what stops them."""
    attempts = yaml.safe_load(ATTEMPTS.read_text())
    lines = [f"The suite makes {len(attempts)} attempts. None of them gets through in bubblewrap.", ""]
    lines += ["| attempt | without a sandbox |", "|---|---|"]
    for name, (title, layer) in CLASSES.items():
        lines.append(f"| **{title}**: in bubblewrap, {layer} | |")
        for one in attempts.values():
            if one["class"] == name:
                held = "not tried" if one.get("sandbox_only") else WITHOUT.get(one.get("through", ""), "held")
                lines.append(f"| {one['title']} | {held} |")
    return "\n".join(lines)


def main() -> int:
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    made = f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.split(END)[1]}"
    if "--check" in sys.argv:
        if made != page:
            print("docs/security.md is out of date: run scripts/gen_security_docs.py")
        return int(made != page)
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
