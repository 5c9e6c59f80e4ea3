"""A clock that stands still until a test moves it."""

from datetime import UTC, datetime, timedelta
from threading import Lock

from odm import BadValue


class Clock:
    """The time of a test: ``Memory(clock=clock)``, ``LocalFile(path, clock=clock)``; a call returns epoch seconds.

    Stores with this clock use it for expiry and for ``index_lag``. Thread-safe.

    Args:
        start: the first time, with a time zone; default: the current time, rounded down to a whole second.

    Raises:
        BadValue: the start has no time zone.
    """

    def __init__(self, start: datetime | None = None) -> None:
        self._lock = Lock()
        self._now = datetime.now(UTC).replace(microsecond=0) if start is None else _checked(start)

    def __call__(self) -> float:
        return self.now().timestamp()

    def __repr__(self) -> str:
        return f"Clock({self.now().isoformat()})"

    def now(self) -> datetime:
        """The current time, in UTC."""
        with self._lock:
            return self._now

    def advance(self, by: timedelta | float) -> None:
        """Let time pass.

        Args:
            by: how much, as a timedelta or in seconds.

        Raises:
            BadValue: the duration is negative.
        """
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        if step < timedelta():
            raise BadValue(f"advance({by!r}): time only moves forwards; to go back, set() the clock to an earlier time")
        with self._lock:
            self._now += step

    def set(self, moment: datetime) -> None:
        """Set the clock to another time, earlier or later.

        Raises:
            BadValue: the time has no time zone.
        """
        checked = _checked(moment)
        with self._lock:
            self._now = checked


def _checked(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise BadValue(f"{moment!r} has no time zone: write datetime(..., tzinfo=UTC)")
    return moment.astimezone(UTC)
