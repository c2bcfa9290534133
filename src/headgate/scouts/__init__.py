"""What can be found out about a repository without a model: which lines a failing test suspects."""

from headgate.scouts.suspects import Suspect, measure_coverage, rank_functions, score_lines, suspect_lines
