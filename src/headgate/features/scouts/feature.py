"""What scouts add to a program that runs tasks."""

from headgate.features.scouts.code_map import CodeMap, MapQuery
from headgate.features.scouts.failure_clues import CluesOfFailure
from headgate.features.scouts.mapping import map_code
from headgate.features.scouts.render import render_map
from headgate.features.scouts.scout import Scout
from headgate.features.scouts.stages import with_scouts
from headgate.features.scouts.tool import ask_scout
from headgate.run import Feature

FEATURE = Feature(kinds=(Scout(),), observers=(CluesOfFailure(),), settings=lambda config: config.scouts)
