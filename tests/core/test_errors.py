"""Errors keep what they say when they travel from one process to another."""

from __future__ import annotations

import pickle

from core.errors import InputError, MismatchError, Problem, UndefinedError


def test_an_undefined_quantity_comes_back_with_field_value_and_bound() -> None:
    error = pickle.loads(pickle.dumps(UndefinedError("n", 1, "must be at least 2")))
    assert (str(error), error.field, error.value, error.bound) == (
        "n = 1: must be at least 2", "n", 1, "must be at least 2",
    )  # fmt: skip


def test_problems_come_back_all_with_their_number() -> None:
    problems = (Problem(source="a.csv", line=3, message="wrong"), Problem(source="b.csv", message="absent"))
    error = pickle.loads(pickle.dumps(InputError(problems, count=9)))
    assert error.problems == problems
    assert error.count == 9
    assert str(error) == "a.csv:3: wrong\nb.csv: absent\n... and 7 more problems"


def test_an_error_that_is_only_a_message_comes_back_as_it_was() -> None:
    assert str(pickle.loads(pickle.dumps(MismatchError("differs")))) == "differs"
