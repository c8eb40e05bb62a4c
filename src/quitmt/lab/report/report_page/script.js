"use strict";

/* Sorting: a heading becomes a button: up, down, and back to the order of the study. Numbers sort as numbers, and cells
   without one stay last either way. */

function makeSortable(table) {
  const body = table.tBodies[0];
  const original = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const numeric = head.classList.contains("number");
      const next = { ascending: "descending", descending: null }[head.getAttribute("aria-sort")];
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      if (next === null) return body.append(...original);
      const way = next === "descending" ? -1 : 1;
      head.setAttribute("aria-sort", next ?? "ascending");
      const keyed = original.map((row) => [sortKey(row.cells[column], numeric), row]);
      keyed.sort(([a], [b]) => {
        if (a === null || b === null) return (a === null) - (b === null);
        return way * (numeric ? a - b : a.localeCompare(b, undefined, { numeric: true }));
      });
      body.append(...keyed.map(([, row]) => row));
    });
  });
}

function sortKey(cell, numeric) {
  if (!numeric) return cell.textContent;
  return "value" in cell.dataset ? Number(cell.dataset.value) : null;
}

/* Small makers. Text is only ever set as text, so nothing a model wrote can become markup. */

function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// The parser knows SVG's namespace, so the page need not name a URL.
const SVG = new DOMParser().parseFromString("<svg></svg>", "text/html").querySelector("svg").namespaceURI;

function draw(name, attributes = {}, text = "") {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text) node.textContent = text;
  return node;
}
function shown(number, digits = 4) {
  return number === null || number === undefined ? "–" : number.toFixed(digits).replace("-", "−");
}

/* The chart of one reranker's best score. Rules that stop at the same size share one line. */

