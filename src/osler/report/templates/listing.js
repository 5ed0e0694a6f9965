for (const listing of document.querySelectorAll(".listing")) {
  const size = Number(listing.dataset.size);
  const items = [...listing.querySelectorAll(".listed")];
  const tags = items.map(item => JSON.parse(item.dataset.tags));
  const selects = [...listing.querySelectorAll("select")];
  const pagers = [...listing.querySelectorAll(".pager")];
  let page = 0;

  // A document matches if one of its errors has every value that was chosen.
  function matching() {
    const wanted = selects.map(select => select.value);
    const fits = tag => wanted.every((value, filter) => !value || tag[filter].includes(value));
    return items.filter((_, number) => wanted.every(value => !value) || tags[number].some(fits));
  }

  function show() {
    const found = matching();
    const last = Math.max(0, Math.ceil(found.length / size) - 1);
    page = Math.min(Math.max(page, 0), last);
    const shown = new Set(found.slice(page * size, (page + 1) * size));
    for (const item of items) item.hidden = !shown.has(item);
    const from = (page * size + 1).toLocaleString("en"), to = Math.min((page + 1) * size, found.length).toLocaleString("en");
    for (const pager of pagers) {
      pager.hidden = items.length <= size && selects.every(select => !select.value);
      pager.querySelector("span").textContent = found.length ? `${from} to ${to} of ${found.length.toLocaleString("en")}` : "No document matches";
      pager.querySelector("[data-step='-1']").disabled = page === 0;
      pager.querySelector("[data-step='1']").disabled = page === last;
    }
  }

  // Show the document that a link leads to, on whatever page it is.
  function follow(hash) {
    const target = hash.length > 1 && document.getElementById(decodeURIComponent(hash.slice(1)));
    const item = target && target.closest(".listed");
    if (!item || !listing.contains(item)) return;
    if (!matching().includes(item)) for (const select of selects) select.value = "";
    page = Math.floor(matching().indexOf(item) / size);
    show();
    target.scrollIntoView();
  }

  for (const box of listing.querySelectorAll(".filters")) box.hidden = !selects.length;
  for (const select of selects) select.addEventListener("change", () => { page = 0; show(); });
  for (const pager of pagers) pager.addEventListener("click", event => {
    if (!event.target.dataset.step) return;
    page += Number(event.target.dataset.step);
    show();
    listing.scrollIntoView();
  });
  document.addEventListener("click", event => {
    const link = event.target.closest("a[href^='#']");
    if (link) follow(link.getAttribute("href"));
  });
  addEventListener("hashchange", () => follow(location.hash));
  show();
  follow(location.hash);
}
