// The page at / of `osler serve`: annotate a note, look at it, correct it.

import { EXAMPLES } from "./examples.js";
import { drawArcs, drawText, selectedRange } from "./note.js";
import { Review } from "./review.js";
import { connect } from "./server.js";
import { Offsets, make, trimmed } from "./text.js";

const $ = (id) => document.getElementById(id);
const server = connect(askToken);
const LISTED = 200; // entities in the list before "Show more"

const state = {
  settings: null, // heads, colours, formats of the server
  source: "", // the text to annotate, as it came: a text area would change its line ends
  language: "", // of the heads that were used; empty for all heads
  note: null, // the annotated document
  offsets: null,
  review: null,
  hiddenHeads: new Set(),
  hiddenLabels: new Set(),
  minimum: 0,
  listed: LISTED,
  elements: new Map(), // first element of each entity that is shown
  saved: null, // the entities that were saved last
  opened: null, // key of the entity whose details are open
};

// Start ---------------------------------------------------------------------------------------------------------------

async function start() {
  theme(localStorage.getItem("osler-theme") ?? "auto");
  $("annotator").value = localStorage.getItem("osler-annotator") ?? "";
  try {
    state.settings = await server.get("v1/page");
  } catch (error) {
    say(error.message, true);
    return;
  }
  const { settings } = state;
  const languages = [...new Set(settings.heads.map((head) => head.language))];
  $("about").textContent = `${settings.bundle} · ${settings.heads.length} ${settings.heads.length === 1 ? "head" : "heads"} · ${languages.join(", ")}`;
  $("language-box").hidden = languages.length < 2;
  for (const language of languages) $("language").append(make("option", { value: language }, language));
  const fitting = EXAMPLES.filter((example) => languages.includes(example.language));
  for (const example of fitting.length ? fitting : EXAMPLES) {
    $("example").append(make("option", { value: example.title }, example.title));
  }
  for (const format of settings.formats) $("format").append(make("option", { value: format.name }, format.title));
  $("review").hidden = !settings.corrections;
  $("adding").hidden = !settings.corrections;
  $("deid-box").hidden = !settings.deid.length;
  for (const style of settings.deid) $("deid-style").append(make("option", { value: style }, style));
  fillLabels($("adding-label"));
}

function theme(chosen) {
  document.documentElement.dataset.theme = chosen;
  $("theme").textContent = `Theme: ${chosen}`;
  localStorage.setItem("osler-theme", chosen);
}

function say(message, wrong = false) {
  $("status").textContent = message;
  $("status").classList.toggle("wrong", wrong);
}

function askToken(wrong) {
  const dialog = $("token-dialog");
  if (wrong) $("token-hint").textContent = "That token was not accepted. Try another one.";
  $("token").value = "";
  return new Promise((resolve) => {
    const done = () => {
      const token = $("token").value.trim();
      if (!token) return dialog.showModal(); // it was closed with Escape
      dialog.removeEventListener("close", done);
      resolve(token);
    };
    dialog.addEventListener("close", done);
    dialog.showModal();
  });
}

// Annotate ------------------------------------------------------------------------------------------------------------

function take(text) {
  state.source = text;
  $("text").value = text;
}

async function annotate() {
  const text = state.source;
  if (!text.trim()) return say("There is no text yet.", true);
  if (unsaved() && !confirm("The corrections of this note are not saved. Go on without them?")) return;
  say("Annotating…");
  $("annotate").disabled = true;
  const began = performance.now();
  try {
    const asked = $("language-box").hidden ? "auto" : $("language").value;
    const options = asked === "auto" ? {} : { language: asked };
    const [found, language] = await Promise.all([server.post("v1/annotate", { id: "note", text, options }), languageUsed(text, asked)]);
    state.language = language;
    show(found);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const count = state.review.spans.length;
    const heads = language && asked === "auto" ? ` Heads for: ${language}.` : "";
    say(`${count.toLocaleString("en")} ${count === 1 ? "entity" : "entities"} in ${text.length.toLocaleString("en")} characters, ${seconds} s.${heads}`);
    $("note-title").focus({ preventScroll: true });
    if ($("result").getBoundingClientRect().top > innerHeight / 2) $("result").scrollIntoView({ block: "start" });
  } catch (error) {
    say(error.message, true);
  } finally {
    $("annotate").disabled = false;
  }
}

