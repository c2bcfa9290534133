"""The web for `research`: searching, fetching and reading pages. None of it is trusted."""

from headgate.web.addresses import Permits, is_local, is_public
from headgate.web.page_text import find_trafilatura
from headgate.web.research import NOT_CONFIGURED, Research
