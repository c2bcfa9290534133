"""Benchmarks: many exercises, each as a task in a repository of its own, and what came of them."""

from headgate.bench.compare import compare_results, render_comparison
from headgate.bench.exercise_run import FLOW, SECONDS, Terms
from headgate.bench.exercises import Exercise, find_exercises
from headgate.bench.languages import canonical_language
from headgate.bench.results import RESULTS, ExerciseResult, read_results
from headgate.bench.session import BenchRun, Watcher
from headgate.bench.settings import NOWHERE, RunSettings, read_settings
from headgate.bench.summary import Summary, render_summary, summarise