// The language whose heads the server uses for a text; empty for all heads.
async function languageUsed(text, asked) {
  if ($("language-box").hidden || asked === "all") return "";
  return asked === "auto" ? (await server.post("v1/language", { text })).language ?? "" : asked;
}

function show(found) {
  const offsets = new Offsets(found.text);
  const units = ([start, end]) => [offsets.toUnits(start), offsets.toUnits(end)];
  const keys = new Map();
  const spans = (found.spans ?? []).map((span, number) => {
    const { head, ...attributes } = span.attributes ?? {};
    keys.set(span.id, number + 1);
    const fragments = (span.fragments ?? [[span.start, span.end]]).map(units);
    const label = span.label;
    return { key: number + 1, id: span.id, fragments, label, head: head ?? "", score: span.score, attributes, status: "predicted", predicted: { label, head: head ?? "" } };
  });
  const relations = (found.relations ?? []).map((relation, number) => ({
    ...relation,
    key: number + 1,
    head: keys.get(relation.head),
    tail: keys.get(relation.tail),
  }));
  Object.assign(state, { note: found, offsets, listed: LISTED, review: new Review(found.text, spans, relations) });
  $("input").classList.add("done");
  $("text").scrollTop = 0;
  $("result").hidden = false;
  drawLabels();
  draw();
  if ($("show-deid").checked) deidentify();
}

function drawLabels() {
  const { labels = [], scores = {}, meta = {} } = state.note;
  const shown = new Set(labels);
  const ranked = Object.entries(scores).filter(([label, score]) => shown.has(label) || score >= 0.1);
  const tags = ranked.map(([label, score]) => {
    const meter = make("meter", { min: 0, max: 1, value: score, "aria-hidden": "true" });
    return make("li", { class: shown.has(label) ? "chosen" : "" }, label.replace(":", ": "), meter, score.toFixed(2));
  });
  for (const label of labels) if (!(label in scores)) tags.push(make("li", { class: "chosen" }, label));
  for (const [key, value] of Object.entries(meta)) if (key.startsWith("value:")) tags.push(make("li", {}, `${key.slice(6)} ${value}`));
  $("labels").replaceChildren(...tags);
}

// Draw ----------------------------------------------------------------------------------------------------------------

function live(span) {
  return span.status !== "removed" && !state.hiddenHeads.has(span.head) && certain(span);
}

function certain(span) {
  return span.status !== "predicted" || span.score === undefined || span.score >= state.minimum;
}

function visible(span) {
  return live(span) && !state.hiddenLabels.has(`${span.head}:${span.label}`);
}

function colour(label) {
  return state.settings.colours[label] ?? "h-grey l-solid";
}

function describe(span) {
  const values = Object.entries(span.attributes).map(([name, value]) => (["yes", "true", "", name].includes(value) ? name : value));
  const score = span.score === undefined ? "" : `, score ${span.score.toFixed(2)}`;
  return { chip: [span.label, ...values].join(" · "), name: `${span.label}: ${state.review.wordsOf(span)}${values.map((value) => `, ${value}`).join("")}${score}` };
}

function draw(focus = null) {
  const { review } = state;
  const spans = review.spans.filter(visible);
  state.elements = drawText($("note"), review.text, spans, (span) => {
    const { chip, name } = describe(span);
    return { classes: `${colour(span.label)} is-${span.status}`, chip, name };
  });
  const first = focus !== null && state.elements.has(focus) ? focus : spans[0]?.key;
  if (first !== undefined) state.elements.get(first).tabIndex = 0;
  if (focus !== null) state.elements.get(first)?.focus({ preventScroll: true });
  drawLegend();
  drawList();
  drawRelations();
  drawReview();
}

