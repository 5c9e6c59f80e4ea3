"""`PlaceRules`: what pydantic's schema of an entity says about the value at one place, such as a member of a list.

The rules of a place are read from the public core schema, once for each shape of a path: all members of a list or dict
have the same. They answer three questions. Which validator does a value run through that an action writes there? What
does a value look like that a condition compares with it? And can the new value be judged without the rest of the item?
If it cannot, `PlaceRules.whole` says why.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import CoreSchema, SchemaValidator, core_schema

from odm.codec.types.validation import validator_of
from odm.immutable import Immutable, field

_SCALARS: Final = {"str": str, "int": int, "bool": bool}
_LIMITS: Final = frozenset(
    {
        *("min_length", "max_length", "pattern", "ge", "gt", "le", "lt", "multiple_of", "max_digits", "decimal_places"),
        *("allow_inf_nan", "min_items", "max_items", "now_op", "tz_constraint"),
    }
)
"""The settings of core schemas that refuse values and change none."""

_TEXT_FORMS: Final = ("strip_whitespace", "to_lower", "to_upper")
_CONFIG_FORMS: Final = tuple(f"str_{form}" for form in _TEXT_FORMS)
_SETTINGS: Final = frozenset(
    {"metadata", "default", "serialization", "config", "expected", "members", "computed_fields"}
)
"""What core schemas hold besides other schemas."""

_NUMBERS: Final = frozenset({"int", "float", "decimal", "timedelta", "any"})
_CODE: Final = frozenset({"function-before", "function-after", "function-wrap", "function-plain"})
_RECORDS: Final = frozenset({"model", "dataclass", "typed-dict"})
_FIELDS: Final = frozenset({"model-fields", "dataclass-args", "typed-dict"})
_CONTAINERS: Final = _FIELDS | {"list", "tuple", "dict", "set", "frozenset", "any"}


class PlaceRules(Immutable, eq=False, dict=True):
    """The rules of a place.

    Attributes:
        schema: the core schema of the value.
        config: the configuration of the model that the value is in.
        definitions: the core schemas that others refer to, by reference.
        whole: why a new value can only be judged with the rest of the item; None: the value's own rules are enough.
    """

    schema: Any = field(repr=False)
    config: core_schema.CoreConfig = field(repr=False)
    definitions: Mapping[str, Any] = field(repr=False)
    whole: str | None = None
    _children: "dict[str | int | None, PlaceRules]" = field(factory=dict, repr=False)

    @cached_property
    def plain(self) -> type | None:
        """The type whose values are written and compared as they are; None if the place has more than a type."""
        node = self.schema["schema"] if self.schema["type"] == "default" else self.schema
        if self.config.keys() - {"title"} or node.keys() - {"type", "metadata"}:
            return None
        return _SCALARS.get(node["type"])

    @cached_property
    def free(self) -> bool:
        """Whether values of any type may be there, which have no rules."""
        return bool(self.schema["type"] == "any")

    def validate(self, value: Any) -> Any:
        """The value as the model holds it.

        Raises:
            pydantic.ValidationError: the model refuses it.
        """
        # Text beyond ASCII may hold surrogates, which pydantic refuses.
        if self.free or (type(value) is self.plain and (type(value) is not str or value.isascii())):
            return value
        return self._validator.validate_python({"value": value})["value"]

    def normalise(self, value: Any) -> Any:
        """The value as the model would hold it, without its limits: for a comparison, which refuses no value."""
        if not self.normalises or value is None:
            return value
        for validator in (self._validator, self._unlimited):
            try:
                return validator.validate_python({"value": value})["value"]
            except (ValidationError, KeyError):  # KeyError: of a validator that looks up another field
                continue
        return value

    def normalise_start(self, text: Any) -> Any:
        """A text that others are compared with, such as a prefix: as `normalise`, but with the spaces at its end."""
        changed = self.normalise(text)
        if not isinstance(text, str) or not isinstance(changed, str):
            return changed
        end = text[len(text.rstrip()) :]
        return changed if changed.endswith(end) else changed + end

    def normalise_bound(self, value: Any) -> Any:
        """The bound of a range: a text as `normalise_start`, any other value unchanged."""
        return self.normalise_start(value) if isinstance(value, str) else value

    def normalise_part(self, text: Any) -> Any:
        """A text to find inside others: as `normalise`, but with the spaces at both ends."""
        changed = self.normalise_start(text)
        if not isinstance(text, str) or not isinstance(changed, str):
            return changed
        start = text[: len(text) - len(text.lstrip())] if text.strip() else ""
        return changed if changed.startswith(start) else start + changed

    @cached_property
    def normalises(self) -> bool:
        """Whether validation may change a value of the declared type, such as the case of a text."""
        return _normalises(self.schema, self.config, self.definitions)

    @property
    def inside(self) -> str | None:
        """Why a change of a part can only be judged with the whole item; None: the part's own rules are enough."""
        node, _, reason = self._container
        if reason is None and node["type"] == "union" and any(_limits(choice) for choice in node["choices"]):
            return "the value is of one of several types"
        return reason

    @cached_property
    def sum(self) -> str | None:
        """Why a sum can only be judged with the whole item; None: its bounds decide."""
        node, reason = self.schema, self.whole
        while node["type"] not in _NUMBERS:
            reason = reason or _code_of(node)
            if node["type"] == "definition-ref":
                node = self.definitions[node["schema_ref"]]
            elif "schema" in node:
                node = node["schema"]
            else:
                plain = node["type"] == "union" and all(_is_plain_number(choice) for choice in node["choices"])
                return reason or (None if plain else "the number is one of several types")
        digits, places = node.get("max_digits"), node.get("decimal_places")
        if digits is not None and (places is None or places > digits):
            reason = reason or "the number of digits (max_digits) of a sum is not known before"
        return reason or (None if self.default_fits else "the default, from which it may start, does not fit the model")

    @cached_property
    def limited(self) -> bool:
        """Whether a list, set or dict here must have a least or a most number of elements."""
        return bool(self._container[0].keys() & {"min_length", "max_length"})

    @cached_property
    def default_fits(self) -> bool:
        """Whether the default of the place, from which an action may start, is a value that the model stores."""
        node = self.schema
        if node["type"] != "default":
            return True
        if node.get("default_factory_takes_data"):
            return False
        default = node["default"] if "default" in node else node["default_factory"]()
        try:
            value = self._validator.validate_python({"value": default})["value"]
        except (ValidationError, KeyError):
            return default is None  # sums and lists then start at 0 and empty
        return bool(self._validates_default or value == default)

    @cached_property
    def missing_fits(self) -> bool:
        """Whether an item without the attribute can be read: pydantic validates a default only if asked to."""
        return not self._validates_default or self.default_fits

    @property
    def _validates_default(self) -> bool:
        return bool(self.schema.get("validate_default", self.config.get("validate_default")))

    @cached_property
    def elements(self) -> "PlaceRules":
        """The rules of the elements of a list or a set, or of ``element`` of a union."""
        return self.child(0)

    @cached_property
    def keys(self) -> "PlaceRules | None":
        """The rules of the keys of a dict; None: any text is a key as it is."""
        node, config, _ = self._container
        keys = node.get("keys_schema") if node["type"] == "dict" else None
        if keys is None:
            return None
        rules = PlaceRules(keys, config, self.definitions)
        return None if rules.plain is str or rules.free else rules

    def child(self, segment: str | int) -> "PlaceRules":
        """The rules of the part that a segment of a path names, which leads somewhere; names are those of fields."""
        node, config, whole = self._container_of(segment)
        kind, at = node["type"], segment
        if kind in ("list", "dict", "set", "frozenset", "any"):
            at = 0
        elif kind == "tuple" and "variadic_item_index" in node:
            at = 0 if node["variadic_item_index"] == 0 and len(node["items_schema"]) == 1 else segment
        known = self._children.get(at)
        if known is None:
            schema, sees = _part(node, at, self.definitions)
            known = self._children[at] = PlaceRules(schema, config, self.definitions, whole or sees)
        return known

    def _container_of(self, segment: str | int) -> tuple[Any, core_schema.CoreConfig, str | None]:
        """The container, or the one member of a union of several that has such a part."""
        node, config, whole = self._container
        if node["type"] not in ("union", "tagged-union"):
            return node, config, whole
        choices = node["choices"]
        members = (
            choices.values() if isinstance(choices, dict) else (c[0] if isinstance(c, tuple) else c for c in choices)
        )
        opened = [_open(member, config, self.definitions) for member in members]
        holders = [holder for holder in opened if _holds(holder[0], segment)]
        if len(holders) == 1:
            return holders[0][0], holders[0][1], whole or holders[0][2]
        return {"type": "any"}, config, whole or "the value is one of several models"

    @cached_property
    def _container(self) -> tuple[Any, core_schema.CoreConfig, str | None]:
        """What holds the parts, its configuration, and why a part can only be judged with the whole item."""
        node, config, code = _open(self.schema, self.config, self.definitions)
        return node, config, self.whole or code

    @cached_property
    def _validator(self) -> SchemaValidator:
        return self._compiled(self.schema)

    @cached_property
    def _unlimited(self) -> SchemaValidator:
        return self._compiled(_unlimited(self.schema))

    def _compiled(self, schema: Any) -> SchemaValidator:
        alone: CoreSchema = core_schema.typed_dict_schema(
            {"value": core_schema.typed_dict_field(schema)}, config=self.config
        )
        definitions = list(self.definitions.values())
        return validator_of(core_schema.definitions_schema(alone, definitions) if definitions else alone)


