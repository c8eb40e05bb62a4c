// Streams translations from /api/translate and draws every step. Texts are always set as text, never as markup.
"use strict";

const REASONS = {
  stable: "the best score stopped moving",
  decided: "more candidates are unlikely to improve it enough",
  budget: "all candidates were used",
  exhausted: "there are no more candidates",
  deadline: "the time was up",
};
// From fast to thorough. The middle is the server's own setting.
const EFFORTS = [
  { max_loss: 0.02, label: "fastest" },
  { max_loss: 0.005, label: "faster" },
  { max_loss: 0.002, label: "a little faster" },
  { label: "the server's setting" },
  { max_loss: 0.0005, label: "a little more thorough" },
  { max_loss: 0.0002, label: "more thorough" },
  { max_loss: 0.0001, label: "most thorough" },
];
const AUTO = "auto";
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

let pairs = [];
let running = null; // the AbortController of the current translation
let cards = new Map(); // "text:sentence" → its drawing

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
  if (!answer) return fail("The server doesn't respond.");
  if (answer.status === 401) {
    byId("key-row").hidden = false;
    return fail("This server requires a key.");
  }
  if (!answer.ok) return fail(await reason(answer));
  const served = await answer.json();
  fail("");
  pairs = served.pairs;
  const names = new Map(pairs.map((pair) => [pair.source, pair.source_name]));
  options(byId("source"), [[AUTO, "Detect language"], ...names], pairs.length === 1 ? pairs[0].source : AUTO);
  showTargets();
  const deadline = served.limits.deadline;
  byId("deadline").value = deadline ?? "";
  if (deadline !== null) byId("deadline").max = deadline;
  byId("nbest").max = served.limits.nbest;
  byId("text").maxLength = served.limits.text_characters;
}

async function reason(answer) {
  try {
    const error = (await answer.json()).error;
    const again = answer.headers.get("Retry-After");
    return error.message[0].toUpperCase() + error.message.slice(1) + (again ? ` (in ${again} s).` : ".");
  } catch {
    return `The server responded with status ${answer.status}.`;
  }
}

function request() {
  const body = {
    text: byId("text").value,
    source: byId("source").value || AUTO,
    target: byId("target").value,
    nbest: Number(byId("nbest").value) || 1,
    stream: true,
  };
  const effort = EFFORTS[Number(byId("effort").value)];
  if (effort.max_loss) body.max_loss = effort.max_loss;
  if (byId("deadline").value) body.deadline = Number(byId("deadline").value);
  return body;
}

// Reads server-sent events from the response to a POST request, which EventSource cannot send.
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
  const controller = (running = new AbortController());
  fail("");
  busy(true);
  try {
    const answer = await fetch("api/translate", {
      method: "POST", headers: headers(), body: JSON.stringify(request()), signal: controller.signal,
    });
    if (answer.status === 401) byId("key-row").hidden = false;
    if (!answer.ok) return fail(await reason(answer));
    for await (const [name, data] of events(answer.body)) {
      if (controller.signal.aborted) return;
      if (name === "begin") prepare(data.texts[0]);
      else if (name === "moment") step(data);
      else if (name === "done") finish(data.translation);
      else if (name === "error") fail(data.error.message);
    }
  } catch (error) {
    if (error.name !== "AbortError") fail("The connection was lost.");
  } finally {
    if (running === controller) {
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
      best: made("div", "best"), chart: drawing(), status: made("div", "status"), arriving: made("div", "arriving"),
      used: made("div", "used"), bar: made("div"), why: made("span", "why"), size: made("span", "size"), score: made("span", "score"),
    };
    card.used.append(card.bar);
    card.status.append(card.size, card.score, card.why);
    item.append(made("div", "from", sentence.source), card.best, card.chart.svg, card.used, card.status, card.arriving);
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

// Draws the best score after each step. Most sentences stop early, so the axis only covers the used candidates plus some
// shaded room. The bar below shows the whole budget.
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
  card.arriving.textContent = data.new.length ? `latest: ${data.new[data.new.length - 1]}` : "";
  if (data.stop_reason) card.why.textContent = `stopped: ${REASONS[data.stop_reason] ?? data.stop_reason}`;
  draw(card, Boolean(data.stop_reason));
  // The translation so far.
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
    if (sentence.nbest?.length > 1 && done.sentences.length > 1) card.item.append(listed(sentence.nbest));
  }
  summarize(done);
  byId("nbest-list").replaceChildren(...done.nbest.map(scored));
  byId("alternatives").hidden = done.nbest.length < 2;
}

function summarize(done) {
  const saved = done.budget ? Math.round(100 * (1 - done.candidates / done.budget)) : 0;
  const source = pairs.find((pair) => pair.source === done.source);
  const parts = done.confidence === null ? [] : [`Detected: ${source ? source.source_name : done.source}. `];
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
  details.append(made("summary", "", "best translations"), list);
  return details;
}

function showEffort() {
  const label = EFFORTS[Number(byId("effort").value)].label;
  byId("effort-shown").textContent = label;
  byId("effort").setAttribute("aria-valuetext", label);
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
byId("effort").addEventListener("input", showEffort);
byId("stop").addEventListener("click", stop);
byId("swap").addEventListener("click", swap);
byId("copy").addEventListener("click", copy);
byId("key-row").addEventListener("submit", (event) => { event.preventDefault(); begin(); });
byId("key").addEventListener("change", begin);
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); translate(); }
  if (event.key === "Escape") stop();
});
showEffort();
begin();
