"""The tool `research`: searching the web, fetching and reading pages. None of it is trusted."""

from headgate.features.research.addresses import Permits, is_local, is_public
from headgate.features.research.page_text import find_trafilatura
from headgate.features.research.search import NOT_CONFIGURED, Research
from headgate.features.research.sources import WebSource, show_sources
from headgate.features.research.tool import research_tool
