"""The repository: its paths, its files on disk or in an overlay, its ignore rules, and git."""

from headgate.tree.copies import CopyImpossible, in_cache, remove_copies, tree_copy
from headgate.tree.disk import DiskWorkspace
from headgate.tree.fitting import Misfit, fit, merge_lines, patch_between, record_proposal
from headgate.tree.git_files import Setting, commit_of, tracked_files
from headgate.tree.git_repository import (
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
from headgate.tree.globs import Rules, expand_braces, fold_case
from headgate.tree.ignore import IgnoredPaths, internal_name, walk_files
from headgate.tree.kept_files import FEWEST
from headgate.tree.objects import NESTED, Entry, differing, object_name
from headgate.tree.overlay import OverlayWorkspace, ProposedChange, decode_changes, encode_changes
from headgate.tree.paths import ConfinedTree, leads_out
from headgate.tree.revert import Reverter
from headgate.tree.snapshots import Difference, Moment, Snapshots
from headgate.tree.tree_walk import LARGE, MOST_NEW, Snapshot
from headgate.tree.workspace import DirectoryEntry, File, FileChange, Workspace, ancestors
from headgate.tree.writes import WriteBatch, hash_at, mode_at, open_parent, read_at, settle_writes
