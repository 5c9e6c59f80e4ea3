"""The decorators of data classes that do not change: `immutable` of those that calls make, `frozen` of all others.

Type checkers refuse to change either. At run time, `immutable` makes plain classes with slots: a frozen one takes 2.7
times as long to construct, and a call constructs a dozen nodes, queries and requests. Nobody may change one all the
same: they are hashed, compared and shared between threads.

Both are attrs's, except that attrs generates ``==``, ``hash()`` and ``repr()`` when one of them is first called. Most
programs never call them for most of the 250 classes of odm, and to compile them took a fifth of its start.
"""

from threading import RLock
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from attrs import frozen
    from attrs import frozen as immutable
else:
    import attrs

    def immutable(cls: type | None = None, **options: Any) -> Any:
        """A data class that nobody changes."""
        return _decorate(attrs.define, cls, {"on_setattr": (), **options})

    def frozen(cls: type | None = None, **options: Any) -> Any:
        """A data class that nobody can change."""
        return _decorate(attrs.frozen, cls, options)

    def _decorate(decorator: Any, cls: type | None, options: dict[str, Any]) -> Any:
        if cls is None:
            return lambda cls: _decorate(decorator, cls, options)
        late = [_repr] if options.get("repr", True) else []
        late += [_eq, _hash] if options.get("eq", True) else []
        for method in late:
            if method.__name__ in vars(cls):
                raise TypeError(f"{cls.__name__} has a {method.__name__} of its own: say eq=False or repr=False")
            setattr(cls, method.__name__, method)
        return decorator(cls, **options | {"eq": False, "repr": False})

    def _eq(self: Any, other: object) -> Any:
        return _generated(type(self), _eq)(self, other)

    def _hash(self: Any) -> int:
        return _generated(type(self), _hash)(self)

    def _repr(self: Any) -> str:
        return _generated(type(self), _repr)(self)

    _eq.__name__, _hash.__name__, _repr.__name__ = "__eq__", "__hash__", "__repr__"
    _LOCK: Final = RLock()

    def _generated(cls: type, late: Any) -> Any:
        """The method that attrs generates in place of one of these; its class gets all of them at once."""
        name = late.__name__
        owner = next(base for base in cls.__mro__ if name in vars(base))
        with _LOCK:  # two hashes of one value may not differ, whichever thread is first
            if vars(owner)[name] is late:
                fields = {
                    field.name: attrs.field(eq=field.eq_key or field.eq, hash=field.hash, repr=field.repr, kw_only=True)
                    for field in attrs.fields(owner)
                }
                twin = attrs.make_class(owner.__name__, fields, unsafe_hash=True)
                for method in (_eq, _hash, _repr):
                    if vars(owner).get(method.__name__) is method:
                        setattr(owner, method.__name__, vars(twin)[method.__name__])
            return vars(owner)[name]


__all__ = ["frozen", "immutable"]
