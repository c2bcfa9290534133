"""What a source file holds, seen from outside: definitions, names used, imports, words, layout.

Files are parsed by tree-sitter in processes of their own, so that no file can crash the one that asks. This
room stands at the bottom and imports no other: such a process starts in a few hundredths of a second.
"""

from headgate.outlines.languages import LANGUAGES, language_of
from headgate.outlines.outline import Definition, Layout, Outline, decode_outline, encode_outline
from headgate.outlines.pool import OutlinePool
from headgate.outlines.reading import outline_file
from headgate.outlines.words import identifiers_in, stem, words_of_name, words_of_text
