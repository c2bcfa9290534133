"""Mentions: files, folders and images that a person names with an `@` come with the first message.

What runs tasks finds the rest in `feature`.
"""

from headgate.features.mentions.events import MentionsRead
