"""What reviews add to a program that runs tasks."""

from headgate.features.reviews.review import Review
from headgate.features.reviews.scope import DIFF_SCOPE, TESTS_TOUCHED
from headgate.features.reviews.weakened import TESTS_WEAKENED
from headgate.run import Feature

FEATURE = Feature(kinds=(Review(),), checks=(DIFF_SCOPE, TESTS_TOUCHED, TESTS_WEAKENED))
