"""Values of parameters: a hash that is the same everywhere, labels that distinguish values, values found by text."""

import hashlib
from datetime import date, timedelta

import numpy as np
import pytest

from evogt_study.pde.numerics import QuadratureRule
from evogt_study.schema.values import dump_canonical, find_value, hash_text, make_coordinate, to_canonical, to_string

GAUSS, MIDPOINT = QuadratureRule("gauss_legendre", 320), QuadratureRule("composite_midpoint", 4096)


# --- JSON form and hash -----------------------------------------------------------------------------------------------


def test_a_known_content_has_a_known_hash():
    """Case keys are stored in result files, so they must not change from one version to the next."""
    content = {"values": {"tau": 1e-12, "N": 60, "on": True}, "method": "evolution", "rule": GAUSS, "list": (1, 2.5)}
    text = (
        '{"list":[1,2.5],"method":"evolution","rule":{"points":320,"rule":"gauss_legendre"},'
        '"values":{"N":60,"on":true,"tau":1e-12}}'
    )
    assert (
        hash_text(dump_canonical(content)) == hashlib.sha256(text.encode()).hexdigest()[:20] == "ab66d0801a4edba061cd"
    )


# --- labels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([GAUSS, QuadratureRule("gauss_legendre", 64)], [320, 64]),
        ([GAUSS, MIDPOINT], ["gauss_legendre(320)", "composite_midpoint(4096)"]),
        ([MIDPOINT], ["composite_midpoint(4096)"]), ([(240,), (240, 120)], ["240", "240,120"]),
        ([0.8, (0.5, 0.25)], ["0.8", "0.5,0.25"]),
    ],
)  # fmt: skip
def test_labels(values, expected):
    found = make_coordinate(values)
    assert found == expected
    assert [type(label) for label in found] == [type(label) for label in expected]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.1, "0.1"), (1e-12, "1e-12"), (1 / 3, "0.3333333333333333"), (0.1 + 0.2, "0.30000000000000004"),
        (np.float32(0.1), "0.10000000149011612"), (1e22, "1e+22"), (2.0, "2"), (320, "320"), (-1, "-1"),
        (True, "true"), (False, "false"), ("gaussian_rf", "gaussian_rf"), ((1, (0.5, True)), "1,[0.5,true]"),
        (GAUSS, "gauss_legendre(320)"), (MIDPOINT, "composite_midpoint(4096)"),
    ],
)  # fmt: skip
def test_a_value_in_one_word(value, expected):
    assert to_string(value) == expected


# --- found by text ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "text", "expected"),
    [
        ([0.1, 0.1 + 0.2], "0.3", 1), ([0.3, 0.1 + 0.2], "0.3", 0), ([0.1 + 0.2, 0.3], "0.30000000000000004", 0),
        ([1 / 3, 0.5], "0.333333333333", 0), ([1 / 3, 0.5], "0.3333", None), ([1.0, 2.0], "2", 1), ([1, 2], "2.0", 1),
        ([10**10, 10**10 + 1], "10000000001", 1), ([2**63, 2**63 + 1], str(2**63 + 1), 1), ([-0.0, 1e-300], "0", 0),
        ([True, False], "false", 1), ([None, "a"], "None", 0), ([[240], [240, 120]], "240,120", 1),
        ([date(2020, 1, 1), date(2020, 1, 2)], "2020-01-02", 1),
        ([date(2020, 1, 1), date(2020, 1, 2)], "2020-01-02T00:00:00", 1),
        ([date(2020, 1, 1), date(2020, 1, 2)], "tomorrow", None), ([timedelta(0, 1.5), timedelta(1)], "86400 s", 1),
        (["a", "b"], "c", None), ([], "1", None),
    ],
)  # fmt: skip
def test_a_value_is_found_by_its_text(values, text, expected):
    assert find_value([to_canonical(value) for value in values], text) == expected
