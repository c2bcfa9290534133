"""The kinds of stages that every flow has: a conversation, the verification steps, a look at the diff."""

from headgate.run.kinds.review import REVIEW
from headgate.run.kinds.talk import TALK
from headgate.run.kinds.verify import VERIFY
from headgate.run.leaf import Kind

KINDS: dict[str, Kind] = {kind.name: kind for kind in (TALK, VERIFY, REVIEW)}
