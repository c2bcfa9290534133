"""What fails one task and would fail the next."""

import pytest

from headgate.core.pausing import holds_up
from headgate.core.task import Options

PLAIN = Options()
OTHER_MODEL = Options(model="openai/other")
OTHER_SERVER = Options(base_url="http://other/v1")
OTHER_FILE = Options(config="/other.yaml")


@pytest.mark.parametrize(
    ("reason", "following", "held"),
    [
        ("model_unavailable", PLAIN, True),
        ("model_refused", Options(dry_run=True, flow="flat"), True),
        ("model_unavailable", OTHER_MODEL, False),
        ("model_refused", OTHER_SERVER, False),
        ("model_unavailable", OTHER_FILE, False),
        ("check_broken", OTHER_MODEL, True),
        ("check_broken", OTHER_FILE, False),
        ("environment", OTHER_FILE, True),
        ("crash", PLAIN, False),
        ("crash_loop", PLAIN, False),
        ("store_damaged", PLAIN, False),
        ("cancelled", PLAIN, False),
        ("conflict", PLAIN, False),
    ],
)
def test_holds_up(reason: str, following: Options, held: bool) -> None:
    assert holds_up(reason, PLAIN, following) is held
