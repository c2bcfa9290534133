"""What may not be touched: guards for tools, and files that are restored after a command."""

from headgate.guard.approvals import AllowList, Answer, ApprovalMode, Approvals, AskPerson
from headgate.guard.boundaries import ResolvedBoundaries, resolve_boundaries
from headgate.guard.commits import CommitFound, CommitWatch
from headgate.guard.git_settings import GitSettings
from headgate.guard.guards import Boundaries, ConfigFiles, OnlyInside, PatternPresence, Rule, spellings_of
from headgate.guard.installed import InstalledPackages
from headgate.guard.protected_tests import REASON, ProtectedTests, StartFiles
from headgate.guard.protected_tree import ProtectedTree
from headgate.guard.redaction import HIDDEN, HiddenValues, Redactor
from headgate.guard.restore import Protected, Restored, protect_between, protected_while
from headgate.guard.secret_scan import RenamedSecrets, SecretScan
from headgate.guard.secrets import DEFAULT_SECRETS, SecretFiles, SecretNames
from headgate.guard.spared_tests import spared_by_task
from headgate.guard.step_commands import expand_steps, preparing_steps
