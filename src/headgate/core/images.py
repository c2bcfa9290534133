"""Images that go to a model together with the first message."""

MAX_IMAGE_BYTES = 5_000_000
"""What the providers take of one image."""
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_NAMES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def image_type(data: bytes) -> str:
    """The media type of an image that models can be shown, by its content; empty for all else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for start, kind in _SIGNATURES if data.startswith(start)), "")


def is_image_name(path: str) -> bool:
    """Whether a file is called like such an image."""
    return path.lower().endswith(_NAMES)
