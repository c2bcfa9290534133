"""The features that take part in a run, in one list. Their events are known through `headgate.features`."""

from collections.abc import Mapping

from headgate import run
from headgate.checks import CHECKS, Check, registry_of
from headgate.features import repair
from headgate.features.compaction import feature as compaction
from headgate.features.mentions import feature as mentions
from headgate.features.phases import feature as phases
from headgate.features.recipes import feature as recipes
from headgate.features.reviews import feature as reviews
from headgate.features.scouts import feature as scouts
from headgate.features.task_list import feature as task_list

FEATURES: tuple[run.Feature, ...] = (
    scouts.FEATURE,
    task_list.FEATURE,
    recipes.FEATURE,
    reviews.FEATURE,
    repair.FEATURE,
    mentions.FEATURE,
    compaction.FEATURE,
    phases.FEATURE,
)

KINDS: Mapping[str, run.Kind] = run.KINDS | {
    kind.name: kind for feature in FEATURES for kind in feature.kinds
}
"""What a stage can be, by name."""
ALL_CHECKS: Mapping[str, Check] = registry_of(
    *sorted(
        (*CHECKS.values(), *(check for feature in FEATURES for check in feature.checks)),
        key=lambda check: check.spec.order,
    )
)
"""What must hold to leave a stage, by name; they run in this order."""