function chart(track, rules, room) {
  // As wide as there is room, so that its text is as large on a phone as anywhere.
  const width = Math.max(300, Math.min(800, room)), left = 64, right = 16, bottom = 44;
  const bySize = new Map();
  for (const [rule, size] of track.stops) bySize.set(size, [...(bySize.get(size) ?? []), rule + 1]);
  const stops = [...bySize].sort(([a], [b]) => a - b);

  const last = track.sizes.at(-1);
  const x = (size) => left + ((width - left - right) * size) / last;
  // Labels too near to the one before go a row up.
  const rowEnds = [];
  const labels = stops.map(([size, numbers]) => {
    const text = numbers.join(", ");
    const half = text.length * 3.6 + 4;
    const at = Math.min(Math.max(x(size), left + half), width - half);
    let row = rowEnds.findIndex((end) => end < at - half);
    if (row < 0) row = rowEnds.length;
    rowEnds[row] = at + half;
    return { size, text, at, row };
  });
  const top = 14 + 16 * Math.max(1, rowEnds.length);
  const height = top + 210 + bottom;

  const known = track.scores.filter((score) => score !== null);
  let low = Math.min(...known), high = Math.max(...known);
  if (high === low) { low -= 0.5e-3; high += 0.5e-3; }
  const y = (score) => top + ((height - top - bottom) * (high - score)) / (high - low);

  const svg = draw("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img" });
  const said = track.stops.map(([rule, size]) => `${rules[rule]} stops at ${size}`).join(", ");
  svg.setAttribute("aria-label", `The best score by ${track.reranker} over ${last} candidates. ${said}.`);
  for (const score of ticks(low, high, 5)) {
    svg.append(draw("line", { class: "grid", x1: left, x2: width - right, y1: y(score), y2: y(score) }));
    svg.append(draw("text", { x: left - 6, y: y(score) + 4, "text-anchor": "end" }, shown(score, places(low, high))));
  }
  for (const size of ticks(0, last, width / 80)) {
    svg.append(draw("text", { x: x(size), y: height - bottom + 18, "text-anchor": "middle" }, String(size)));
  }
  svg.append(draw("path", { class: "axis", d: `M${left} ${top}V${height - bottom}H${width - right}` }));
  svg.append(draw("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, "candidates"));

  let path = "", before = null;
  track.sizes.forEach((size, i) => {
    if (track.scores[i] === null) return;
    path += before === null ? `M${x(size)} ${y(track.scores[i])}` : `H${x(size)}V${y(track.scores[i])}`;
    before = size;
  });
  svg.append(draw("path", { class: "score", d: path }));

  for (const { size, text, at, row } of labels) {
    const labelY = top - 6 - 16 * row;
    svg.append(draw("line", { class: "stop", x1: x(size), x2: x(size), y1: labelY + 4, y2: height - bottom }));
    const i = track.sizes.findLastIndex((each) => each <= size);
    svg.append(draw("circle", { cx: x(size), cy: y(track.scores[i]), r: 4.5 }));
    svg.append(draw("text", { x: at, y: labelY, "text-anchor": "middle", "font-weight": "bold" }, text));
  }
  return svg;
}

function step(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((each) => each * power >= rough);
}

function ticks(low, high, count) {
  const by = step(low, high, count), found = [];
  for (let i = Math.ceil(low / by - 1e-9); i * by <= high + by * 1e-9; i++) found.push(Number((i * by).toPrecision(12)));
  return found;
}

function places(low, high) {
  return Math.max(0, -Math.floor(Math.log10(step(low, high, 5)) + 1e-9));
}

/* One segment: its texts, then for each reranker the chart, where rules stop, and the candidates. */

function sortableTable(headings, rows) {
  const head = make("tr");
  for (const [text, numeric] of headings) head.append(make("th", { scope: "col", ...(numeric && { class: "number" }) }, text));
  const table = make("table", { class: "sortable" }, make("thead", {}, head), make("tbody", {}, ...rows));
  makeSortable(table);
  return make("div", { class: "scroll" }, table);
}

function numberCell(number, digits) {
  const cell = make("td", { class: "number" }, digits === 0 && number !== null ? String(number) : shown(number, digits));
  if (number !== null && number !== undefined) cell.dataset.value = number;
  return cell;
}

function badges(rules, names) {
  return rules.map((rule) => make("span", { class: "badge", title: names[rule] }, String(rule + 1)));
}

function showSegment(data, segment, target) {
  const texts = make("dl", {}, make("dt", {}, "Source"), make("dd", {}, segment.source));
  for (const reference of segment.references) texts.append(make("dt", {}, "Reference"), make("dd", {}, reference));
  texts.append(make("dt", {}, "Pool"), make("dd", {}, `${segment.drawn} samples, ${segment.distinct} distinct${segment.anchors ? `; ${segment.anchors} anchors` : ""}`));
  const parts = [make("h3", {}, `Segment ${segment.id}`), texts];

  for (const track of segment.tracks) {
    parts.push(make("h3", {}, `Best score by ${track.reranker}`), chart(track, data.rules, target.clientWidth));
    const rows = track.stops.map(([rule, size, candidate]) =>
      make("tr", {},
        make("td", {}, ...badges([rule], data.rules), data.rules[rule]),
        numberCell(size, 0),
        make("td", { class: "said" }, segment.candidates[candidate][0])));
    parts.push(sortableTable([["Rule"], ["Stops at", true], ["Would choose"]], rows));
  }

  const rows = segment.candidates.map(([text, count, first, scores, quality, origin], index) => {
    const chosenBy = segment.tracks.map((track) => track.stops.filter((stop) => stop[2] === index).map((stop) => stop[0]));
    const row = make("tr", { class: chosenBy.some((rules) => rules.length) ? "chosen" : "" },
      make("td", { class: "said" }, text), numberCell(count, 0), numberCell(first, 0));
    if (segment.anchors) row.append(make("td", {}, origin));
    segment.tracks.forEach((track, i) => row.append(numberCell(scores[i], 4), make("td", {}, ...badges(chosenBy[i], data.rules))));
    quality.forEach((score) => row.append(numberCell(score, 2)));
    return row;
  });
  const headings = [["Candidate"], ["Count", true], ["First drawn", true]];
  if (segment.anchors) headings.push(["Anchor"]);
  for (const track of segment.tracks) headings.push([`${track.reranker}, final`, true], [`Chosen by, ${track.reranker}`]);
  for (const metric of data.metrics) headings.push([metric, true]);
  parts.push(make("h3", {}, "Candidates"));
  if (rows.length < segment.distinct) parts.push(make("p", {}, `${rows.length} of ${segment.distinct} distinct samples${segment.anchors ? ", and anchors" : ""}.`));
  parts.push(sortableTable(headings, rows));
  target.replaceChildren(...parts);
}

/* The browser: a list that can be narrowed, and walked with the arrow keys. */

function startBrowser(data) {
  const byId = (id) => document.getElementById(id);
  const list = byId("list"), find = byId("find"), differ = byId("differ"), found = byId("found");
  const entries = data.segments.map((segment) => {
    const button = make("button", { type: "button", title: segment.source }, `${segment.id}. ${segment.source}`);
    const texts = [segment.id, segment.source, ...segment.references, ...segment.candidates.map(([text]) => text)];
    const entry = {
      button,
      item: make("li", {}, button),
      text: texts.join("\n").toLowerCase(),
      differs: segment.tracks.some((track) => new Set(track.stops.map((stop) => stop[2])).size > 1),
    };
    button.addEventListener("click", () => choose(entry, segment));
    return entry;
  });

  function choose(entry, segment) {
    entries.forEach((other) => other.button.removeAttribute("aria-current"));
    entry.button.setAttribute("aria-current", "true");
    showSegment(data, segment, byId("segment"));
  }

  function narrow() {
    const wanted = find.value.trim().toLowerCase();
    const left = entries.filter((entry) => entry.text.includes(wanted) && (!differ.checked || entry.differs));
    list.replaceChildren(...left.map((entry) => entry.item));
    found.textContent = `${left.length} of ${entries.length}`;
  }

  list.addEventListener("keydown", (event) => {
    const way = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const next = way && event.target.closest("li")?.[way]?.firstChild;
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.click();
  });
  byId("filter").addEventListener("submit", (event) => event.preventDefault());
  find.addEventListener("input", narrow);
  differ.addEventListener("change", narrow);
  narrow();
  byId("browser").hidden = false;
  choose(entries[0], data.segments[0]);
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
const data = JSON.parse(document.getElementById("data").textContent);
if (data.segments.length) startBrowser(data);
