// The page: asks /api/translate for a stream and draws every moment. Texts are only ever set as text, never as markup.
"use strict";

const REASONS = {
  stable: "the best score stopped moving",
  decided: "no more than allowed can be lost by stopping",
  budget: "all candidates were used",
  exhausted: "there were no more candidates",
  deadline: "time was up: the best until then",
};
// From cheap to careful. The middle is what the server's recipe says.
const CARES = [
  { max_loss: 0.02, told: "cheapest" },
  { max_loss: 0.005, told: "cheap" },
  { max_loss: 0.002, told: "a little cheaper" },
  { told: "as the server is set" },
  { max_loss: 0.0005, told: "a little more careful" },
  { max_loss: 0.0002, told: "careful" },
  { max_loss: 0.0001, told: "most careful" },
];
const AUTO = "auto";
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

let pairs = [];
let running = null; // the AbortController of the translation under way
let cards = new Map(); // "text:sentence" → what is drawn of it

function made(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function headers() {
  const found = { "Content-Type": "application/json" };
  const key = byId("key").value.trim();
  if (key) found.Authorization = `Bearer ${key}`;
  return found;
}

function fail(message) {
  byId("error").textContent = message;
  byId("error").hidden = !message;
}

function options(select, entries, chosen) {
  select.replaceChildren(...entries.map(([value, name]) => {
    const option = made("option", "", name);
    option.value = value;
    option.selected = value === chosen;
    return option;
  }));
}

function showTargets() {
  const source = byId("source").value;
  const able = pairs.filter((pair) => source === AUTO || pair.source === source);
  const names = new Map(able.map((pair) => [pair.target, pair.target_name]));
  options(byId("target"), [...names], byId("target").value);
}

async function begin() {
  const answer = await fetch("api/languages", { headers: headers() }).catch(() => null);
  if (!answer) return fail("The server does not answer.");
  if (answer.status === 401) {
    byId("key-row").hidden = false;
    return fail("This server needs a key.");
  }
  if (!answer.ok) return fail(await reason(answer));
  const told = await answer.json();
  fail("");
  pairs = told.pairs;
  const names = new Map(pairs.map((pair) => [pair.source, pair.source_name]));
  options(byId("source"), [[AUTO, "Find out"], ...names], pairs.length === 1 ? pairs[0].source : AUTO);
  showTargets();
  const deadline = told.limits.deadline;
  byId("deadline").value = deadline ?? "";
  if (deadline !== null) byId("deadline").max = deadline;
  byId("nbest").max = told.limits.nbest;
  byId("text").maxLength = told.limits.text_characters;
}

async function reason(answer) {
  try {
    const told = (await answer.json()).error;
    const again = answer.headers.get("Retry-After");
    return told.message[0].toUpperCase() + told.message.slice(1) + (again ? ` (in ${again} s).` : ".");
  } catch {
    return `The server answered ${answer.status}.`;
  }
}

function request() {
  const asked = {
    text: byId("text").value,
    source: byId("source").value || AUTO,
    target: byId("target").value,
    nbest: Number(byId("nbest").value) || 1,
    stream: true,
  };
  const care = CARES[Number(byId("care").value)];
  if (care.max_loss) asked.max_loss = care.max_loss;
  if (byId("deadline").value) asked.deadline = Number(byId("deadline").value);
  return asked;
}

// Server-sent events of an answer to a POST, which EventSource cannot make.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    waiting += value;
    const parts = waiting.split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part);
      const data = /^data: (.*)$/m.exec(part);
      if (name && data) yield [name[1], JSON.parse(data[1])];
    }
  }
}

async function translate() {
  if (!byId("text").value.trim()) return byId("text").focus();
  if (running) running.abort();
  const own = (running = new AbortController());
  fail("");
  busy(true);
  try {
    const answer = await fetch("api/translate", {
      method: "POST", headers: headers(), body: JSON.stringify(request()), signal: own.signal,
    });
    if (answer.status === 401) byId("key-row").hidden = false;
    if (!answer.ok) return fail(await reason(answer));
    for await (const [name, data] of events(answer.body)) {
      if (own.signal.aborted) return;
      if (name === "begin") prepare(data.texts[0]);
      else if (name === "moment") step(data);
      else if (name === "done") finish(data.translation);
      else if (name === "error") fail(data.error.message);
    }
  } catch (error) {
    if (error.name !== "AbortError") fail("The connection broke off.");
  } finally {
    if (running === own) {
      running = null;
      busy(false);
    }
  }
}

function busy(is) {
  document.body.classList.toggle("busy", is);
  byId("stop").disabled = !is;
  byId("result").setAttribute("aria-busy", String(is));
}

function prepare(text) {
  cards = new Map();
  byId("translation").textContent = "";
  byId("summary").textContent = "";
  byId("alternatives").hidden = true;
  byId("result").hidden = false;
  byId("sentences").replaceChildren(...text.sentences.map((sentence) => {
    const item = made("li");
    const card = {
      budget: text.budget, points: [], text: "",
      best: made("div", "best"), chart: drawing(), told: made("div", "told"), arriving: made("div", "arriving"),
      used: made("div", "used"), bar: made("div"), why: made("span", "why"), size: made("span", "size"), score: made("span", "score"),
    };
    card.used.append(card.bar);
    card.told.append(card.size, card.score, card.why);
    item.append(made("div", "from", sentence.source), card.best, card.chart.svg, card.used, card.told, card.arriving);
    card.item = item;
    cards.set(sentence.id, card);
    return item;
  }));
}