def whole_reason(schema: Any) -> str | None:
    """Why a new value in an entity with this core schema can only be judged with the whole item; None: it need not."""
    definitions: dict[str, Any] = {}
    node = schema
    while node["type"] != "model-fields":
        if node["type"] == "definitions":
            definitions |= {definition["ref"]: definition for definition in node["definitions"]}
        if (code := _code_of(node)) is not None:
            return code
        node = definitions[node["schema_ref"]] if node["type"] == "definition-ref" else node["schema"]
    return None


def sees_others(fields: Mapping[str, Any], name: str, definitions: Mapping[str, Any]) -> str | None:
    """Why a change of a field can only be judged with others: a validator sees it, or it sees others before it.

    Pydantic hands a validator the fields that are declared before its own (``info.data``).
    """
    names = list(fields)
    for other in names[names.index(name) :]:
        code = _with_data(fields[other], definitions)
        if code is not None:
            return f"{code} of the field {other!r} can see other fields"
    return None


def _open(
    node: Any, config: core_schema.CoreConfig, definitions: Mapping[str, Any]
) -> tuple[Any, core_schema.CoreConfig, str | None]:
    """The container inside defaults, ``| None``, references, models and code, and the code that sees all of it."""
    reason: str | None = None
    while node["type"] not in _CONTAINERS:
        reason = reason or _code_of(node)
        match node["type"]:
            case "definition-ref":
                node = definitions[node["schema_ref"]]
                continue
            case "model" | "dataclass":
                config = node.get("config", {})
            case "json-or-python":
                node = node["python_schema"]
                continue
            case "union" | "tagged-union":
                return node, config, reason
        if "schema" not in node:
            return {"type": "any"}, config, reason or "its validation cannot be divided"
        node = node["schema"]
    return node, config, reason


