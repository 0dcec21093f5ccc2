from __future__ import annotations

from opmon.store import Store


def test_the_list_of_a_source_is_kept_replaced_and_removed(store: Store) -> None:
    assert {} == store.source_lists()
    store.keep_source_list("a", "one")
    store.keep_source_list("b", "two")
    store.keep_source_list("a", "three")
    assert {"a": "three", "b": "two"} == store.source_lists()
    store.keep_source_list("a", "")
    store.keep_source_list("c", "")
    assert {"b": "two"} == store.source_lists()


def test_keeping_a_list_is_no_change_to_what_is_answered(store: Store) -> None:
    before = store.commit_number()
    store.keep_source_list("a", "one")
    assert before == store.commit_number()
