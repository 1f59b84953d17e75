import pytest

from clearhead.errors import BadInput
from clearhead.pipelines.search.where import Condition, as_number, conditions, parse_where


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("lang=de", Condition("lang", "=", ("de",))),
        (" lang = de en ", Condition("lang", "=", ("de en",))),
        ("year=2020", Condition("year", "=", (2020, "2020"))),
        ('year="2020"', Condition("year", "=", ("2020",))),
        ("year>=2020", Condition("year", ">=", (2020,))),
        ("when < 2020-05-01", Condition("when", "<", ("2020-05-01",))),
        ("flag=true", Condition("flag", "=", (True, "true"))),
        ("tag in a, b,3", Condition("tag", "=", ("a", "b", 3, "3"))),
        ("Price (€)<=3.5", Condition("Price (€)", "<=", (3.5,))),
        ('a="=b"', Condition("a", "=", ("=b",))),
        ("a=b=c", Condition("a", "=", ("b=c",))),
        ("code=007", Condition("code", "=", ("007",))),
        ("empty=", Condition("empty", "=", ("",))),
    ],
)
def test_filters_of_the_command_line(written, expected):
    assert parse_where([written]) == (expected,)
    assert conditions(written) == (expected,)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("year", "'year' is no filter; write KEY=VALUE"),
        ("=5", "is no filter"),
        ("year>", "compares with nothing"),
        ("year==2020", "'year==2020' has two operators; write one, or quotes"),
        ("year>>3", "has two operators"),
        ("ye'ar=3", "cannot be the key of a filter"),
        ([3], "3 is no filter"),
        ({"x" * 64: 1}, "cannot be the key of a filter"),
        ({3: 1}, "3 cannot be the key of a filter"),
        ({"year": None}, "the value of year is None"),
        ({"year": float("nan")}, "the value of year is nan"),
        ({"year": [1, [2]]}, r"the value of year is \[2\]"),
        ({"year": {"~": 1}}, "'~' compares nothing; choose = < <= > >="),
        (5, "a filter is a mapping such as"),
    ],
)
def test_what_is_no_filter(where, message):
    with pytest.raises(BadInput, match=message):
        conditions(where)


def test_values_of_another_kind_do_not_compare():
    (condition,) = conditions({"year": {"<": 3}})
    assert [condition.fits({"year": year}) for year in (2, 3, 2.9, "2", True)] == [True, False, True, False, False]
    assert not condition.fits({})
    assert conditions(None) == conditions({}) == ()


def test_numbers_that_every_store_compares_alike():
    assert [as_number(one) for one in ("3", "-0.5", "1e3", "007", "1e999", "9007199254740993", "0x1", "")] == [
        *(3, -0.5, 1000.0),
        *[None] * 5,
    ]
    assert conditions({"id": 2**60}) == (Condition("id", "=", (str(2**60),)),)
