"""The interactive terminal: bare `headgate`. It is imported only when it starts.

It is a part of the command line and no room of its own: it shows tasks with the same lines, asks with the
same question and leaves tasks to the same worker as `headgate run`.
"""
