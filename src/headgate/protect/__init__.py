"""What may not be touched: guards for tools, and files that are restored after a command."""

from headgate.protect.boundaries import Resolved, resolve_boundaries
from headgate.protect.commits import CommitsFound, ProtectedCommits, Rule
from headgate.protect.files import Protected, ProtectedFiles, Protection, Restored, protected_while
from headgate.protect.git_settings import protect_git
from headgate.protect.guards import Boundaries, ConfigFiles, OnlyInside, Present, spellings_of
from headgate.protect.protected_tests import REASON, ProtectedTests, StartFiles
from headgate.protect.records import RecordStore
from headgate.protect.secrets import DEFAULT_SECRETS, SecretFiles, redactor

__all__ = [
    "DEFAULT_SECRETS",
    "REASON",
    "Boundaries",
    "CommitsFound",
    "ConfigFiles",
    "OnlyInside",
    "Present",
    "Protected",
    "ProtectedCommits",
    "ProtectedFiles",
    "ProtectedTests",
    "Protection",
    "RecordStore",
    "Resolved",
    "Restored",
    "Rule",
    "SecretFiles",
    "StartFiles",
    "protect_git",
    "protected_while",
    "redactor",
    "resolve_boundaries",
    "spellings_of",
]
