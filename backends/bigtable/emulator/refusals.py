"""Why the emulator refuses a call: the status that the client gets."""

from typing import Final

from attrs import frozen


@frozen
class Refused(Exception):  # which a struct cannot be
    """A call is refused.

    Attributes:
        code: the name of the status code, as in `grpc.StatusCode`, such as "NOT_FOUND".
        message: what is wrong, and with which value.
        retry_after: the seconds after which the client may try again, sent as RetryInfo; None: not sent.
        cookies: routing cookies for the next attempt.
    """

    code: str
    message: str
    retry_after: float | None = None
    cookies: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    @property
    def shown(self) -> str:
        """The message, not longer than a client takes."""
        return self.message if len(self.message) <= _LONG else f"{self.message[:_LONG]}..."


_LONG: Final = 1000


def invalid(message: str) -> Refused:
    """The refusal of an argument."""
    return Refused("INVALID_ARGUMENT", message)


def not_found(what: str) -> Refused:
    """The refusal of a call about something that does not exist."""
    return Refused("NOT_FOUND", f"{what} not found")
