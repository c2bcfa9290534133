"""Scouts: facts about a task that are gathered before a model is asked. The code map says where to look."""

from headgate.scouts.build_facts import (
    BuildFacts,
    FailureClues,
    Problem,
    environment_problems,
    find_framework,
    render_build,
)
from headgate.scouts.clues import trace_places
from headgate.scouts.code_map import (
    CodeMap,
    CoveringTest,
    FileReference,
    MapLimits,
    MappedFile,
    MappedSymbol,
    MapQuery,
    PriorArt,
)
from headgate.scouts.fault_localisation import (
    Suspect,
    likely_lines,
    rank_functions,
    score_lines,
    suspect_lines,
)
from headgate.scouts.mapping import INDEX_NAME, map_code
from headgate.scouts.render import render_map
from headgate.scouts.spectrum import CoverageByTest, measure_coverage, measuring
from headgate.scouts.tool_versions import VERSION, NeededTool, is_satisfied, needed_tools
