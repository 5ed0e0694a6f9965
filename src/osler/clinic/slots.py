"""The text of each kind of slot.

The slot `{kind}` is written by the method `write_kind`, or its words come from data/slots.toml or the method `kind_words`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any, TypeVar

from osler.clinic.case import DATE_FORMS, Person, agree, draw_email, draw_identity, write_date
from osler.clinic.lexicon import LabTest, MedicalProblem, table
from osler.clinic.scribe import Drug, Scribe, assertion
from osler.clinic.template import Slot
from osler.text.document import Fragment

T = TypeVar("T")

_TRIES = 5
_AREAS = {
    "lungs": "pulmonology",
    "heart": "cardiology",
    "abdomen": "gastroenterology",
    "neuro": "neurology",
    "skin": "infectious-disease",
    "neck": "endocrinology",
}
"""The specialty whose coined findings belong to a part of the physical examination."""


class NoteScribe(Scribe):
    """Writes notes and abstracts."""

    def fill(self, slot: Slot) -> None:
        write = getattr(self, f"write_{slot.kind}", None)
        if write is not None:
            write(slot)
            return
        entry: dict[str, Any] = table("slots").get(slot.kind, {})
        if "draw" in entry and not ("own" in entry and self.dice.chance(entry["own"])):
            words = draw_identity(self.lexicon, self.dice, entry["draw"])
        elif "text" in entry:
            words = entry["text"].format(case=self.case, patient=self.case.patient, title=self.title)
        else:
            words = getattr(self, f"{slot.kind}_words")(slot)
        if "label" in entry:
            self.put(slot, words, entry["label"], {"kind": entry["kind"]} if "kind" in entry else {})
        else:
            self.say(slot.capitalise(words))

    # People, dates and numbers: PHI, and plain numbers that look like it.

    def patient_words(self, slot: Slot) -> str:
        who, form = self.case.patient.person, slot.modifier
        if form == "last" and self.lexicon.language == "es" and self.dice.chance(0.6):
            return who.surname.split()[0]
        return {"listed": f"{who.surname}, {who.given}", "last": who.surname}.get(form, who.full)

    def relative_words(self, slot: Slot) -> str:
        who = self.case.patient.relative
        return who.given.split()[0] if slot.modifier == "first" else who.full

    def _which_doctor(self, slot: Slot) -> Person:
        """{doctor.pcp} and {doctor.pcp_last} are the same person."""
        doctors = self.case.doctors
        return doctors.get(slot.modifier.partition("_")[0], doctors[""])

    def doctor_words(self, slot: Slot) -> str:
        who, form = self._which_doctor(slot), slot.modifier
        if form == "initials":
            return "".join(word[0] for word in who.full.split())
        if form.endswith("last") or (form == "other" and self.dice.chance(0.5)):
            return who.surname if self.lexicon.language == "en" else who.surname.split()[0]
        return who.full

    def dr_words(self, slot: Slot) -> str:
        """Dr. or Dra., with the article or preposition that Spanish joins to it: {dr.pcp.del}."""
        titles: dict[str, str] = self.lexicon.notes["doctor_titles"][self._which_doctor(slot).sex]
        return titles[slot.modifiers[-1] if slot.modifiers and slot.modifiers[-1] in titles else "plain"]

    def hospital_words(self, slot: Slot) -> str:
        name = self.case.hospitals.get(slot.modifier, self.case.hospitals[""])
        short = "".join(word[0] for word in name.split() if word[0].isupper())
        return short if len(short) > 2 and (slot.modifier == "short" or self.dice.chance(0.2)) else name

    def email_words(self, slot: Slot) -> str:
        owner = self.case.doctors[""] if "doctor" in slot.modifiers else self.case.patient.relative
        return draw_email(self.lexicon, self.dice, owner)

    def date_words(self, slot: Slot) -> str:
        case, dice, form = self.case, self.dice, slot.modifier
        if form == "past":
            day = case.admitted - timedelta(days=dice.between(2, 400))
        elif form == "future":
            day = case.discharged + timedelta(days=dice.between(3, 60))
        elif form == "stay":
            day = case.admitted + timedelta(days=dice.between(0, (case.discharged - case.admitted).days))
        else:
            return self._full_date({"admit": case.admitted, "discharge": case.discharged}.get(form, case.today))
        if dice.chance(0.4):
            return write_date(day, self.lexicon.language, 0 if dice.chance(0.6) else 1, "short")
        return self._full_date(day)

    def _full_date(self, day: date) -> str:
        form = self.style.date if self.dice.chance(0.75) else self.dice.between(0, DATE_FORMS - 1)
        return write_date(day, self.lexicon.language, form)

    def dob_words(self, slot: Slot) -> str:
        return self._full_date(self.case.patient.birth)

    def month_words(self, slot: Slot) -> str:
        day = self.case.admitted - timedelta(days=self.dice.between(40, 1500))
        return write_date(day, self.lexicon.language, 0 if self.dice.chance(0.45) else 1, "month")

    def year_words(self, slot: Slot) -> str:
        return str(self.case.admitted.year - self.dice.between(1, max(2, min(25, self.case.age - 4))))

    def years_words(self, slot: Slot) -> str:
        return str(self.case.admitted.year - self.dice.between(1, 9))

    def agenumber_words(self, slot: Slot) -> str:
        return str(self.dice.between(31, 94))

    def num_words(self, slot: Slot) -> str:
        return str(self.dice.between(int(slot.modifiers[0]), int(slot.modifiers[1])))

    # Problems: diseases, symptoms and findings, each with its assertion.

    def _state(self, slot: Slot, key: str, surface: str, label: str = "") -> None:
        """Write a problem with the slot's assertion, and remember what the note says about it."""
        claim = assertion(slot)
        self.mentioned.add(key)
        if claim in ("present", "absent"):
            self.stated[key] = claim == "present"
        if label and claim == "present":
            self.labels.add(label)
        self.put(slot, surface, "PROBLEM", {"assertion": claim})

    def _fits(self, slot: Slot, key: str) -> bool:
        """Whether the slot may name this problem without repeating this sentence or contradicting an earlier one."""
        if key in self.mentioned:
            return False
        known, claim = self.stated.get(key), assertion(slot)
        return known is None or (known if claim == "present" else claim == "absent" and not known)

    def _modified(self, name: str, gender: str) -> str:
        """A problem's name with a modifier inside the mention; Spanish adjectives follow and agree."""
        general, dice = self.lexicon.general, self.dice
        if name.split(" ", 1)[0] in general["no_modifier_after"]:
            return name
        roll = dice.roll()
        english = self.lexicon.language == "en"
        which = "" if gender or english else "neutral_"
        words = [dice.pick(general[f"{which}degrees"])] if roll < 0.45 else []
        if roll > 0.3:
            words.append(dice.pick(general[f"{which}modifiers"]))
        if english:
            return f"{' '.join(words)} {name}"
        return f"{name} {' y '.join(agree(word, gender) for word in words)}"

    def _disease(self, slot: Slot, problem: MedicalProblem) -> None:
        """Write a disease under one of its names, often with a modifier."""
        name, gender = problem.name, problem.gender
        if problem.also and self.dice.chance(0.5):
            # A Spanish synonym of another gender has a suffix: "enfisema/m".
            name, _, other = self.dice.pick(problem.also).partition("/")
            gender = other or gender
        modify = self.dice.chance(0.4 if assertion(slot) == "present" else 0.1)
        self._state(slot, problem.name, self._modified(name, gender) if modify else name, problem.label)

    def _choose(self, slot: Slot, pool: Sequence[MedicalProblem], avoid: str = "") -> MedicalProblem:
        return _redraw(lambda: self.dice.pick(pool), lambda p: p.name != avoid and self._fits(slot, p.name))

    def write_problem(self, slot: Slot) -> None:
        problem = self.topic.problem
        if "other" in slot.modifiers:
            specialty = self.lexicon.specialties[self.case.specialty]
            pool = specialty.coined if self.dice.chance(0.5) else specialty.chronic + specialty.acute
            problem = self._choose(slot, pool, avoid=problem.name)
        self._disease(slot, problem)

    def write_chief(self, slot: Slot) -> None:
        self.about(self.case.chief)
        self._disease(slot, self.case.chief)

    def write_chronic(self, slot: Slot) -> None:
        problem = self.dice.pick(self.case.patient.chronic)
        self.about(problem)
        self._disease(slot, problem)

    def write_chronics(self, slot: Slot) -> None:
        known = self.case.patient.chronic
        for index, problem in enumerate(known):
            if index:
                self.say(", " if index < len(known) - 1 else self.dice.pick(self.lexicon.notes["lists"]["and"]))
            self._disease(Slot("chronic"), problem)

    def write_other(self, slot: Slot) -> None:
        """A disease the patient does not have: denied, suspected, or a relative's."""
        own = {problem.name for problem in (*self.case.patient.chronic, self.case.chief)}
        specialty = self.lexicon.specialties[self.case.specialty]
        pool = specialty.coined if self.dice.chance(0.35) else self.lexicon.chronic
        self._disease(slot, _redraw(lambda: self._choose(slot, pool), lambda p: p.name not in own))

    def _mention(self, slot: Slot, draw: Callable[[], str], often: float = 0.3, otherwise: float = 0.05) -> None:
        """Write a problem that is not a listed disease, with a modifier `often` if it is present and `otherwise` if not."""
        words = _redraw(draw, lambda words: self._fits(slot, words))
        modify = self.dice.chance(often if assertion(slot) == "present" else otherwise)
        self._state(slot, words, self._modified(words, "") if modify else words)

    def write_symptom(self, slot: Slot) -> None:
        specialties = self.lexicon.specialties
        wanted = next((modifier for modifier in slot.modifiers if modifier in specialties), None)

        def draw() -> str:
            roll = self.dice.roll()
            if wanted or roll < 0.35:
                return self.dice.pick(specialties[wanted or self.case.specialty].symptoms)
            return str(self.dice.pick(self.lexicon.general["symptoms"])) if roll < 0.6 else self._site_words()

        self._mention(slot, draw)

    def write_symptoms(self, slot: Slot) -> None:
        """A list of symptoms that are denied: "fever, chills or cough"."""
        count, joints = self.dice.between(2, 4), self.lexicon.notes["lists"]["or"]
        for index in range(count):
            if index:
                self.say(", " if index < count - 1 else joints[0] if count == 2 else self.dice.pick(joints))
            self.write_symptom(slot)

    def write_finding(self, slot: Slot) -> None:
        dice, area = self.dice, slot.modifier
        specialty = self.lexicon.specialties[_AREAS.get(area, self.case.specialty)]

        def draw() -> str:
            roll = dice.roll()
            if area in _AREAS:
                seen = self.lexicon.general["areas"][area]
                return str(dice.pick(seen)) if roll < 0.55 else dice.pick(specialty.coined).name
            if roll < 0.35:
                return dice.pick(specialty.findings)
            return dice.pick(specialty.coined).name if roll < 0.78 else self._site_words()

        self._mention(slot, draw)

    def write_site(self, slot: Slot) -> None:
        self._mention(slot, self._site_words)

    def _site_words(self) -> str:
        return self._placed(self.dice.pick(self.lexicon.general["site_forms"]))

    def _placed(self, form: str) -> str:
        """Fill in {side} and {site}; a Spanish side agrees with its site ("rodilla/f")."""
        if "{" not in form:
            return form
        general = self.lexicon.general
        side, site = self.dice.pick(general["sides"]), self.dice.pick(general["sites"])
        noun, _, gender = site.partition("/")
        return form.format(side=agree(side, gender), site=noun)

    def write_paired(self, slot: Slot) -> None:
        """Two problems that share a noun ("left and right knee pain"), so one of them is discontinuous."""
        general, builder = self.lexicon.general, self.builder
        noun, _, gender = self.dice.pick(general["sites"]).partition("/")
        one, two = (agree(side, gender) for side in general["sides"][:2])
        kind: str = self.dice.pick(general["paired"])
        start = builder.length
        both: tuple[tuple[Fragment, ...], ...]
        if self.lexicon.language == "en":
            builder.text(f"{one} and {two} {noun} {kind}")
            end, tail = builder.length, start + len(f"{one} and {two} ")
            both = ((start, start + len(one)), (tail, end)), ((tail - len(two) - 1, end),)
        else:
            shared = f"{kind} en {noun}"
            builder.text(f"{shared} {one} y {two}")
            end = builder.length
            both = ((start, start + len(f"{shared} {one}")),), ((start, start + len(shared)), (end - len(two), end))
        for fragments in both:
            self.keep(slot, builder.span(fragments, "PROBLEM", {"assertion": assertion(slot)}))

    def write_effect(self, slot: Slot) -> None:
        group = (self.drug or self.topic.drug).group
        self._mention(slot, lambda: self.dice.pick(group.effects), 0.25, 0.25)

    def write_avoid(self, slot: Slot) -> None:
        group = (self.drug or self.topic.drug).group
        self._mention(slot, lambda: self.dice.pick(group.avoid), 0.25, 0.25)

    # Tests with their values, and procedures.

    def lab_words(self, slot: Slot) -> str:
        self.lab = self.dice.pick(self.lexicon.labs)
        return self.lab_name(self.lab)

    def lab_name(self, lab: LabTest) -> str:
        """One of the names of a laboratory test."""
        name = self.dice.pick(lab.also) if lab.also and self.dice.chance(0.55) else lab.name
        if self.dice.chance(0.8):
            return name
        return str(self.dice.pick(self.lexicon.notes["labs"]["around"]).format(name=name))

    def value_words(self, slot: Slot) -> str:
        lab = self.lab or self.lexicon.labs[0]
        text, _ = self.lab_value(lab)
        return f"{text} {lab.unit}" if lab.unit and self.dice.chance(0.6) else text

    def lab_value(self, lab: LabTest) -> tuple[str, int]:
        """A value as printed, and whether it is below (-1), in (0) or above (1) the reference range."""
        dice = self.dice
        roll = dice.roll()
        if roll < 0.5 or (roll < 0.7 and lab.low <= 0):
            number, flag = lab.low + (lab.high - lab.low) * dice.roll(), 0
        elif roll < 0.7:
            number, flag = lab.low - min(lab.spread, lab.low * 0.4) * (0.1 + 0.9 * dice.roll()), -1
        else:
            number, flag = lab.high + lab.spread * (0.1 + 0.9 * dice.roll()), 1
        return self.decimal(f"{number:.{lab.decimals}f}"), flag

    def decimal(self, number: str) -> str:
        """A number with decimal commas if the note uses them."""
        return number.replace(".", ",") if "commas" in self.style.habits else number

    def imaging_words(self, slot: Slot) -> str:
        return self._placed(self.dice.pick(self.lexicon.imaging[self.topic.problem.specialty]))

    def procedure_words(self, slot: Slot) -> str:
        kind = self.lexicon.operations if self.dice.chance(0.5) else self.lexicon.procedures
        return self._placed(self.dice.pick(kind[self.topic.problem.specialty]))

    def operation_words(self, slot: Slot) -> str:
        return self._placed(self.dice.pick(self.lexicon.operations[self.topic.problem.specialty]))

    def temp_words(self, slot: Slot) -> str:
        celsius = self.case.vitals["temperature"] / 10
        return f"{celsius * 9 / 5 + 32:.1f}" if "fahrenheit" in self.style.habits else self.decimal(f"{celsius:.1f}")

    # Drugs, prescriptions and their parts.

    def _which_drug(self, slot: Slot) -> Drug:
        """The drug that a slot means: the sentence's own, another one, or the one the patient is allergic to."""
        if "allergy" in slot.modifiers:
            return self.drug_of(self.case.patient.allergy)
        if "relief" in slot.modifiers:
            return self.drug_of(self.dice.pick(self.lexicon.sig["relief"]))
        if not {"other", "third", "group"} & {*slot.modifiers}:
            return self.prescribed or self.topic.drug
        taken = {self.topic.drug.group.name, *self.others}
        drug = self.drug_of(self.dice.pick([name for name in self.lexicon.classes if name not in taken]))
        self.others.add(drug.group.name)
        return drug

    def write_drug(self, slot: Slot) -> None:
        drug = self.drug = self._which_drug(slot)
        if "group" in slot.modifiers:
            self.put(slot, self.dice.pick(drug.group.groups), "DRUG", {"kind": "group"})
        else:
            self.put(slot, drug.name, "DRUG", {"kind": drug.kind})

    def write_rx(self, slot: Slot) -> None:
        """A full prescription: drug, strength, route, frequency and so on, linked to each other."""
        drug = self._which_drug(slot)
        ways = drug.group.ways
        self.prescribed, self.way = drug, ways[0] if "home" in slot.modifiers else self.dice.pick(ways)
        span = self.prescription(self.dice.pick(self.lexicon.sig[self.way]))
        self.prescribed, self.way, self.form = None, "", ""
        self.keep(slot, span)

    def _drug_meant(self, slot: Slot) -> Drug:
        """The drug that a strength, form or frequency belongs to."""
        if slot.modifier in self.lexicon.classes:
            return self.drug_of(slot.modifier)
        return self.prescribed or self.drug or self.topic.drug

    def _way(self, slot: Slot) -> str:
        named = next((modifier for modifier in slot.modifiers if modifier in self.lexicon.sig["routes"]), "")
        return named or self.way or self._drug_meant(slot).group.ways[0]

    def strength_words(self, slot: Slot) -> str:
        drug = self._drug_meant(slot)
        name = slot.modifiers[1] if len(slot.modifiers) > 1 else drug.name
        amount = self.strengths.get(name)
        if amount is None or self.dice.chance(0.2):
            amount = self._varied(self.dice.pick(drug.group.strengths_of.get(name) or drug.group.strengths))
            self.strengths[name] = amount
        if "tight_units" in self.style.habits:
            amount = amount.replace(" ", "", 1)
        return self.decimal(amount.replace(",", "")) if "commas" in self.style.habits else amount

    def _varied(self, amount: str) -> str:
        """A listed amount, a multiple of it, or a range: prescribers write more numbers than a list can hold."""
        roll = self.dice.roll()
        if roll > 0.55:
            return amount
        number, _, unit = amount.partition(" ")
        listed = float(number.replace(",", ""))
        if roll < 0.08:
            return f"{listed:g}-{2 * listed:g} {unit}"
        value = listed * self.dice.between(1, 14) / 4
        return f"{value:g} {unit}" if value < 20 else f"{value:,.0f} {unit}"

    def form_words(self, slot: Slot) -> str:
        self.form = self.dice.pick(self._drug_meant(slot).group.forms)
        return self.form

    def dose_words(self, slot: Slot) -> str:
        """How much to take, in the unit that the drug comes in."""
        form = self.form or self._drug_meant(slot).group.forms[0]
        units: dict[str, list[str]] = self.lexicon.sig["units"]
        one, many = next((words for part, words in units.items() if part in form), next(iter(units.values())))
        words: str = self.dice.pick(self.lexicon.sig["doses"])
        return self._spelled(words.replace("{unit}", one).replace("{units}", many))

    def frequency_words(self, slot: Slot) -> str:
        own: Any = () if slot.modifiers else self._drug_meant(slot).group.frequencies
        return self._spelled(self.dice.pick(own or self.lexicon.sig["frequencies"][self._way(slot)]))

    def route_words(self, slot: Slot) -> str:
        return str(self.dice.pick(self.lexicon.sig["routes"][self._way(slot)]))

    def duration_words(self, slot: Slot) -> str:
        return self._spelled(self.dice.pick(self.lexicon.sig["durations"]))

    def _spelled(self, words: str) -> str:
        """A phrase with its numbers filled in ("every {n} hours")."""
        if "{" not in words:
            return words
        return words.format(**{key: self.dice.pick(options) for key, options in self.lexicon.sig["words"].items()})


def _redraw(draw: Callable[[], T], fits: Callable[[T], bool]) -> T:
    """Draw until something fits, or give up and take the last draw."""
    found = draw()
    for _ in range(_TRIES):
        if fits(found):
            break
        found = draw()
    return found
