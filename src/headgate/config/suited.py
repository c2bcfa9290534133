"""Which built-in flow suits a task, where the configuration leaves that open."""

import re

from headgate.config.schema import Config

SMALL = 4.0
"""Models up to so many billion parameters do better with one short question at a time than with tools."""
SMALLEST = 0.05
"""`1m` in a name is a context of a million tokens: no model that people run has so few parameters."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d+)?) ?([bm])(?![a-z0-9])", re.IGNORECASE)
_THINKING = re.compile(
    r"(?<![a-z0-9])(r1|qwq|o1)(?![a-z0-9])|think|reason|gpt-?oss|magistral|smollm3|exaone-?deep|deepcoder"
    r"|deepscaler|qwen-?3(?![0-9b]|.*(coder|instruct|2507))",
    re.IGNORECASE,
)
"""Models that think before they answer: a short answer is over before it has begun."""
_MENDING = re.compile(
    r"\b(fix(es|ed|ing)?|fail(s|ed|ing|ures?)?|bugs?|broken|wrong(ly)?|incorrect(ly)?|crash(es|ed|ing)?"
    r"|regressions?|repair|mend|do(es)?(n['\u2019]t| not) work|\w*(?-i:Error|Exception)|traceback"
    r"|raises|throws|can(no|['\u2019])t|off[- ]by[- ]one|(not|no longer) able to"
    r"|(test\w*|checks?|it) ((to|should) )?(pass(es)?|green))\b",
    re.IGNORECASE,
)
"""Words that say that something is broken."""
_MAKING = re.compile(
    r"\W*(please\s+)?(add|allow|convert|create|delete|deprecate|document|enable|expose|extend|extract|generate"
    r"|implement|improve|introduce|migrate|move|provide|raise|refactor|remove|rename|replace|rewrite|split"
    r"|support|translate|update|upgrade|write)\s+"
    r"(?!(is|are|was|does|fail(s|ed)?|crash(es|ed)?|gives|returns|\w+s instead|(an? )?(bug)?fix)\b)",
    re.IGNORECASE,
)
"""Verbs with which a goal begins that asks for something new. In `add returns` it is the name of a thing."""
_WISH = re.compile(
    r"\b(need|needs|needed|want|wants|wanted|would like|['\u2019]d like|wish|there should be|able to)\b",
    re.IGNORECASE,
)
"""Words of somebody who wants something that is not there yet."""
_ENGLISH = re.compile(
    r"\b(the|are|it|its|that|when|not|has|this|and|with|to|after|instead|still|never|always"
    r"|twice|is|for|of|on|too|gives|returns|should)\b",
    re.IGNORECASE,
)
"""A goal without any of them may be in another language, about which nothing here can tell."""
_COMMAND = re.compile(
    r"\W*(please\s+)?(accept|build|bump|call|change|clean|cover|define|describe|drop|explain|find|format|give|have"
    r"|hide|ignore|keep|let|list|log|look|make|merge|name|open|port|prefer|print|put|read|reduce|return|run|save"
    r"|set|show|simplify|sort|speed|start|stop|store|summari[sz]e|switch|tell|test|turn|use|why|how|what|where|which"
    r"|who|can|could|would|is|are|does|do)\b",
    re.IGNORECASE,
)
"""Other words with which a command or a question begins; a goal that is neither says how things are."""


def suited_flow(config: Config, goal: str) -> str:
    """`repair` for a small model, steps that can tell, and a goal that says what is wrong."""
    return "repair" if _can_repair(config) and tells_of_a_bug(goal) else "staged"


def depends_on_goal(config: Config) -> bool:
    """Whether tasks get `repair` or something else, by what they are about."""
    return (config.flow or config.mode) == "auto" and _can_repair(config)


def _can_repair(config: Config) -> bool:
    model = config.models.get(config.model or "")
    name = model.model if model else config.model or ""
    return bool(config.verification.steps) and answers_shortly(name)


def tells_of_a_bug(goal: str) -> bool:
    """Whether there may be something to mend, and nothing to make: the check that comes first decides."""
    if not goal.strip() or _MAKING.match(goal):
        return False
    if _MENDING.search(goal):
        return True
    return bool(_ENGLISH.search(goal)) and not (_COMMAND.match(goal) or _WISH.search(goal))


def answers_shortly(model: str) -> bool:
    """Whether a model is small by its name, and answers without thinking first."""
    size = billions(model)
    return size is not None and size <= SMALL and not _THINKING.search(model)


def billions(model: str) -> float | None:
    """How many billion parameters a model has by its name; of several numbers the largest counts."""
    sizes = [float(number) / (1 if unit in "bB" else 1000) for number, unit in _SIZE.findall(model)]
    return max((size for size in sizes if size >= SMALLEST), default=None)
