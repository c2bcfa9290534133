"""What may not be touched: guards for tools, and files that are restored after a command."""

from headgate.protect.approvals import AllowList, Answer, ApprovalMode, Approvals, AskPerson
from headgate.protect.boundaries import ResolvedBoundaries, resolve_boundaries
from headgate.protect.commits import CommitProtection, CommitRule, CommitsFound
from headgate.protect.compiled_modules import remove_compiled_modules
from headgate.protect.files import ProtectedFiles
from headgate.protect.git_secrets import committed_secrets
from headgate.protect.git_settings import protect_git
from headgate.protect.guards import Boundaries, ConfigFiles, OnlyInside, PatternPresence, spellings_of
from headgate.protect.installed import InstalledPackages
from headgate.protect.protected_tests import REASON, ProtectedTests, StartFiles
from headgate.protect.records import RecordStore
from headgate.protect.redaction import HIDDEN, HiddenValues, Redactor, redactor
from headgate.protect.restore import Protected, Protection, Restored, protect_between, protected_while
from headgate.protect.secret_scan import RenamedSecrets, SecretScan
from headgate.protect.secrets import DEFAULT_SECRETS, SecretFiles, SecretNames
from headgate.protect.step_commands import expand_steps, preparing_steps
