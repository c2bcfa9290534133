"""What each strategy of compaction leaves of sessions that really happened, in characters.

    python scripts/measure_compaction.py [FILE ...]

Each FILE is a gzipped JSON object with `messages` in the form of the OpenAI API. Without one, the recorded
sessions in the folder `trajectories` of HEADGATE_CASES are measured. A session is split into stages where a
person says something.
"""

import gzip
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "run")]

from session_records import split_session  # noqa: E402

from cases import CASES  # noqa: E402
from headgate.core import Compaction, size_of  # noqa: E402
from headgate.features.compaction.summary import StageRecord, summarise_stage  # noqa: E402
from views import read_messages  # noqa: E402

STRATEGIES = ("aggressive", "moderate", "comprehensive")


def measure(path: Path) -> list[str]:
    """The table of one session."""
    records = split_session(read_messages(json.loads(gzip.decompress(path.read_bytes()))["messages"]))
    before = sum(size_of(record.messages) for record in records)
    lines = [
        f"{path.name}: {len(records)} stages, {sum(len(record.messages) for record in records)} messages"
    ]
    lines.append(
        f"{'strategy':<14}{'before':>10}{'after':>10}{'left':>8}{'decisions':>12}{'errors':>9}{'files':>8}"
    )
    for strategy in STRATEGIES:
        texts = [summarise_stage(record, Compaction(strategy=strategy)) for record in records]
        after = sum(len(text) for text in texts)
        kept = "".join(
            f"{one:>{width}}" for one, width in zip(survivors(records, texts), (12, 9, 8), strict=True)
        )
        lines.append(f"{strategy:<14}{before:>10,}{after:>10,}{after / before:>8.1%}{kept}")
    return lines


def survivors(records: list[StageRecord], texts: list[str]) -> tuple[str, str, str]:
    """How many of the stated decisions, errors and changed files are in the summaries, of how many."""
    decisions, errors, files = [], [], []
    for record, text in zip(records, texts, strict=True):
        decisions += [decision in text for decision in record.note.decisions]
        failed = [" ".join(message.content.split()) for message in record.messages if message.failed]
        errors += [f": {error}"[:150] in text and error[-150:] in text for error in failed]
        files += [name in text for name in record.files_changed]
    return tuple(f"{sum(found)}/{len(found)}" for found in (decisions, errors, files))  # type: ignore[return-value]


def main() -> None:
    paths = [Path(name) for name in sys.argv[1:]] or sorted((CASES / "trajectories").glob("*.json.gz"))
    if not paths:
        print(f"Skipped: there are no recorded sessions in {CASES / 'trajectories'}; set HEADGATE_CASES.")
    for path in paths:
        print("\n".join(measure(path)))


if __name__ == "__main__":
    main()
