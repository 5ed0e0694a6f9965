// Offsets. The service counts characters (code points); JavaScript counts UTF-16 units, of which an emoji has two.

export class Offsets {
  constructor(text) {
    this.text = text;
    this.pairs = []; // unit offset of each character that has two units
    for (const match of text.matchAll(/[\u{10000}-\u{10ffff}]/gu)) this.pairs.push(match.index);
  }

  // Characters before a unit offset.
  toCharacters(unit) {
    return unit - this.#below(unit, (index) => this.pairs[index]);
  }

  // Unit offset of a character.
  toUnits(character) {
    return character + this.#below(character, (index) => this.pairs[index] - index);
  }

  // How many of the pairs lie before an offset; the offsets rise with the index.
  #below(offset, at) {
    let low = 0;
    let high = this.pairs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (at(middle) < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const LETTER = /[\p{L}\p{N}\p{M}]/u;

// Places of a string in a text, at word edges and without overlaps.
export function occurrences(text, wanted) {
  const found = [];
  if (!wanted) return found;
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) {
    const end = at + wanted.length;
    const cut = (edge) => edge > 0 && edge < text.length && LETTER.test(text[edge - 1]) && LETTER.test(text[edge]);
    if (!cut(at) && !cut(end)) found.push([at, end]);
  }
  return found;
}

// A range without the blanks at its edges.
export function trimmed(text, start, end) {
  while (start < end && /\s/.test(text[start])) start += 1;
  while (end > start && /\s/.test(text[end - 1])) end -= 1;
  return [start, end];
}

// Make an element. Strings among the children become text, never markup.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}