function drawing() {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "chart");
  svg.setAttribute("viewBox", "0 0 100 40");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const [unused, line, end] = ["rect", "path", "path"].map((name) => document.createElementNS(SVG, name));
  unused.setAttribute("class", "unused");
  unused.setAttribute("height", "40");
  end.setAttribute("class", "end");
  svg.append(unused, line, end);
  return { svg, unused, line, end };
}

// The best score after each step. Most sentences stop early, so the axis is as long as what was used, with some room
// (shaded); the bar below it has the whole budget.
function draw(card, stopped) {
  const { svg, unused, line, end } = card.chart;
  const last = card.points[card.points.length - 1];
  const width = Math.min(card.budget, Math.max(last.size * 1.5, 16));
  const scores = card.points.map((point) => point.score);
  const low = Math.min(...scores), high = Math.max(...scores), span = high - low || 1;
  const x = (size) => (100 * size) / width;
  const y = (score) => 36 - (32 * (score - low)) / span;
  line.setAttribute("d", card.points.map((point, i) => `${i ? "L" : "M"}${x(point.size)} ${y(point.score)}`).join(""));
  card.bar.style.width = `${(100 * last.size) / card.budget}%`;
  unused.setAttribute("x", String(x(last.size)));
  unused.setAttribute("width", String(Math.max(0, 100 - x(last.size))));
  end.setAttribute("d", stopped ? `M${x(last.size)} 0V40` : "");
  svg.setAttribute("aria-label", `Best score: ${scores[0].toFixed(4)} at first, ${last.score.toFixed(4)} after ${last.size} candidates`);
}

function step(data) {
  const card = cards.get(data.sentence);
  if (!card) return;
  card.points.push({ size: data.size, score: data.score });
  card.text = data.translation;
  card.best.textContent = data.translation;
  card.size.textContent = `${data.size} of ${card.budget} candidates`;
  card.score.textContent = `score ${data.score.toFixed(4)}`;
  card.arriving.textContent = data.new.length ? `arriving: ${data.new[data.new.length - 1]}` : "";
  if (data.stop_reason) card.why.textContent = `stopped: ${REASONS[data.stop_reason] ?? data.stop_reason}`;
  draw(card, Boolean(data.stop_reason));
  // What is known so far, until the whole text is there.
  byId("translation").textContent = [...cards.values()].map((one) => one.text).filter(Boolean).join(" ");
}

function finish(done) {
  byId("translation").textContent = done.text;
  for (const sentence of done.sentences) {
    const card = cards.get(sentence.id);
    if (!card) continue;
    card.best.textContent = sentence.translation;
    card.arriving.remove();
    card.size.textContent = `${sentence.size} of ${sentence.budget} candidates`;
    const origin = sentence.origin ? ` · the ${sentence.origin} translation won` : "";
    card.why.textContent = `stopped: ${REASONS[sentence.stop] ?? sentence.stop}${origin}`;
    if (card.points.length) draw(card, true);
    if (sentence.nbest.length > 1 && done.sentences.length > 1) card.item.append(listed(sentence.nbest));
  }
  summarize(done);
  byId("nbest-list").replaceChildren(...done.nbest.map(scored));
  byId("alternatives").hidden = done.nbest.length < 2;
}

function summarize(done) {
  const saved = done.budget ? Math.round(100 * (1 - done.candidates / done.budget)) : 0;
  const source = pairs.find((pair) => pair.source === done.source);
  const parts = done.confidence === null ? [] : [`${source ? source.source_name : done.source}, it seems. `];
  parts.push(`${done.candidates} of ${done.budget} candidates: `, made("strong", "", `${saved} % saved`), ".");
  byId("summary").replaceChildren(...parts);
}

function scored(one) {
  const item = made("li");
  item.append(made("span", "score", one.score.toFixed(4)), made("span", "", one.text));
  return item;
}

function listed(nbest) {
  const details = made("details");
  const list = made("ol");
  list.append(...nbest.map((one) => made("li", "", `${one.score.toFixed(4)}  ${one.text}`)));
  details.append(made("summary", "", "the best of it"), list);
  return details;
}

function showCare() {
  const told = CARES[Number(byId("care").value)].told;
  byId("care-shown").textContent = told;
  byId("care").setAttribute("aria-valuetext", told);
}

function stop() {
  if (running) running.abort();
}

function swap() {
  const [source, target] = [byId("source").value, byId("target").value];
  if (![...byId("source").options].some((option) => option.value === target)) return;
  byId("source").value = target;
  showTargets();
  if (source !== AUTO) byId("target").value = source;
  if (byId("translation").textContent && !running) byId("text").value = byId("translation").textContent;
}

async function copy() {
  await navigator.clipboard.writeText(byId("translation").textContent).catch(() => null);
  byId("copy").textContent = "Copied";
  setTimeout(() => { byId("copy").textContent = "Copy"; }, 1500);
}

byId("form").addEventListener("submit", (event) => { event.preventDefault(); translate(); });
byId("source").addEventListener("change", showTargets);
byId("care").addEventListener("input", showCare);
byId("stop").addEventListener("click", stop);
byId("swap").addEventListener("click", swap);
byId("copy").addEventListener("click", copy);
byId("key-row").addEventListener("submit", (event) => { event.preventDefault(); begin(); });
byId("key").addEventListener("change", begin);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); translate(); }
  if (event.key === "Escape") stop();
});
showCare();
begin();
