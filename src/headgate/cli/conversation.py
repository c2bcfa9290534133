"""The conversation with the model as `show --detail` prints it, while it is kept: the prompts, what the model
wrote, and what its calls returned. A long text is cut."""

from collections.abc import Iterator

from headgate.core import Event, MessageAdded, ReplyReceived, ToolFinished, cut_text, plain

TEXT_CHARS = 4_000
"""Of one text; the page shows ten times as much."""


def conversation_lines(event: Event, kept: str) -> Iterator[str]:
    """What was written or read with an event; nothing where none of it is kept."""
    match event.body:
        case MessageAdded(role=role, slug=slug) if kept:
            yield from _quoted("System prompt" if role == "system" else f"To the model ({slug})", kept)
        case ReplyReceived() if kept:
            from headgate.run import read_reply  # takes as long to load as all that the other commands need

            reply = read_reply(kept)
            yield from _quoted("The model thinks", reply.reasoning)
            yield from _quoted("The model", reply.content)
            for call in reply.calls:
                yield from _quoted(f"The model calls {call.name}", call.arguments)
        case ToolFinished(name=name) if kept:
            yield from _quoted(f"{name} returns", kept)
        case _:
            return


def _quoted(title: str, text: str) -> Iterator[str]:
    if text.strip():
        yield f"  {title}:"
        for line in cut_text(plain(text), TEXT_CHARS).strip("\n").splitlines():
            yield f"  > {line}"