function drawLegend() {
  const counts = new Map();
  const group = (head) => counts.get(head) ?? counts.set(head, new Map()).get(head);
  for (const head of state.settings.heads) if (head.kind === "tagging") group(head.name);
  for (const span of state.review.spans) {
    if (span.status === "removed" || !certain(span)) continue;
    const labels = group(span.head);
    labels.set(span.label, (labels.get(span.label) ?? 0) + 1);
  }
  const blocks = [...counts].filter(([, labels]) => labels.size).map(([head, labels]) => {
    const on = !state.hiddenHeads.has(head);
    const total = [...labels.values()].reduce((sum, count) => sum + count, 0);
    const title = make("button", { type: "button", class: "head", role: "switch", "aria-checked": String(on), "data-head": head, onclick: () => toggle(state.hiddenHeads, head) },
      make("span", { class: "knob", "aria-hidden": "true" }), make("span", { class: "head-name" }, head || "entities"), make("span", { class: "count" }, String(total)));
    const items = [...labels].sort(([a], [b]) => (a < b ? -1 : 1)).map(([label, count]) => {
      const name = `${head}:${label}`;
      const pressed = String(!state.hiddenLabels.has(name));
      return make("li", {}, make("button", { type: "button", class: `key ${colour(label)}`, "aria-pressed": pressed, disabled: !on, "data-label": label, onclick: () => toggle(state.hiddenLabels, name) },
        label, " ", make("span", { class: "count" }, String(count))));
    });
    return make("div", { class: "legend-group" }, title, make("ul", { class: "legend" }, ...items));
  });
  keepFocus($("legend"), () => $("legend").replaceChildren(...(blocks.length ? blocks : [make("p", { class: "hint" }, "No entities.")])));
}

// Replace the content of a panel without losing the keyboard's place in it.
function keepFocus(panel, replace) {
  const { head, label } = document.activeElement?.dataset ?? {};
  const inside = panel.contains(document.activeElement);
  replace();
  if (!inside) return;
  for (const button of panel.querySelectorAll("button")) {
    if (button.dataset.head === head && button.dataset.label === label) button.focus();
  }
}

function toggle(set, name) {
  if (!set.delete(name)) set.add(name);
  draw();
}

const ORDERS = {
  position: () => 0, // they are sorted already
  uncertain: (a, b) => doubt(a) - doubt(b),
  label: (a, b) => (a.label < b.label ? -1 : a.label > b.label ? 1 : 0),
};

// Nearest to 0.5 first; what a person has decided comes last.
function doubt(span) {
  return span.status === "predicted" ? Math.abs((span.score ?? 1) - 0.5) : 1;
}

function drawList() {
  const { review } = state;
  const spans = review.spans.filter((span) => visible(span) || (span.status === "removed" && !state.hiddenHeads.has(span.head)));
  spans.sort(ORDERS[$("order").value]);
  const rows = spans.slice(0, state.listed).map((span) => {
    const gone = span.status === "removed";
    const score = span.score === undefined ? "" : span.score.toFixed(2);
    const act = gone ? () => edit(() => review.restore(span.key), span.key) : () => reveal(span.key);
    return make("li", {}, make("button", { type: "button", class: `item is-${span.status}`, "data-key": span.key, title: gone ? "Removed. Press to restore it" : null, onclick: act },
      make("span", { class: `dot ${colour(span.label)}`, "aria-hidden": "true" }),
      make("span", { class: "words" }, review.wordsOf(span)),
      make("span", { class: "what" }, span.label),
      make("span", { class: "score" }, MARKS[span.status] ?? score)));
  });
  $("list").replaceChildren(...rows);
  $("more").hidden = spans.length <= state.listed;
  $("more").textContent = `Show more (${(spans.length - state.listed).toLocaleString("en")})`;
}

const MARKS = { accepted: "✓", relabelled: "✎", added: "+", removed: "−" };

function shownRelations() {
  const { review, elements } = state;
  return review.relations.filter((relation) => elements.has(relation.head) && elements.has(relation.tail) && (relation.score ?? 1) >= state.minimum);
}

function drawRelations() {
  const { review } = state;
  const relations = shownRelations();
  const end = (key) => make("button", { type: "button", class: `end ${colour(review.span(key).label)}`, onclick: () => reveal(key) }, review.wordsOf(review.span(key)));
  const rows = relations.map((relation) => {
    const light = (on) => () => highlight(relation, on);
    const score = relation.score === undefined ? "" : ` ${relation.score.toFixed(2)}`;
    return make("li", { class: "relation", "data-relation": relation.key, onmouseenter: light(true), onmouseleave: light(false), onfocusin: light(true), onfocusout: light(false) },
      end(relation.head), make("span", { class: "link" }, `${relation.label}${score} →`), end(relation.tail));
  });
  $("relations").replaceChildren(...rows);
  $("relations-panel").hidden = !rows.length;
  $("arcs-box").hidden = !review.relations.length;
  $("canvas").classList.toggle("with-arcs", Boolean(rows.length) && $("show-arcs").checked);
  redrawArcs();
}

