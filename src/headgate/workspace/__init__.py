"""The repository: its paths, its files on disk or in an overlay, its ignore rules, and git."""

from headgate.workspace.copies import CopyImpossible, remove_copies, tree_copy
from headgate.workspace.disk import DiskWorkspace
from headgate.workspace.git_repository import (
    GitFailed,
    common_folder,
    exclude_internal,
    git,
    git_folder,
    read_regular,
    run_git,
    safe_folder,
    without_filters,
)
from headgate.workspace.globs import Rules, expand_braces, fold_case
from headgate.workspace.ignore import IgnoredPaths, internal_name, walk_files
from headgate.workspace.line_merge import merge_lines
from headgate.workspace.mentioned import MentionedPaths
from headgate.workspace.objects import NESTED, Entry, batch_objects, object_name
from headgate.workspace.overlay import OverlayWorkspace, ProposedChange, decode_changes, encode_changes
from headgate.workspace.paths import ConfinedTree, is_too_deep, leads_out
from headgate.workspace.proposal import (
    AdaptedProposal,
    ProposalConflicts,
    adapt_proposal,
    patch_between,
    record_proposal,
    strict_patch,
)
from headgate.workspace.snapshots import Difference, Snapshots
from headgate.workspace.tree_walk import LARGE
from headgate.workspace.workspace import DirectoryEntry, File, FileChange, Workspace, ancestors
from headgate.workspace.writes import WriteBatch, hash_at, mode_at, open_parent, read_at, settle_writes
