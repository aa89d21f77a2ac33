"""Fields of dataclasses as parameters: each type takes its values exactly, and refuses any other in one line."""

import enum
import math
from dataclasses import dataclass, field, make_dataclass
from typing import ClassVar, Literal, Optional

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evogt_study.errors import InputError, ParameterError
from evogt_study.schema.parameters import NO_PARAMETER, Parametrised, declared_parameters, parameter_field, real


class Mode(enum.Enum):
    FAST = "fast"
    SLOW = "slow"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(lambda x: float(f"{x:.15g}") + 0.0).filter(math.isfinite)
INTEGERS = st.integers(-(2**62), 2**62)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
BOOLEANS = st.booleans()
TYPES = [
    (bool, BOOLEANS), (int, INTEGERS), (float, NUMBERS), (str, TEXTS),
    (Literal["up", "down"], st.sampled_from(["up", "down"])),
    (Literal[1, 2.5, True, "x"], st.sampled_from([1, 2.5, True, "x"])), (Mode, st.sampled_from(list(Mode))),
    (Level, st.sampled_from(list(Level))), (tuple[float, ...], st.lists(NUMBERS).map(tuple)),
    (tuple[int, str], st.tuples(INTEGERS, TEXTS)),
    (tuple[tuple[bool, ...], ...], st.lists(st.lists(BOOLEANS).map(tuple)).map(tuple)),
    (float | tuple[float, ...], st.one_of(NUMBERS, st.lists(NUMBERS).map(tuple))),
    (float | int, st.one_of(INTEGERS, NUMBERS)), (str | int | None, st.one_of(TEXTS, INTEGERS, st.none())),
    (Optional[Mode], st.one_of(st.sampled_from(list(Mode)), st.none())),  # noqa: UP045  # both spellings
]  # fmt: skip


def with_field(hint, default=None):
    """A class with one parameter of a type; of its default the type alone counts."""
    value = field(default=default) if default is not None or "None" in str(hint) else field()
    return make_dataclass("Typed", [("value", hint, value)], bases=(Parametrised,), frozen=True)


def types_in(value):
    return (tuple, *map(types_in, value)) if isinstance(value, tuple) else type(value)


CLASSES = [(with_field(hint), values, hint) for hint, values in TYPES]


@pytest.mark.parametrize(("kind", "values", "hint"), CLASSES, ids=lambda each: str(each)[:40])
def test_a_value_of_the_type_arrives_equal_and_of_equal_type(kind, values, hint):
    @given(values)
    def check(value):
        made = kind(value)
        assert made.value == value
        assert types_in(made.value) == types_in(value)
        # as a study holds it: members of an enumeration by their values
        stored = made.values.get("value")
        assert stored == (value.value if isinstance(value, enum.Enum) else value)
        assert kind(stored) == made
        assert hash(kind(stored)) == hash(made)

    check()


@pytest.mark.parametrize(
    ("hint", "wrong"),
    [
        (bool, [0, "true", None]), (int, [1.0, True, "1", 2**64]), (float, [math.nan, math.inf, "1", True, 1j]),
        (str, [1, b"", "a\0"]), (Literal["up", 1], ["down", True, 1.0, None]), (Mode, ["FAST", 1, Level.LOW]),
        (Level, ["LOW", 3, True]), (tuple[float, ...], [1.0, (math.nan,), ("x",)]), (tuple[int, str], [(1,), ("x", 1)]),
        (float | tuple[float, ...], ["x", ((1.0,),)]), (str | int | None, [1.5, {}]),
    ],
)  # fmt: skip
def test_any_other_value_is_refused_by_name(hint, wrong):
    for value in wrong:
        with pytest.raises(ParameterError, match=r"^`value` must be .*") as caught:
            with_field(hint)(value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("hint", "wanted"),
    [
        (float, "a finite number"), (bool, "true or false"), (Mode, "one of fast, slow"),
        (Level | None, "one of 1, 2"), (Literal["a", True], "one of a, true"),
        (tuple[int, ...], "a list with an integer as each entry"),
        (tuple[float, str], "a list of 2 entries (a finite number, a string)"),
        (float | int, "an integer, or a finite number"),
    ],
)  # fmt: skip
def test_the_valid_values_are_in_words(hint, wanted):
    assert declared_parameters(with_field(hint))["value"].wanted == wanted


@pytest.mark.parametrize(
    "hint", [list[int], dict, "Unknown", complex, tuple, np.ndarray, int | list, object, enum.Enum]
)
def test_a_type_that_no_study_can_state_is_refused_by_name(hint):
    kind = with_field(hint)
    with pytest.raises(InputError, match="`value` of Typed must be of a type that a study can state, or declared by"):
        declared_parameters(kind)


@dataclass(frozen=True)
class Base(Parametrised):
    name: str = field(metadata=NO_PARAMETER)
    scale: float = parameter_field("a positive number", real(0.0), "σ", "a comment", units="m", short="scale")
    count: "int" = 3
    LIMIT: ClassVar[int] = 7
    derived: int = field(init=False, default=0)


@dataclass(frozen=True, kw_only=True)
class Inherited(Base):
    scale: float = 2
    level: float | None = None
    other: tuple[int, ...] = field(default_factory=lambda: (1, 2))


def test_a_declaration_has_the_attributes_of_its_coordinate():
    known = declared_parameters(Base)
    assert list(known) == ["scale", "count"]
    assert known["scale"].attributes(1.0) == {"long_name": "σ", "units": "m", "comment": "a comment", "label": "scale"}
    assert (known["scale"].default, known["scale"].optional, known["count"].default) == (None, False, 3)
    assert Base.list_required_parameters(()) == ("scale",)


def test_a_subclass_inherits_the_declaration_and_may_have_another_default():
    known, base = declared_parameters(Inherited), declared_parameters(Base)
    assert known["scale"].read is base["scale"].read
    assert (known["scale"].default, type(known["scale"].default)) == (2.0, float)
    assert (known["level"].default, known["level"].optional) == (None, True)
    assert known["other"].default == (1, 2)
    assert Inherited.list_required_parameters(()) == ()
    assert Inherited("x").values == {"scale": 2.0, "count": 3, "other": (1, 2)}
    with pytest.raises(ParameterError, match="`scale` must be a positive number, got 0"):
        Inherited("x", scale=0)


def test_a_default_out_of_range_and_a_class_without_fields_are_mistakes():
    @dataclass(frozen=True)
    class Wrong(Parametrised):
        scale: float = parameter_field("a positive number", real(0.0), default=-1.0)

    class Undecorated(Base):
        more: int = 1

    with pytest.raises(InputError, match=r"`scale` must be a positive number, got -1.0, as its default in Wrong"):
        declared_parameters(Wrong)
    with pytest.raises(InputError, match=r"`Undecorated` must be a dataclass to have parameters. Add @dataclass"):
        declared_parameters(Undecorated)
