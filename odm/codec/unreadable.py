"""`Unreadable`: what `StoredType.load` returns for a stored value of another form."""

from odm.expressions.nodes import Value


class Unreadable:
    """Stands for a stored value that has another form, so that validation refuses it.

    Args:
        value: the stored value.
        reason: what is wrong with it, for the message; "": the reason that pydantic gives.
    """

    def __init__(self, value: Value, reason: str = "") -> None:
        self.value = value
        self.reason = reason

    def __repr__(self) -> str:
        return repr(self.value)
