// Corrections of one note, with undo. Spans are never changed in place, so that an earlier state is only a list kept.

import { occurrences } from "./text.js";

export class Review {
  constructor(text, spans, relations) {
    this.text = text;
    this.spans = spans;
    this.relations = relations;
    this.past = [];
    this.nextKey = spans.reduce((most, span) => Math.max(most, span.key), 0) + 1;
  }

  get changed() {
    return this.past.length > 0;
  }

  span(key) {
    if (this.indexed !== this.spans) {
      this.indexed = this.spans;
      this.index = new Map(this.spans.map((span) => [span.key, span]));
    }
    return this.index.get(key);
  }

  wordsOf(span) {
    return span.fragments.map(([start, end]) => this.text.slice(start, end)).join(" … ");
  }

  // Entities with the same words and label, this one included.
  equals(span) {
    const words = this.wordsOf(span);
    return this.spans.filter((other) => other.label === span.label && other.status !== "removed" && this.wordsOf(other) === words);
  }

  // How many places "all equal" would touch: marked ones with this label, and unmarked ones.
  countEqual(span) {
    return this.equals(span).length + this.#unmarked(span).length;
  }

  accept(key, all) {
    const span = this.span(key);
    this.#change(all ? this.equals(span) : [span], () => ({ status: "accepted" }), all ? span : null);
  }

  relabel(key, { label, head }, all) {
    const span = this.span(key);
    const made = { ...span, label, head };
    const status = (old) => (old.predicted?.label === label && old.predicted?.head === head ? "accepted" : old.predicted ? "relabelled" : "added");
    this.#change(all ? this.equals(span) : [span], (old) => ({ label, head, status: status(old) }), all ? made : null);
  }

  remove(key, all) {
    const span = this.span(key);
    const gone = new Set((all ? this.equals(span) : [span]).map((item) => item.key));
    this.#remember();
    // What the annotator added leaves no trace; a prediction stays in the list, to be restored.
    this.spans = this.spans
      .filter((item) => !gone.has(item.key) || item.predicted)
      .map((item) => (gone.has(item.key) ? { ...item, status: "removed" } : item));
  }

  restore(key) {
    this.#change([this.span(key)], (old) => ({ ...old.predicted, status: "accepted" }), null);
  }

  removeRelation(key) {
    this.#remember();
    this.relations = this.relations.filter((relation) => relation.key !== key);
  }

  // Add an entity; false if it is there already.
  add(start, end, { label, head }, all) {
    const places = all ? occurrences(this.text, this.text.slice(start, end)) : [];
    if (!places.some(([from]) => from === start)) places.push([start, end]);
    const free = places.filter(([from, to]) => !this.#at(from, to, label));
    if (!free.length) return false;
    this.#remember();
    this.#insert(free, label, head);
    return true;
  }

  undo() {
    const state = this.past.pop();
    if (state) [this.spans, this.relations] = state;
  }

  counts() {
    const found = { accepted: 0, relabelled: 0, removed: 0, added: 0 };
    for (const span of this.spans) if (span.status in found) found[span.status] += 1;
    return found;
  }

  #remember() {
    this.past.push([this.spans, this.relations]);
  }

  #change(chosen, change, spread) {
    const keys = new Set(chosen.map((span) => span.key));
    const places = spread ? this.#unmarked(spread) : [];
    this.#remember();
    this.spans = this.spans.map((span) => (keys.has(span.key) ? { ...span, ...change(span) } : span));
    if (places.length) this.#insert(places, spread.label, spread.head);
  }

  // Equal words that no entity touches.
  #unmarked(span) {
    if (span.fragments.length > 1) return [];
    const [start, end] = span.fragments[0];
    const live = this.spans.filter((item) => item.status !== "removed");
    return occurrences(this.text, this.text.slice(start, end)).filter(
      ([from, to]) => from !== start && !live.some((item) => item.fragments.some(([a, b]) => a < to && from < b)),
    );
  }

  #at(start, end, label) {
    return this.spans.some(
      (span) => span.status !== "removed" && span.label === label && span.fragments.length === 1 && span.fragments[0][0] === start && span.fragments[0][1] === end,
    );
  }

  #insert(places, label, head) {
    const made = places.map((fragment) => ({ key: this.nextKey, id: `A${this.nextKey++}`, fragments: [fragment], label, head, attributes: {}, status: "added" }));
    this.spans = [...this.spans, ...made].sort((a, b) => a.fragments[0][0] - b.fragments[0][0] || b.fragments.at(-1)[1] - a.fragments.at(-1)[1]);
  }
}
