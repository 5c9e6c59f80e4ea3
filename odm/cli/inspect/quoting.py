"""Text of others in the source of models: every name, template, docstring and comment goes through `escaped`."""

from typing import Final

_QUOTED: Final = {'"': '\\"', "\\": "\\\\"}


def escaped(text: str) -> str:
    """The text as it may stand between double quotes, or behind a ``#``: it ends neither the literal nor the line.

    Quotes, backslashes and all characters that cannot be seen become escapes; so a reader sees every character, also
    one that would change the direction of the text.
    """
    return "".join(_QUOTED.get(char) or (char if char.isprintable() else _escape(char)) for char in text)


def literal(text: str) -> str:
    """The text as a literal of Python."""
    return f'"{escaped(text)}"'


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
