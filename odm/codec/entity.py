"""`EntityCodec`: one entity class compiled to its stored form and back.

`encode` makes the item that backends store, `decode` the entity that users get. A stored item has every model field
under its stored name, the tag in ``_t``, the expiry of a TTL field in ``_ttl`` and, from version 2 on, the version of
its model in ``_v``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import CoreSchema, SchemaValidator

from odm.cache import Cache
from odm.codec.actions import ActionLowering, CompiledActions, shape_of_actions
from odm.codec.annotations import TypeCompiler
from odm.codec.attributes import TAG, TTL_ATTRIBUTE, VERSION, ttl_seconds
from odm.codec.conditions import Lowers, Shape, Term, When, WhenTerm, compile_term, compile_when, refuse, shape_of
from odm.codec.depth import LEVELS, check_levels
from odm.codec.emitter import generated_dump
from odm.codec.exact import other_entry, other_form, same_form
from odm.codec.normal import Normal, normal_form
from odm.codec.parts import FieldPart, Validators, compile_part, needs_whole
from odm.codec.paths import Place, Resolver, declared_segments
from odm.codec.places import PlaceRules, normalises_somewhere, sees_others, whole_reason
from odm.codec.proofs import levels_of, nodes_of, reads_json, takes_all
from odm.codec.types.blobs import BlobType
from odm.codec.types.compressed import CompressedType
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.stored import NOTHING, Unfit, kind_of, nearest, refusal_of, show
from odm.codec.types.times import DATETIME, is_datetime
from odm.codec.types.unions import bare
from odm.codec.types.validation import ModelSchema, model_schema, reasons, validated
from odm.codec.upgrades import FIRST, Upgrades
from odm.codec.writers import Draft, Drafts
from odm.entities.markers import Cell, TTLMarker, aggregates_of, entries_of, find_marker
from odm.errors import BadValue, ItemInvalid, SchemaError
from odm.expressions.nodes import Action, Condition, Item, Path, Set, Value
from odm.immutable import Immutable, field

F = TypeVar("F")
T = TypeVar("T")

_MOST_PARTS = 1024


class EntityCodec(Immutable, eq=False, dict=True):
    """Encodes and decodes one entity class, and lowers conditions and actions on its fields. Thread-safe.

    Attributes:
        cls: the entity class.
        tag: its stored name.
        stored: field names to stored names.
        upgrades: the entity's version, and the upgrades of older items.
        marks: the attributes that identify the entity of an item: the tag, and the version from 2 on.
        json_schema: validates the JSON text of an item with the result of `decode`; None if that is not proved.
        sure: `decode` accepts everything that `encode` returns.
        exact: a field is read only from the stored form that it would write; see `odm.codec.exact`.
        datetimes: the fields that hold a datetime, not counting those inside other fields.
        normal: makes the entity that a read returns after a storable one is put: the same, but for its Decimals; None
            if no field can hold one.
    """

    cls: type[Any]
    tag: str
    stored: Mapping[str, str]
    _record: RecordType
    _schema: ModelSchema
    _ttl: str | None
    json_schema: CoreSchema | None
    sure: bool
    upgrades: Upgrades = FIRST
    exact: bool = False
    # Compiled at first use: most fields are never validated alone.
    _validators: dict[str, SchemaValidator] = field(factory=dict)
    _drafts: dict[Drafts[Any], Callable[[Any], tuple[Any, int] | None]] = field(factory=dict)
    _parts: dict[tuple[str | int, ...], FieldPart] = field(factory=dict)
    _part_validators: Validators = field(factory=dict)
    _rules: dict[str, PlaceRules] = field(factory=dict)
    _terms: Cache[Shape, Term] = field(factory=Cache)
    _stored_terms: Cache[Shape, Term] = field(factory=Cache)
    _when_terms: Cache[Shape, WhenTerm] = field(factory=Cache)
    _lowerings: Cache[Shape, CompiledActions] = field(factory=Cache)

    @cached_property
    def _actions(self) -> ActionLowering:
        return ActionLowering(
            Resolver(self._record, self.rules, more=self.exact),
            self.validate,
            self._ttl,
            aggregates_of(self.cls),
            entries_of(self.cls),
        )

    @cached_property
    def marks(self) -> Mapping[str, Value]:
        return _marks(self.tag, self.upgrades.version)

    @cached_property
    def datetimes(self) -> tuple[str, ...]:
        return tuple(f.name for f in self._record.fields.values() if bare(f.type) == DATETIME)

    @cached_property
    def _nesting(self) -> tuple[tuple[str, str], ...]:
        """Field and stored names of the fields that can exceed 32 levels."""
        return _nesting_fields(self._record)

    @cached_property
    def nests(self) -> bool:
        """Whether a field can hold a list or a dict."""
        return levels_of(self._record) > 1

    @cached_property
    def normal(self) -> Normal | None:
        return normal_form(self._record)

    @cached_property
    def as_they_are(self) -> Mapping[str, type]:
        """Fields whose validation returns every value of a type unchanged.

        Of text, only ASCII: pydantic refuses surrogates.
        """
        return self._schema.as_they_are

    @cached_property
    def _stored_resolver(self) -> Resolver:
        return Resolver(self._record, self.rules, defaults=False)

    @cached_property
    def _entries(self) -> tuple[RecordField, ...]:
        """The dicts with a cell for each entry, in rows of other programs."""
        return tuple(self._record.fields[name] for name in sorted(entries_of(self.cls)))

    @cached_property
    def any_cells(self) -> tuple[RecordField, ...]:
        """The fields with a cell of their own on Bigtable that take both lists and dicts.

        Validation may accept what stands for such a cell that cannot be read.
        """
        of_any = (f for f in self._record.fields.values() if {"L", "M"} <= f.type.kinds)
        infos = self.cls.model_fields
        return tuple(f for f in of_any if f.name in infos and find_marker(infos[f.name], Cell) is not None)

    @cached_property
    def _exact_fields(self) -> tuple[RecordField, ...]:
        """The fields with one stored form of each value."""
        return tuple(f for f in self._record.fields.values() if not isinstance(bare(f.type), BlobType | CompressedType))

    @cached_property
    def _dump(self) -> Callable[[Any], dict[str, Value] | None]:
        # Generated at the first write: it takes as long as the rest of compiling, and many entities are only read.
        return generated_dump(self._record, self.marks)

    def draft(self, entity: Any, drafts: Drafts[F]) -> Item:
        """The item of an entity in a backend's form; the result of `encode` if generated code cannot make that form.

        Raises:
            BadValue: as `encode`.
        """
        generated = self._drafts.get(drafts)
        if generated is None:
            generated = self._drafts[drafts] = drafts.emitter(self._record, self.marks, self._ttl).writer()
        pair = generated(entity)
        if pair is None:
            return self.encode(entity)
        # `check` reads an item that is not sure, and encoding it is faster than reading it from the form.
        item = None if self.sure else self.encode(entity)
        form, most = pair
        return Draft(form, most, drafts.read, self.marks, item)

    @property
    def record(self) -> RecordType:
        """The fields and their stored types."""
        return self._record

    def encode(self, entity: Any) -> dict[str, Value]:
        """The stored item of an entity.

        Raises:
            BadValue: the entity is of another class, or a field has a value that its type does not allow or that is
                nested deeper than 32 levels.
        """
        item = self._dump(entity)
        if item is None:
            item = self._dump_with_care(entity)
        if self._nesting:
            self._check_levels(item)
        if self._ttl is not None:
            moment = getattr(entity, self._ttl)
            if moment is not None:
                item[TTL_ATTRIBUTE] = ttl_seconds(moment)
        return item

    def decode(self, item: Item, key: str = "") -> Any:
        """The entity of a stored item, validated with context ``{"odm": "load"}``; unknown attributes are ignored.

        Args:
            item: a stored item, also of an older version; its mutable parts may become the entity's.
            key: the key it is stored under, for messages.

        Raises:
            ItemInvalid: it does not validate, or cannot be upgraded; pydantic's or the upgrade's error is the cause.
        """
        stored = item
        if item.get(VERSION, 1) != self.upgrades.version:
            stored = self.upgrades.apply(self.cls.__name__, item, key)
        for of in self.any_cells:
            if refusal_of(stored.get(of.stored)) is not None:
                raise self._other_form(of, NOTHING, stored, key)
        try:
            instance = validated(self._record.validator, self._record.input(stored))
        except ValidationError as error:
            raise self._invalid(error, item, key) from error
        if self.exact:
            self._check_forms(instance, stored, key)
        return instance

    def _check_forms(self, instance: Any, item: Item, key: str) -> None:
        """Refuse an item with a field of another form than its own."""
        for entries in self._entries:
            if "" in item.get(entries.stored, ()):
                raise self._other_form(entries, NOTHING, item, key)
        several = len(self._exact_fields) < len(self._record.fields)  # dumping a blob or compressing has a cost
        written = None if several else self._dump(instance)
        for exact in self._exact_fields:
            if exact.stored in item:
                form = (
                    _dumped(exact, getattr(instance, exact.name))
                    if written is None
                    else written.get(exact.stored, NOTHING)
                )
                self._check_form(exact, form, item, key)

    def _check_form(self, of: RecordField, written: object, item: Item, key: str) -> None:
        if not same_form(of.type, item[of.stored], written):
            raise self._other_form(of, written, item, key)

    def _other_form(self, of: RecordField, written: object, item: Item, key: str) -> ItemInvalid:
        stored = item[of.stored]
        if (entry := other_entry(of.type, stored, written, cells=of in self._entries)) is not None:
            segment, fault = entry
            name = f"{Path((of.name, segment))}{self._column(of, segment)}"
        else:
            name, fault = of.name, other_form(of.type, stored, written, omits_none=of.omits_none)
        under = f" under {key}" if key else ""
        return ItemInvalid(f"a stored {self.cls.__name__}{under} does not fit the model: {name} {fault}", key, item)

    def _has_other_entry(self, of: RecordField, item: Item) -> bool:
        return of in self._entries and other_entry(of.type, item[of.stored], NOTHING, cells=True) is not None

    def _column(self, of: RecordField, entry: str) -> str:
        """Where an entry stands in rows of other programs, for messages."""
        if of not in self._entries:
            return ""
        cell = find_marker(self.cls.model_fields[of.name], Cell)
        assert cell is not None
        return f", in columns {cell.name}...," if entry == "" else f", in the column {cell.name}{entry},"

    def check(self, item: Item) -> Any:
        """Refuse an item of `encode` that `decode` would refuse.

        Returns:
            The entity that `decode` makes of it; None if no validation can refuse or change it.

        Raises:
            BadValue: a value that was assigned without validation breaks a constraint of the model.
        """
        if self.sure and not self.normalises:
            return None
        try:
            return validated(self._record.validator, self._record.input(item))
        except ValidationError as error:
            raise BadValue(f"{self.cls.__name__} could not be read back as it is: {reasons(error)}") from error

    def value(self, name: str, value: Any) -> Value:
        """The stored value of one field.

        Raises:
            BadValue: as `encode`; an empty set has no stored value.
        """
        path = Path((name,))
        return self._actions.resolver.convert(path, self._field(name).type.dump, value)

    def validate(self, name: str, value: Any) -> Any:
        """Run one field through its own validation, constraints and field validators included.

        Returns:
            The value that the entity would have.

        Raises:
            BadValue: it does not validate; the message has entity, field, value and pydantic's reason.
        """
        if type(value) is self.as_they_are.get(name) and (type(value) is not str or value.isascii()):
            return value
        try:
            return self._validator(name).validate_python({name: value})[name]
        except ValidationError as error:
            raise BadValue(f"{self.cls.__name__}.{name}: {show(value)} is refused: {reasons(error)}") from error
        except KeyError as error:
            raise self._alone(name, error) from error

    def rules(self, name: str) -> PlaceRules:
        """What pydantic validates in a field."""
        rules = self._rules.get(name)
        if rules is None:
            definitions = {str(definition.get("ref")): definition for definition in self._schema.definitions}
            sees = sees_others(self._schema.fields, name, definitions)
            schema = self._schema.fields[name]
            rules = self._rules[name] = PlaceRules(schema, self._schema.config, definitions, sees)
        return rules

    def comparable(self, name: str, value: Any, *, bound: bool = False) -> Any:
        """A value to compare a field with, normalised as in `lower`; ``bound``: of a range, or a prefix."""
        rules = self.rules(name) if name in self._record.fields else None
        if rules is None or not rules.normalises:
            return value
        return rules.normalise_bound(value) if bound else rules.normalise(value)

    @cached_property
    def normalises(self) -> bool:
        """Whether validation may change an entity whose fields were assigned, which pydantic does not validate."""
        return normalises_somewhere(self.cls.__pydantic_core_schema__)

    @cached_property
    def whole(self) -> str | None:
        """Why every change of an item can only be judged with the whole item; None: it need not."""
        return whole_reason(self.cls.__pydantic_core_schema__)

    def read(self, item: Item, fields: Iterable[str], key: str = "") -> dict[str, Any]:
        """Python values of some fields of a stored item; an absent field has its default, or None without one.

        The item is of the entity's version; ``key`` is the key it is stored under, for messages.

        Raises:
            ItemInvalid: a stored value does not validate.
            BadValue: a field validator needs another field, which is not available.
        """
        return {name: self._read(item, name, key) for name in fields}

    @cached_property
    def needs_whole(self) -> bool:
        """Whether code of the model may change a field by what others hold, so that no field can be read alone."""
        return needs_whole(self.cls)

    def part(self, path: Path) -> FieldPart:
        """A field, or a part of one, to read it without the rest of the item.

        Raises:
            BadValue: the path leads nowhere or belongs to another entity.
        """
        mine = path.owner is None or issubclass(self.cls, path.owner)
        field_part = self._parts.get(path.segments) if mine else None
        if field_part is None:
            self._actions.resolver.resolve(path)  # raises
            field_part = compile_part(self._record, self._schema, path, self._part_validators)
            if len(self._parts) >= _MOST_PARTS:  # members of dicts may have any name
                self._parts.clear()
            self._parts[path.segments] = field_part
        return field_part

    def read_part(self, part: FieldPart, item: Item, key: str = "") -> Any:
        """The value of a part of a stored item of this version; `odm.codec.types.stored.NOTHING` if it has none.

        Raises:
            ItemInvalid: a stored value does not validate.
        """
        try:
            value = part.of_item(item)
            if self.exact and value is not NOTHING:
                self._check_part(part, value, item, key)
            return part.inside(value, len(part.stored.segments)) if value is not NOTHING else NOTHING
        except ValidationError as error:
            raise self._invalid(error, item, key) from error
        except KeyError as error:
            raise self._alone(part.path.root, error) from error

    def _check_part(self, part: FieldPart, value: Any, item: Item, key: str) -> None:
        of = self._record.fields[part.path.root]
        if of not in self._exact_fields or of.stored not in item:
            return
        if len(part.stored.segments) == 1:
            self._check_form(of, _dumped(of, value), item, key)
            return
        stored, type_ = part.stored_in(item), part.stored_type
        try:
            written: object = type_.dump(value)
        except Unfit:
            written = NOTHING
        if not same_form(type_, stored, written):
            fault = other_form(type_, stored, written, omits_none=False)
            under = f" under {key}" if key else ""
            where = self._column(of, str(part.path.segments[1]))
            raise ItemInvalid(
                f"a stored {self.cls.__name__}{under} does not fit the model: {part.path}{where} {fault}", key, item
            )

    def may_be_none(self, name: str) -> bool:
        """Whether the field can be None, so that a sparse index may omit the item."""
        record_field = self._field(name)
        return record_field.omits_none or "NULL" in record_field.type.kinds

    def lower(self, condition: Condition) -> Condition:
        """The condition over stored names and values, for a stored item: an absent field counts as its default.

        Values are checked for the type, and normalised as the model does.

        Raises:
            BadValue: a path leads nowhere or belongs to another entity, a value is of a wrong type, or the condition is
                nested too deep to traverse.
        """
        return self._lower(self._actions.resolver, self.term, condition)

    def term(self, condition: Condition) -> Term:
        """What lowers all conditions of the shape of this one, as `lower`.

        Raises:
            BadValue: no condition of the shape is valid.
        """
        shape = shape_of(condition, self.declared)
        term = self._terms.get(shape)
        return self._terms.keep(shape, compile_term(self._actions.resolver, condition)) if term is None else term

    def _stored_term(self, condition: Condition) -> Term:
        shape = shape_of(condition, self.declared)
        term = self._stored_terms.get(shape)
        return self._stored_terms.keep(shape, compile_term(self._stored_resolver, condition)) if term is None else term

    def _when_term(self, condition: Condition) -> WhenTerm:
        shape = shape_of(condition, self.declared)
        term = self._when_terms.get(shape)
        if term is None:
            compiled = compile_when(self._actions.resolver, self.term(condition), self.lower_stored, condition)
            term = self._when_terms.keep(shape, compiled)
        return term

    def _lower(self, resolver: Resolver, term: Callable[[Condition], Lowers[T]], condition: Condition) -> T:
        try:
            try:
                return term(condition).lower(condition)
            except BadValue:
                refuse(resolver, condition)
                raise
        except RecursionError:
            raise BadValue(f"a condition of {self.cls.__name__} is nested too deep: combine fewer conditions") from None

    @cached_property
    def declared(self) -> frozenset[str | int]:
        """The segments of paths that belong to the shape of a condition or an action."""
        return declared_segments(self._record)

    def lower_when(self, condition: Condition) -> When:
        """As `lower`, for an item that may be absent: an absent item has no fields, and so no defaults."""
        return self._lower(self._actions.resolver, self._when_term, condition)

    def lower_stored(self, condition: Condition) -> Condition:
        """As `lower`, for the stored attributes: an absent field is None, an empty set, or nothing."""
        return self._lower(self._stored_resolver, self._stored_term, condition)

    def lower_action(self, action: Action) -> Action:
        """The action over stored names and values, without the action on ``_ttl`` that the TTL field needs.

        Raises:
            BadValue: the path leads nowhere, the value does not fit, or the field cannot take the action.
        """
        return self._actions.lower(action)

    def expand_actions(self, actions: Sequence[Action]) -> tuple[Action, ...]:
        """See `ActionLowering.expand`."""
        return self._actions.expand(actions)

    def created(self, path: Path, sets: Sequence[Set]) -> Value:
        """See `ActionLowering.created`."""
        return self._actions.created(path, sets)

    def place(self, path: Path) -> Place:
        """The target of a path that the user wrote; raises as `lower`."""
        return self._actions.resolver.resolve(path)

    def compiled_actions(self, actions: Sequence[Action]) -> CompiledActions:
        """What the fields and kinds of the actions of one update decide.

        Raises:
            BadValue: a path leads nowhere or to a frozen field, or two actions touch the same place.
        """
        return self._actions.compiled(actions)

    def lower_actions(self, actions: Sequence[Action]) -> tuple[tuple[Action, ...], str | None]:
        """All actions of one update, lowered. An action on the TTL field adds one on ``_ttl``.

        Returns:
            The actions; and why the result can only be judged with the whole item, None if the values decide.

        Raises:
            BadValue: as `lower_action`; or two of them touch the same place.
        """
        shape = shape_of_actions(actions, self.declared)
        compiled = self._lowerings.get(shape)
        if compiled is None:
            compiled = self._lowerings.keep(shape, self._actions.compiled(actions))
        bound = compiled.bound(actions) if compiled.slotted else compiled
        if bound is None:
            bound = self._actions.compiled(actions)
        return bound.lower(actions), self.whole or bound.why(actions)

    def _field(self, name: str) -> RecordField:
        field = self._record.fields.get(name)
        if field is None:
            raise BadValue(f"{self.cls.__name__} has no field {name!r}: {nearest(name, self._record.fields)}")
        return field

    def _validator(self, name: str) -> SchemaValidator:
        validator = self._validators.get(name)
        if validator is None:
            self._field(name)
            validator = self._validators[name] = self._schema.validator(name)
        return validator

    def _read(self, item: Item, name: str, key: str) -> Any:
        record_field = self._field(name)
        if record_field.stored not in item:
            return self._default(record_field)
        value = record_field.type.load(item[record_field.stored])
        try:
            value = validated(self._validator(name), {name: value})[name]
        except ValidationError as error:
            raise self._invalid(error, item, key) from error
        except KeyError as error:
            raise self._alone(name, error) from error
        if self.exact and record_field in self._exact_fields:
            self._check_form(record_field, _dumped(record_field, value), item, key)
        return value

    def _alone(self, name: str, error: KeyError) -> BadValue:
        return BadValue(
            f"{self.cls.__name__}.{name}: its validator looks up the field {error}, which is not available where one "
            "field is set or read alone: use info.data.get(...) there, or put the whole entity"
        )

    def _dump_with_care(self, entity: Any) -> dict[str, Value]:
        """The same by the interpreting codec, which reports the fault."""
        try:
            return {**self.marks, **self._record.dump(entity)}
        except Unfit as unfit:
            raise unfit.bad_value(self.cls.__name__) from None
        except RecursionError:
            self._refuse_depth(entity)
            raise

    def _check_levels(self, item: Item) -> None:
        for name, stored in self._nesting:
            if stored in item:
                try:
                    check_levels(item[stored])
                except Unfit as unfit:
                    raise unfit.under(name).bad_value(self.cls.__name__) from None

    def _refuse_depth(self, entity: Any) -> None:
        """Name the field that is nested too deep to traverse."""
        for name, _ in self._nesting:
            if getattr(entity, name, None) is not None:
                self.value(name, getattr(entity, name))

    def _default(self, record_field: RecordField) -> Any:
        if record_field.is_set:
            return record_field.type.load(frozenset())
        info = self.cls.model_fields.get(record_field.name)
        validates = None if info is None else info.validate_default
        if validates or (validates is None and self.cls.model_config.get("validate_default")):
            with suppress(ValidationError, KeyError):  # a required field; a validator that needs other fields
                return validated(self._validator(record_field.name), {})[record_field.name]
        if record_field.default is not NOTHING:
            return record_field.default
        return None if record_field.factory is None else record_field.factory()

    def _invalid(self, error: ValidationError, item: Item, key: str) -> ItemInvalid:
        under = f" under {key}" if key else ""
        if self.exact:
            at = {detail["loc"][0] for detail in error.errors(include_url=False) if detail["loc"]}
            for field in self._exact_fields:
                there = field.name in at and field.stored in item
                if there and (self._has_other_entry(field, item) or _is_other_form(field, item[field.stored])):
                    return self._other_form(field, NOTHING, item, key)
        message = (
            f"a stored {self.cls.__name__}{under} does not fit the model: {reasons(error)}; fix the stored item, or "
            "let the model accept it"
        )
        return ItemInvalid(message, key, item)


def compile_codec(
    cls: type[BaseModel], tag: str, upgrades: Upgrades = FIRST, others: Mapping[str, str] = MappingProxyType({})
) -> EntityCodec:
    """Compile an entity class.

    Args:
        cls: a pydantic model class.
        tag: its stored name.
        upgrades: its version, and the upgrades of older items.
        others: other stored names of fields, by those that they declare; see `odm.codec.attributes.OTHERS`.

    Raises:
        SchemaError: a field cannot be stored so that it reads back equal; names class, field, type and fix.
    """
    record = TypeCompiler().compile(cls, others)
    stored = {name: record_field.stored for name, record_field in record.fields.items()}
    schema = cls.__pydantic_core_schema__
    nodes = nodes_of(schema)
    json_schema = schema if reads_json(record, nodes) else None
    sure = takes_all(record, nodes)
    return EntityCodec(cls, tag, stored, record, model_schema(cls), _ttl_field(record), json_schema, sure, upgrades)


def _dumped(field: RecordField, value: Any) -> object:
    """What is stored of a value that was read; `NOTHING` if nothing is, or it could not be stored again."""
    if value is None and field.omits_none and not field.keeps_null:
        return NOTHING
    try:
        return field.type.dump(value)
    except Unfit:
        return NOTHING


def _is_other_form(of: RecordField, stored: Value) -> bool:
    """Whether validation refused a stored value because of its form, and not because of a constraint."""
    kind = kind_of(stored)
    if kind not in of.type.kinds or kind in ("L", "M"):
        return kind not in of.type.kinds
    return not same_form(of.type, stored, _dumped(of, of.type.load(stored)))


def _marks(tag: str, version: int) -> dict[str, Value]:
    return {TAG: tag} if version == 1 else {VERSION: version, TAG: tag}


def _nesting_fields(record: RecordType) -> tuple[tuple[str, str], ...]:
    deep = [field for field in record.fields.values() if levels_of(field.type) >= LEVELS]
    return tuple((record_field.name, record_field.stored) for record_field in deep)


def _ttl_field(record: RecordType) -> str | None:
    names = [name for name, info in record.cls.model_fields.items() if find_marker(info, TTLMarker)]
    for name in names:
        if not is_datetime(bare(record.fields[name].type)):
            raise SchemaError(f"{record.text}.{name}: TTL marks a datetime, the time at which the item expires")
    return names[0] if names else None