def _code_of(node: Any) -> str | None:
    """The code around a schema that sees all of the value, for messages; None: there is none."""
    match node["type"]:
        case kind if kind in _CODE:
            function = node["function"]
            function = function["function"] if isinstance(function, dict) else function
            return f"the validator {_name(function)} sees the whole value"
        case "model" if node.get("custom_init"):
            return f"{node['cls'].__name__}.__init__ sees the whole value"
        case "model" | "dataclass" if node.get("post_init"):
            hook = "model_post_init" if node["type"] == "model" else "__post_init__"
            return f"{node['cls'].__name__}.{hook} sees the whole value"
    return None


def _name(function: Any) -> str:
    function = getattr(function, "func", function)  # of a partial
    return str(getattr(function, "__qualname__", type(function).__qualname__)).rpartition("<locals>.")[2]


def _holds(node: Any, segment: str | int) -> bool:
    """Whether values of a schema have parts that such a segment names."""
    if isinstance(segment, int):
        return node["type"] in ("list", "tuple", "set", "frozenset", "any")
    return node["type"] == "dict" or node["type"] == "any" or node["type"] in _FIELDS


def _fields_of(node: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a model, dataclass or TypedDict, in the order in which they are validated."""
    fields = node["fields"]
    if isinstance(fields, dict):
        yield from ((name, entry["schema"]) for name, entry in fields.items())
    else:
        yield from ((field["name"], field["schema"]) for field in fields)


def _part(node: Any, segment: str | int, definitions: Mapping[str, Any]) -> tuple[Any, str | None]:
    """The core schema of a part, and why it can only be judged with the parts next to it."""
    kind = node["type"]
    if kind in _FIELDS:
        fields = dict(_fields_of(node))
        return fields[str(segment)], sees_others(fields, str(segment), definitions)
    if kind == "dict":
        return node.get("values_schema", core_schema.any_schema()), None
    if kind == "tuple":
        items = node["items_schema"]
        at = min(int(segment), len(items) - 1)
        return items[at], None if len(
            items
        ) == 1 or "variadic_item_index" not in node else "its tuple has a variable part"
    return node.get("items_schema", core_schema.any_schema()), None


def _with_data(node: Any, definitions: Mapping[str, Any], around: frozenset[str] = frozenset()) -> str | None:
    """The code of a field that is handed the fields before it; not that of models inside the field."""
    if isinstance(node, list | tuple):
        return next((code for part in node if (code := _with_data(part, definitions, around)) is not None), None)
    if not isinstance(node, dict):
        return None
    kind = node.get("type")
    if kind in _RECORDS:
        return None
    if kind == "definition-ref":
        ref = node["schema_ref"]
        return None if ref in around else _with_data(definitions[ref], definitions, around | {ref})
    if kind in _CODE and isinstance(node["function"], dict) and node["function"]["type"] == "with-info":
        return f"the validator {_name(node['function']['function'])}"
    if node.get("default_factory_takes_data"):
        return "the default factory"
    return next((code for part in _inside(node) if (code := _with_data(part, definitions, around)) is not None), None)


def _inside(node: Any) -> Iterator[Any]:
    """The core schemas inside one; names of fields and of choices may be those of its settings."""
    for name, part in node.items():
        if name in ("fields", "choices") and isinstance(part, dict):
            yield from part.values()
        elif name not in _SETTINGS and isinstance(part, dict | list | tuple):
            yield part


def normalises_somewhere(schema: Any) -> bool:
    """Whether validation may change an instance of an entity with this core schema: code, or forms of text."""
    node, definitions = schema, dict[str, Any]()
    while node["type"] == "definitions":
        definitions |= {definition["ref"]: definition for definition in node["definitions"]}
        node = node["schema"]
    return _normalises(node, {}, definitions, models=True)


def _normalises(
    node: Any,
    config: Mapping[str, Any],
    definitions: Mapping[str, Any],
    around: frozenset[str] = frozenset(),
    *,
    models: bool = False,
) -> bool:
    if isinstance(node, list | tuple):
        return any(_normalises(part, config, definitions, around, models=models) for part in node)
    if not isinstance(node, dict):
        return False
    kind = node.get("type")
    if kind in _RECORDS:
        if not models:
            return False  # a comparison gets an instance, which was validated when it was made
        config = node.get("config", config)
    if kind == "definition-ref":
        ref = node["schema_ref"]
        return ref not in around and _normalises(definitions[ref], config, definitions, around | {ref}, models=models)
    if kind in _CODE or node.get("post_init") or node.get("custom_init"):
        return True
    if kind == "str" and any(node.get(form) for form in _TEXT_FORMS):
        return True
    if kind == "str" and any(config.get(form) for form in _CONFIG_FORMS):
        return True
    return any(_normalises(part, config, definitions, around, models=models) for part in _inside(node))


def _limits(choice: Any) -> bool:
    node = choice[0] if isinstance(choice, tuple) else choice
    return bool(node.keys() & {"min_length", "max_length"})


def _is_plain_number(choice: Any) -> bool:
    node = choice[0] if isinstance(choice, tuple) else choice
    return node["type"] in _NUMBERS and not node.keys() & _LIMITS


def _unlimited(node: Any) -> Any:
    """The core schema without what only refuses values, and without code."""
    if isinstance(node, list | tuple):
        return type(node)(map(_unlimited, node))
    if not isinstance(node, dict):
        return node
    if node["type"] in _CODE:
        return _unlimited(node["schema"]) if "schema" in node else core_schema.any_schema()
    kept = {name: part for name, part in node.items() if name not in _LIMITS}
    for name, part in kept.items():
        if name in ("fields", "choices") and isinstance(part, dict):
            kept[name] = {key: _unlimited(inner) for key, inner in part.items()}
        elif name not in _SETTINGS and isinstance(part, dict | list | tuple):
            kept[name] = _unlimited(part)
    return kept
