from __future__ import annotations

import pytest

from osler.clinic.template import Slot, TemplateChoice, parse


def test_templates_parse_into_choices_slots_and_links() -> None:
    template = parse("<Start|Begin <now|>> {rx.home=d} for {PROBLEM.absent=p|a <bad|> cold}. => TrAP d p; attrs d")
    choice, _, slot, _, literal, end = template.nodes
    assert isinstance(choice, TemplateChoice)
    assert len(choice.options) == 2
    assert slot == Slot("rx", ("home",), "d", None, False)
    assert isinstance(literal, Slot)
    assert (literal.kind, literal.modifiers, literal.name) == ("PROBLEM", ("absent",), "p")
    assert end == "."
    assert template.links == (("TrAP", "d", "p"), ("attrs", "d"))
    capital = parse("{Problem} <|x>").nodes[0]
    assert isinstance(capital, Slot)
    assert capital.kind == "problem"
    assert capital.capital


@pytest.mark.parametrize("source", ["<a|b", "a > b", "{drug", "}", "{drug=d} => TrAP d", "x => attrs a b"])
def test_a_broken_template_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="template"):
        parse(source)
