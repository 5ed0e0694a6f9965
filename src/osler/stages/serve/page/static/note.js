// Draw a note: its text with every entity marked, and relations as arcs over it.

import { make } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

// Entities may nest, cross and have gaps. Elements can only nest, so an entity that crosses the edge of another is cut there and drawn
// as if joined. `marked(span, part)` gives the classes and the text of the chip.
export function drawText(root, text, spans, marked) {
  const parts = [];
  spans.forEach((span, index) => {
    span.fragments.forEach(([start, end], number) => parts.push({ start, end, index, number, begun: false }));
  });
  parts.sort((a, b) => a.start - b.start || b.end - a.end || a.index - b.index);
  const borders = new Set([0, text.length]);
  for (const part of parts) borders.add(part.start).add(part.end);
  const page = document.createDocumentFragment();
  const first = new Map();
  let open = [];
  let next = 0;
  const places = [...borders].sort((a, b) => a - b);
  places.forEach((here, number) => {
    const starting = [];
    const depth = open.findIndex((item) => item.part.end === here);
    if (depth >= 0) {
      for (const item of open.splice(depth)) if (item.part.end > here) starting.push(item.part);
    }
    while (next < parts.length && parts[next].start === here) starting.push(parts[next++]);
    starting.sort((a, b) => b.end - a.end || a.index - b.index);
    for (const part of starting) {
      const stop = open.reduce((least, item) => Math.min(least, item.part.end), part.end);
      const element = segment(spans[part.index], part, stop === part.end, marked);
      (open.at(-1)?.element ?? page).append(element);
      open.push({ part, element });
      if (!first.has(spans[part.index].key)) first.set(spans[part.index].key, element);
      part.begun = true;
    }
    const after = places[number + 1];
    if (after !== undefined) (open.at(-1)?.element ?? page).append(text.slice(here, after));
  });
  root.replaceChildren(page);
  return first;
}

function segment(span, part, last, marked) {
  const { classes, chip, name } = marked(span);
  const joined = `${part.begun ? " more-left" : ""}${last ? "" : " more-right"}`;
  const element = make("mark", { class: `${classes}${joined}`, "data-key": span.key });
  const several = span.fragments.length > 1 ? ` ${part.number + 1}/${span.fragments.length}` : "";
  if (last) element.dataset.chip = chip + several;
  if (!part.begun && part.number === 0) {
    element.setAttribute("role", "group");
    element.setAttribute("aria-roledescription", "entity");
    element.setAttribute("aria-label", name);
    element.tabIndex = -1;
  }
  return element;
}

// Draw an arc from the head of each relation to its tail. `elements` has the first element of each entity.
export function drawArcs(svg, canvas, relations, elements) {
  const frame = canvas.getBoundingClientRect();
  svg.setAttribute("width", canvas.clientWidth);
  svg.setAttribute("height", canvas.scrollHeight);
  const drawn = document.createDocumentFragment();
  const add = (tag, properties, parent = drawn) => {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
    parent.append(element);
    return element;
  };
  const definitions = add("defs", {});
  const marker = add(
    "marker",
    { id: "tip-of-arc", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" },
    definitions,
  );
  add("path", { d: "M0 0 L8 4 L0 8 z", class: "arrow" }, marker);
  const taken = []; // labels already placed, so that they do not cover each other
  for (const relation of relations) {
    const ends = [relation.head, relation.tail].map((key) => elements.get(key)?.getClientRects()[0]);
    if (!ends[0] || !ends[1]) continue;
    const [from, to] = ends.map((box) => ({
      x: box.left - frame.left + Math.min(box.width / 2, 60),
      top: box.top - frame.top,
      bottom: box.bottom - frame.top,
    }));
    const group = add("g", { class: "arc", "data-relation": relation.key });
    const sameLine = Math.abs(from.top - to.top) < 8;
    let middle;
    if (sameLine) {
      const height = Math.min(20, 9 + Math.abs(to.x - from.x) * 0.05);
      const top = from.top - height;
      add("path", { d: `M${from.x} ${from.top} C${from.x} ${top} ${to.x} ${top} ${to.x} ${to.top - 1}` }, group);
      middle = { x: (from.x + to.x) / 2, y: from.top - height * 0.75 };
    } else {
      const down = from.top < to.top;
      const start = down ? from.bottom : from.top;
      const end = down ? to.top - 1 : to.bottom + 1;
      const bend = Math.min(46, Math.abs(end - start) * 0.6 + 12) * (down ? 1 : -1);
      add("path", { d: `M${from.x} ${start} C${from.x} ${start + bend} ${to.x} ${end - bend} ${to.x} ${end}` }, group);
      middle = { x: (from.x + to.x) / 2, y: (start + end) / 2 };
    }
    group.firstChild.setAttribute("marker-end", "url(#tip-of-arc)");
    while (taken.some((place) => Math.abs(place.x - middle.x) < 44 && Math.abs(place.y - middle.y) < 11)) middle.y += 11;
    taken.push(middle);
    add("text", { x: middle.x, y: middle.y + 3, "text-anchor": "middle" }, group).textContent = relation.label;
  }
  svg.replaceChildren(drawn);
}

// Unit offsets of the selected text in a drawn note, or null. Chips are not part of its text.
export function selectedRange(root) {
  const selection = getSelection();
  if (!selection.rangeCount || selection.isCollapsed) return null;
  const range = selection.getRangeAt(0);
  if (!root.contains(range.startContainer) || !root.contains(range.endContainer)) return null;
  const before = document.createRange();
  before.setStart(root, 0);
  before.setEnd(range.startContainer, range.startOffset);
  const start = before.toString().length;
  return [start, start + range.toString().length];
}