function redrawArcs() {
  drawArcs($("arcs"), $("canvas"), $("show-arcs").checked ? shownRelations() : [], state.elements);
}

function highlight(relation, on) {
  for (const key of [relation.head, relation.tail]) {
    for (const mark of $("note").querySelectorAll(`mark[data-key="${key}"]`)) mark.classList.toggle("lit", on);
  }
  $("arcs").querySelector(`[data-relation="${relation.key}"]`)?.classList.toggle("lit", on);
}

// Look at one entity --------------------------------------------------------------------------------------------------

function facts(span) {
  const rows = [["head", span.head], ...Object.entries(span.attributes)].filter(([, value]) => value);
  if (span.score !== undefined) rows.unshift(["score", span.score.toFixed(3)]);
  if (span.status !== "predicted") rows.push(["you", span.status]);
  return make("dl", { class: "facts" }, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
}

function showTip(element) {
  const keys = [];
  for (let mark = element.closest("mark"); mark; mark = mark.parentElement.closest("mark")) keys.push(Number(mark.dataset.key));
  const spans = [...new Set(keys)].map((key) => state.review.span(key)).filter(Boolean);
  if (!spans.length || state.opened !== null) return;
  $("tip").replaceChildren(...spans.map((span) => make("div", { class: "tip-part" }, make("strong", { class: `key ${colour(span.label)}` }, span.label), facts(span))));
  $("tip").hidden = false;
  place($("tip"), element.getClientRects()[0]);
}

function hideTip() {
  $("tip").hidden = true;
}

function place(box, target) {
  const { innerWidth, innerHeight } = window;
  const size = box.getBoundingClientRect();
  const below = target.bottom + 8 + size.height < innerHeight || target.top < size.height + 16;
  box.style.left = `${Math.max(8, Math.min(target.left, innerWidth - size.width - 8)) + scrollX}px`;
  box.style.top = `${(below ? target.bottom + 8 : target.top - size.height - 8) + scrollY}px`;
}

function reveal(key) {
  const element = state.elements.get(key);
  if (!element) return;
  move(element);
  element.scrollIntoView({ block: "center" });
  openDetails(key);
}

function move(element) {
  for (const mark of state.elements.values()) mark.tabIndex = -1;
  element.tabIndex = 0;
  element.focus({ preventScroll: false });
}

function openDetails(key) {
  const { review, settings } = state;
  const span = review.span(key);
  hideTip();
  state.opened = key;
  const box = $("details");
  const close = make("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => closeDetails() }, "×");
  const head = make("header", {}, make("strong", { id: "details-title", class: `key ${colour(span.label)}` }, span.label), close);
  const linked = review.relations.filter((relation) => relation.head === key || relation.tail === key);
  const relations = linked.map((relation) => {
    const text = relation.head === key ? `${relation.label} → ${review.wordsOf(review.span(relation.tail))}` : `${review.wordsOf(review.span(relation.head))} → ${relation.label}`;
    const drop = settings.corrections && make("button", { type: "button", class: "quiet", "aria-label": `Remove the relation ${relation.label}`, onclick: () => edit(() => review.removeRelation(relation.key), key) }, "remove");
    return make("li", {}, text, " ", drop || null);
  });
  const parts = [head, make("p", { class: "quote" }, review.wordsOf(span)), facts(span)];
  if (relations.length) parts.push(make("ul", { class: "linked" }, ...relations));
  if (settings.corrections) parts.push(corrections(span));
  box.replaceChildren(...parts);
  box.hidden = false;
  place(box, state.elements.get(key).getClientRects()[0]);
  (box.querySelector("[data-first]") ?? close).focus({ preventScroll: true });
}

function corrections(span) {
  const { review } = state;
  const equal = review.countEqual(span);
  const all = make("input", { type: "checkbox", id: "all-equal" });
  const select = make("select", { id: "relabel", "aria-label": "Another label" });
  fillLabels(select, span);
  const act = (change) => () => edit(() => change(all.checked), span.key);
  select.addEventListener("change", act((every) => review.relabel(span.key, chosenLabel(select), every)));
  return make("div", { class: "actions" },
    equal > 1 ? make("label", { class: "check" }, all, ` All ${equal} equal strings`) : null,
    make("div", { class: "row" },
      make("button", { type: "button", "data-first": true, "data-act": "accept", onclick: act((every) => review.accept(span.key, every)) }, "Accept"),
      select,
      make("button", { type: "button", "data-act": "remove", onclick: act((every) => review.remove(span.key, every)) }, "Remove")));
}

function closeDetails(focus = true) {
  if (state.opened === null) return;
  const element = state.elements.get(state.opened);
  state.opened = null;
  $("details").hidden = true;
  if (focus) element?.focus({ preventScroll: true });
}

// Correct -------------------------------------------------------------------------------------------------------------

function choices() {
  return state.settings.heads.filter((head) => head.kind === "tagging").flatMap((head) => head.labels.map((label) => ({ head: head.name, label })));
}

function fillLabels(select, span = null) {
  const groups = new Map();
  choices().forEach((choice, number) => {
    const group = groups.get(choice.head) ?? groups.set(choice.head, make("optgroup", { label: choice.head })).get(choice.head);
    const own = span && choice.head === span.head && choice.label === span.label;
    group.append(make("option", { value: number, selected: own }, choice.label));
  });
  select.replaceChildren(...groups.values());
}

function chosenLabel(select) {
  return choices()[Number(select.value)];
}

function edit(change, focus = null) {
  change();
  closeDetails(false);
  const order = state.review.spans.filter(visible).map((span) => span.key);
  const next = order.includes(focus) ? focus : order.find((key) => key > focus) ?? order.at(-1) ?? null;
  draw(next);
}

function undo() {
  if (!state.review?.changed) return;
  closeDetails(false);
  state.review.undo();
  draw();
  say("Undone.");
}

function drawReview() {
  if (!state.settings.corrections) return;
  const { review } = state;
  const counts = review.counts();
  const said = Object.entries(counts).filter(([, count]) => count).map(([name, count]) => `${count} ${name}`);
  const spans = saved();
  const left = spans.filter((span) => span.status === "predicted").length;
  $("undo").disabled = !review.changed;
  const heads = reviewed();
  $("save").disabled = !heads.length;
  $("review-hint").textContent = heads.length
    ? `${said.length ? `${said.join(", ")}. ` : ""}Saving takes the whole note as correct: ${spans.length} entities of ${heads.join(", ")}${left ? `, ${left} of them as predicted` : ""}.`
    : "Switch on a head to save its entities.";
}

// Heads that are switched on, and their entities. Labels that are only hidden from view are saved too.
function reviewed() {
  const found = new Set(state.review.spans.map((span) => span.head));
  const used = state.language;
  return state.settings.heads
    .filter((head) => head.kind === "tagging" && !state.hiddenHeads.has(head.name) && (found.has(head.name) || (used ? head.language === used : state.settings.heads.length === 1)))
    .map((head) => head.name);
}

function saved() {
  const heads = new Set(reviewed());
  return state.review.spans.filter((span) => live(span) && heads.has(span.head));
}

function record() {
  const { offsets, note, review } = state;
  const place = ({ fragments }) => {
    const characters = fragments.map(([start, end]) => [offsets.toCharacters(start), offsets.toCharacters(end)]);
    return characters.length > 1 ? { fragments: characters } : { start: characters[0][0], end: characters[0][1] };
  };
  const spans = state.settings.corrections ? saved() : review.spans.filter(live);
  const ids = new Map(spans.map((span) => [span.key, span.id]));
  const relations = review.relations.filter((relation) => ids.has(relation.head) && ids.has(relation.tail) && (relation.score ?? 1) >= state.minimum);
  const document_ = {
    id: note.id,
    text: note.text,
    spans: spans.map((span) => ({
      ...place(span),
      label: span.label,
      id: span.id,
      ...(span.score === undefined || span.status !== "predicted" ? {} : { score: span.score }),
      attributes: { ...span.attributes, ...(span.head ? { head: span.head } : {}) },
    })),
    relations: relations.map(({ key, head, tail, ...rest }) => ({ ...rest, head: ids.get(head), tail: ids.get(tail) })),
  };
  if (note.labels) document_.labels = note.labels;
  if (note.scores) document_.scores = note.scores;
  return document_;
}

function unsaved() {
  return Boolean(state.settings?.corrections && state.review?.changed && state.review.spans !== state.saved);
}

async function save() {
  const field = $("annotator");
  if (!field.value || !field.checkValidity()) {
    say("Give the annotator a name of lower-case letters, digits and hyphens.", true);
    field.focus();
    return;
  }
  localStorage.setItem("osler-annotator", field.value);
  $("save").disabled = true;
  try {
    const { spans, relations } = record();
    const body = { annotator: field.value, model: state.settings.model, heads: reviewed(), changes: state.review.counts(), document: { text: state.note.text, spans, relations } };
    const { spans: kept } = state.review;
    const answer = await server.post("v1/corrections", body);
    state.saved = kept;
    say(`Saved. ${answer.notes} ${answer.notes === 1 ? "note" : "notes"} by ${answer.annotator}, ${answer.changes} changes in all.`);
  } catch (error) {
    say(error.message, true);
  } finally {
    $("save").disabled = false;
  }
}

function offerSelection() {
  if (!state.settings?.corrections || !state.review) return;
  const range = selectedRange($("note"));
  if (!range) return;
  const [start, end] = trimmed(state.review.text, ...range);
  if (start === end) return;
  const box = $("details");
  const select = make("select", { "aria-label": "Label of the new entity" });
  fillLabels(select);
  const all = make("input", { type: "checkbox" });
  const add = () => {
    const done = () => state.review.add(start, end, chosenLabel(select), all.checked);
    getSelection().removeAllRanges();
    $("details").hidden = true;
    state.opened = null;
    edit(() => say(done() ? "Added." : "It is there already."), null);
  };
  const area = getSelection().getRangeAt(0).getBoundingClientRect();
  hideTip();
  closeDetails(false);
  state.opened = 0;
  box.replaceChildren(
    make("header", {}, make("strong", { id: "details-title" }, "New entity"), make("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => closeDetails(false) }, "×")),
    make("p", { class: "quote" }, state.review.text.slice(start, end)),
    make("div", { class: "actions" }, make("label", { class: "check" }, all, " All equal strings"), make("div", { class: "row" }, select, make("button", { type: "button", class: "primary", onclick: add }, "Add"))));
  box.hidden = false;
  place(box, area);
}

function addWords(event) {
  event.preventDefault();
  const words = $("adding-text").value.trim();
  const start = words ? state.review.text.indexOf(words) : -1;
  if (start < 0) return say("These words are not in the note.", true);
  let done = false;
  edit(() => (done = state.review.add(start, start + words.length, chosenLabel($("adding-label")), true)));
  say(done ? "Added at every place." : "It is there already.");
  $("adding-text").value = "";
}

// De-identify and download --------------------------------------------------------------------------------------------

async function deidentify() {
  $("sheets").classList.toggle("two", $("show-deid").checked);
  $("deid").hidden = !$("show-deid").checked;
  requestAnimationFrame(redrawArcs);
  if ($("deid").hidden) return;
  $("deid-text").textContent = "…";
  try {
    const answer = await server.post("v1/deid", { text: state.note.text, options: { style: $("deid-style").value } });
    $("deid-text").textContent = answer.text;
  } catch (error) {
    $("deid-text").textContent = error.message;
  }
}

async function download() {
  const format = state.settings.formats.find((item) => item.name === $("format").value);
  try {
    const blob = await server.file(`v1/convert?to=${encodeURIComponent(format.name)}`, record());
    const link = make("a", { href: URL.createObjectURL(blob), download: `note${format.suffix}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  } catch (error) {
    say(error.message, true);
  }
}

async function read(file) {
  if (!file) return;
  try {
    take(new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer()));
    say("");
  } catch {
    return say("The file is not UTF-8 text.", true);
  }
  await annotate();
}

// Events --------------------------------------------------------------------------------------------------------------

function keys(event) {
  const mark = event.target.closest?.("mark[tabindex]");
  if (!mark) return;
  const shown = [...$("note").querySelectorAll("mark[tabindex]")];
  const here = shown.indexOf(mark);
  const key = Number(mark.dataset.key);
  const steps = { ArrowRight: here + 1, ArrowDown: here + 1, ArrowLeft: here - 1, ArrowUp: here - 1, Home: 0, End: shown.length - 1 };
  if (event.key in steps && !event.shiftKey) {
    const next = shown[Math.max(0, Math.min(steps[event.key], shown.length - 1))];
    move(next);
  } else if (event.key === "Enter" || event.key === " ") openDetails(key);
  else if (state.settings.corrections && event.key === "Delete") edit(() => state.review.remove(key, false), key);
  else if (state.settings.corrections && event.key === "a" && !event.ctrlKey && !event.metaKey) edit(() => state.review.accept(key, false), key);
  else return;
  event.preventDefault();
}

let waiting = 0;
function soon(change) {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(change);
}

$("theme").addEventListener("click", () => {
  const all = ["auto", "light", "dark"];
  theme(all[(all.indexOf(document.documentElement.dataset.theme) + 1) % all.length]);
});
$("text").addEventListener("input", () => { state.source = $("text").value; });
$("text").addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) annotate(); });
$("annotate").addEventListener("click", annotate);
$("open").addEventListener("click", () => $("file").click());
$("file").addEventListener("change", () => { read($("file").files[0]); $("file").value = ""; });
$("example").addEventListener("change", () => {
  const example = EXAMPLES.find((item) => item.title === $("example").value);
  if (!example) return;
  if (!$("language-box").hidden && [...$("language").options].some((option) => option.value === example.language)) $("language").value = example.language;
  take(example.text);
  annotate();
});
$("again").addEventListener("click", () => {
  $("input").classList.remove("done");
  $("text").focus();
  $("text").select();
});
$("text").addEventListener("focus", () => $("input").classList.remove("done"));
$("minimum").addEventListener("input", () => {
  state.minimum = Number($("minimum").value);
  $("minimum-value").textContent = state.minimum.toFixed(2);
  soon(() => draw());
});
$("order").addEventListener("change", drawList);
$("more").addEventListener("click", () => { state.listed += 1000; drawList(); });
$("show-arcs").addEventListener("change", drawRelations);
$("show-deid").addEventListener("change", deidentify);
$("deid-style").addEventListener("change", deidentify);
$("download").addEventListener("click", download);
$("undo").addEventListener("click", undo);
$("save").addEventListener("click", save);
$("adding").addEventListener("submit", addWords);
$("note").addEventListener("keydown", keys);
$("note").addEventListener("click", (event) => {
  const mark = event.target.closest("mark");
  if (mark && getSelection().isCollapsed) openDetails(Number(mark.dataset.key));
});
$("note").addEventListener("mouseup", () => setTimeout(offerSelection));
$("note").addEventListener("pointerover", (event) => (event.target.closest("mark") ? showTip(event.target) : hideTip()));
$("note").addEventListener("pointerleave", hideTip);
$("note").addEventListener("focusin", (event) => showTip(event.target));
$("note").addEventListener("focusout", hideTip);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") { hideTip(); closeDetails(); }
  const field = event.target.closest?.("input[type=text], textarea");
  if ((event.ctrlKey || event.metaKey) && event.key === "z" && !field && state.review?.changed) { event.preventDefault(); undo(); }
});
document.addEventListener("pointerdown", (event) => {
  if (!event.target.closest("#details, mark, .item, .end")) closeDetails(false);
});
document.addEventListener("dragover", (event) => event.preventDefault());
document.addEventListener("drop", (event) => {
  event.preventDefault();
  const file = event.dataTransfer.files[0];
  const text = event.dataTransfer.getData("text/plain");
  if (file) read(file);
  else if (text) { take(text); annotate(); }
});
window.addEventListener("beforeunload", (event) => { if (unsaved()) event.preventDefault(); });
new ResizeObserver(() => { if (state.review) soon(redrawArcs); }).observe($("canvas"));

start();
