"""Every row there is, by theme."""

from bestiary.commands import COMMANDS
from bestiary.control import CONTROL
from bestiary.limits import LIMITS
from bestiary.loops import LOOPS
from bestiary.malformed import MALFORMED
from bestiary.servers import SERVERS
from bestiary.tampering import TAMPERING
from bestiary.words import WORDS

THEMES = (CONTROL, LOOPS, WORDS, MALFORMED, TAMPERING, COMMANDS, SERVERS, LIMITS)
ROWS = {row.name: row for theme in THEMES for row in theme.rows}
