"""What mentions add to a program that runs tasks."""

from headgate.features.mentions.files import check_mentions, read_mentions
from headgate.features.mentions.signs import without_signs
from headgate.run import Feature

FEATURE = Feature(attaches=read_mentions)
