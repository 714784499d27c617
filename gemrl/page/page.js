"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const DASHES = { solid: "", dash: "6 3", dot: "2 3", dashdot: "7 3 2 3" };
const looks = Object.fromEntries([...data.methods, ...data.otherMethods].map((method) => [method.name, method]));
const hidden = new Set();
const plots = new Map(); // element -> function that draws it
let band = "interval";

// Elements: el("p", {class: "note"}, "text", child). Text is never read as HTML.
function el(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const whole = (x) => (x === null || x === undefined ? "–" : Math.round(x).toLocaleString("en"));
const number = (x) => {
  if (x === null || x === undefined) return "–";
  const size = Math.abs(x);
  return x.toLocaleString("en", { maximumFractionDigits: size >= 100 ? 0 : size >= 10 ? 1 : 2 });
};
const exact = (value) => {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return Math.abs(value) >= 1000 ? value.toLocaleString("en") : String(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
};
const hours = (x) => (x === null ? "–" : x >= 1 ? `${x.toFixed(1)} h` : `${(60 * x).toFixed(1)} min`);
const span = (low, high) => `[${number(low)}, ${number(high)}]`;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faded = (colour, part) => colour + Math.round(255 * part).toString(16).padStart(2, "0");
const named = (name) => el("span", {}, el("span", { class: "dot", style: `background:${looks[name].colour}` }), name);

// Tables whose columns sort: columns are {title, key, text?, show?}, rows are records; sorting is by row[key].
function table(columns, rows, { open = null, label = "" } = {}) {
  const body = el("tbody");
  const heads = columns.map((column) => {
    const button = el("button", { type: "button", onclick: () => sort(column) }, column.title);
    return el("th", { scope: "col", class: column.text ? "text" : null }, button);
  });
  let order = null;
  function fill(sorted) {
    body.replaceChildren(...sorted.map((row) => {
      const cells = columns.map((column, place) => {
        const shown = column.show ? column.show(row) : column.text ? exact(row[column.key]) : number(row[column.key]);
        const kind = { class: [column.text ? "text" : "", column.best && column.best(row) ? "best" : ""].join(" ").trim() || null };
        return el(place ? "td" : "th", place ? kind : { ...kind, scope: "row" }, ...[shown].flat());
      });
      if (!open) return el("tr", {}, ...cells);
      const go = () => open(row);
      const key = (event) => { if (event.key === "Enter") go(); };
      return el("tr", { class: "open", tabindex: "0", onclick: go, onkeydown: key }, ...cells);
    }));
  }
  function sort(column) {
    const rising = order && order.key === column.key ? !order.rising : Boolean(column.text);
    order = { key: column.key, rising };
    const value = (row) => row[column.key];
    const missing = (row) => value(row) === null || value(row) === undefined;
    fill([...rows].sort((a, b) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b);
      const compared = typeof value(a) === "number" ? value(a) - value(b) : String(value(a)).localeCompare(String(value(b)), "en", { numeric: true });
      return rising ? compared : -compared;
    }));
    heads.forEach((head, place) => {
      if (columns[place] === column) head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
  }
  fill(rows);
  const whole = el("table", { "aria-label": label || null }, el("thead", {}, el("tr", {}, ...heads)), body);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label || null }, whole);
}

// Charts: drawn when they come into view, and drawn again when the theme, the band or the hidden methods change.
function layout(x, y, extra = {}) {
  const axis = { gridcolor: css("--line"), zeroline: false, linecolor: css("--line"), tickfont: { size: 11 }, automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { family: css("--sans"), color: css("--soft"), size: 12 },
    margin: { l: 54, r: 12, t: 8, b: 42 }, showlegend: false, hovermode: "closest", dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") } },
    xaxis: { ...axis, title: { text: x, font: { size: 12 } }, ...extra.xaxis }, yaxis: { ...axis, title: { text: y, font: { size: 12 } }, ...extra.yaxis },
    shapes: extra.shapes || [],
  };
}

function draw(element) {
  const { traces, layout: shape } = plots.get(element)();
  Plotly.react(element, traces, shape, { responsive: true, displaylogo: false, modeBarButtons: [["toImage", "resetScale2d"]] });
  element.dataset.drawn = "yes";
}
const redraw = () => plots.forEach((_, element) => { if (element.dataset.drawn) draw(element); });
const seen = new IntersectionObserver((entries) => entries.forEach((entry) => {
  if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
}), { rootMargin: "300px" });

function plot(label, make) {
  const element = el("div", { class: "plot", role: "img", "aria-label": label });
  plots.set(element, make);
  seen.observe(element);
  return element;
}

function lines(name, x, middle, low, high, digits = ",.1f") {
  const look = looks[name];
  const common = { x, name, legendgroup: name, visible: !hidden.has(name) };
  const edge = { ...common, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
  const line = { ...common, y: middle, mode: x.length > 40 ? "lines" : "lines+markers", line: { color: look.colour, width: 2, dash: look.dash },
    marker: { size: 5, color: look.colour }, hovertemplate: `<b>%{fullData.name}</b>  %{y:${digits}}<br>%{x:,}<extra></extra>` };
  if (!low) return [line];
  return [{ ...edge, y: low }, { ...edge, y: high, fill: "tonexty", fillcolor: faded(look.colour, 0.14) }, line];
}

function curveTraces(env, quantity) {
  const found = Object.entries(env[quantity]).flatMap(([name, curve]) => {
    const spread = (sign) => curve.mean.map((y, place) => y + sign * curve.std[place]);
    const [low, high] = band === "interval" ? [curve.low, curve.high] : [spread(-1), spread(1)];
    return lines(name, curve.steps, curve.mean, low, high);
  });
  if (quantity !== "returns") return found;
  return [...found, ...env.others.map((other) => {
    const few = other.steps.length <= 3, look = looks[other.method];
    const marker = { symbol: "diamond-open", size: 9, color: look.colour, line: { width: 2 } };
    return { x: other.steps, y: other.mean, name: other.method, visible: !hidden.has(other.method), mode: few ? "markers" : "lines", marker,
      line: { color: look.colour, width: 1.5, dash: "dot" }, hovertemplate: `<b>${few ? "◇ " : ""}%{fullData.name}</b> (%{meta})  %{y:,.0f}<br>%{x:,}<extra></extra>`, meta: other.env };
  })];
}

function curveCard(env, quantity) {
  const zero = { type: "line", xref: "paper", x0: 0, x1: 1, y0: 0, y1: 0, line: { width: 1, color: "#888888" } };
  const counts = Object.values(env[quantity]).map((curve) => curve.runs);
  const runs = Math.min(...counts) === Math.max(...counts) ? counts[0] : `${Math.min(...counts)} to ${Math.max(...counts)}`;
  const title = quantity === "returns" ? "return" : "estimation error";
  const make = () => ({ traces: curveTraces(env, quantity), layout: layout("environment steps", title, { xaxis: { rangemode: "tozero" }, shapes: quantity === "returns" ? [] : [zero] }) });
  return el("div", { class: "card" }, el("h3", {}, env.id), el("p", { class: "under" }, `${runs} run${runs === 1 ? "" : "s"} a method`), plot(`${title} on ${env.id}`, make));
}

function chip(method) {
  const line = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  line.setAttribute("viewBox", "0 0 26 8");
  line.innerHTML = `<line x1="0" y1="4" x2="26" y2="4" stroke-width="3"></line>`;
  line.firstChild.setAttribute("stroke", method.colour);
  line.firstChild.setAttribute("stroke-dasharray", DASHES[method.dash]);
  return el("button", { class: "chip", type: "button", "aria-pressed": String(!hidden.has(method.name)), "data-method": method.name, onclick: () => toggle(method.name) }, line, method.name);
}

function toggle(name) {
  if (!hidden.delete(name)) hidden.add(name);
  document.querySelectorAll(".chip").forEach((button) => button.setAttribute("aria-pressed", String(!hidden.has(button.dataset.method))));
  redraw();
}

function controls(withOthers) {
  const choice = el("span", { class: "choice", role: "group", "aria-label": "Band" });
  const names = { interval: "95% interval", deviation: "std of runs" };
  const buttons = Object.entries(names).map(([key, text]) => el("button", { type: "button", "data-band": key, "aria-pressed": String(key === band), onclick: () => {
    band = key;
    document.querySelectorAll("[data-band]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.band === band)));
    redraw();
  } }, text));
  choice.append(...buttons);
  return el("div", { class: "bar stuck" }, ...data.methods.map(chip), ...(withOthers ? data.otherMethods.map(chip) : []), choice);
}

const cards = (...inside) => el("div", { class: inside.length > 1 ? "cards many" : "cards" }, ...inside);
const note = (text) => el("p", { class: "note" }, text);

const sections = {
  scores: ["Scores", () => {
    const rows = data.methods.map(({ name }) => {
      const row = { method: name };
      data.scores.filter((score) => score.method === name).forEach((score) => { row[score.env] = score.mean; row[`${score.env}/all`] = score; });
      const over = (data.overall.rows || []).find((found) => found.method === name);
      return { ...row, overall: over ? over.iqm : null, over };
    });
    const best = (key) => { const top = Math.max(...rows.map((row) => row[key] ?? -Infinity)); return (row) => rows.length > 1 && row[key] === top; };
    const columns = [{ title: "method", key: "method", text: true, show: (row) => named(row.method) }];
    for (const env of data.envs) columns.push({ title: env.id, key: env.id, best: best(env.id), show: (row) => {
      const score = row[`${env.id}/all`];
      return score ? [`${number(score.mean)} ± ${number(score.std)}`, el("small", {}, span(score.low, score.high))] : "–";
    } });
    if (data.envs.length > 1) columns.push({ title: "all tasks, normalised IQM", key: "overall", best: best("overall"), show: (row) => row.over ? [number(row.overall), el("small", {}, span(row.over.low, row.over.high))] : "–" });
    const long = [{ title: "method", key: "method", text: true, show: (row) => named(row.method) }, { title: "task", key: "env", text: true }, { title: "runs", key: "runs" }, { title: "at step", key: "step", show: (row) => whole(row.step) },
      { title: "mean", key: "mean" }, { title: "std", key: "std" }, { title: "95% low", key: "low" }, { title: "95% high", key: "high" }, { title: "IQM", key: "iqm" }, { title: "area under curve", key: "area" }, { title: "normalised", key: "normalised" }, { title: "estimation error", key: "error" }];
    return [
      note("Mean ± standard deviation of runs, as the paper reports, and the bootstrap 95% interval of the mean. A run's score is the mean return of its evaluations in the last tenth of training. With fewer than five runs such intervals are too narrow to lean on."),
      table(columns, rows, { label: "Scores" }),
      el("details", {}, el("summary", {}, "Every number"), table(long, data.scores, { label: "Every score" }),
        note("Area under curve: the mean return over training. Normalised: 0 and 1 are, by task:"),
        el("ul", { class: "note" }, ...data.envs.map((env) => el("li", {}, `${env.id}: ${number(env.scale.low)} and ${number(env.scale.high)}. ${env.scale.source}.`)))),
    ];
  }],
  curves: ["Learning curves", () => [note("Mean over runs by environment steps. A method's name hides or shows it everywhere; drag over a chart to zoom, double-click to go back."), controls(true), cards(...data.envs.map((env) => curveCard(env, "returns")))]],
  overall: ["Over all tasks", () => {
    const { rows = [], methods } = data.overall;
    if (methods.length < 2) return null;
    const reference = data.overall.reference;
    const bars = (key, low, high, chosen, x, extra) => () => {
      const shown = chosen.filter((row) => !hidden.has(row.method)).reverse();
      const error = { type: "data", symmetric: false, array: shown.map((row) => row[high] - row[key]), arrayminus: shown.map((row) => row[key] - row[low]), thickness: 3, width: 0 };
      const traces = shown.map((row, place) => ({ x: [row[key]], y: [row.method], mode: "markers", marker: { size: 11, color: looks[row.method].colour }, name: row.method,
        error_x: { ...error, array: [error.array[place]], arrayminus: [error.arrayminus[place]], color: looks[row.method].colour }, hovertemplate: "<b>%{y}</b>  %{x:.3f}<extra></extra>" }));
      return { traces, layout: layout(x, "", { yaxis: { type: "category", gridcolor: "rgba(0,0,0,0)", title: undefined }, ...extra }) };
    };
    const half = { shapes: [{ type: "line", yref: "paper", y0: 0, y1: 1, x0: 0.5, x1: 0.5, line: { width: 1, color: "#888888", dash: "dot" } }], xaxis: { range: [-0.02, 1.02] } };
    const profile = () => ({ traces: methods.flatMap((name) => { const it = data.overall.profile[name]; return lines(name, data.overall.thresholds, it.value, it.low, it.high, ".2f"); }), layout: layout("normalised score", "part of runs above it", { yaxis: { range: [-0.02, 1.02] } }) });
    const early = () => ({ traces: methods.flatMap((name) => { const it = data.overall.efficiency[name]; return lines(name, data.overall.parts, it.value, it.low, it.high, ".3f"); }), layout: layout("part of training", "normalised IQM", { xaxis: { tickformat: ".0%" } }) });
    const card = (title, under, label, make) => el("div", { class: "card" }, el("h3", {}, title), el("p", { class: "under" }, under), plot(label, make));
    const absent = data.methods.filter((method) => !methods.includes(method.name)).map((method) => method.name);
    return [
      note(`Normalised scores of all runs on ${data.envs.length === 1 ? "the one task" : `all ${data.envs.length} tasks`}, with stratified bootstrap 95% intervals.${absent.length ? ` Not here, for want of runs on some task: ${absent.join(", ")}.` : ""}`),
      cards(
        card("Interquartile mean", "the mean of the middle half of all runs", "Interquartile mean", bars("iqm", "low", "high", rows, "normalised score", {})),
        card(`Is ${reference} better?`, `probability that a run of ${reference} beats one of the other on the same task`, "Probability of improvement", bars("improvement", "improvement_low", "improvement_high", rows.filter((row) => row.method !== reference), `P(${reference} > other)`, half)),
        card("Sample efficiency", "interquartile mean as training goes on", "Sample efficiency", early),
        card("Performance profile", "how many runs reach each score", "Performance profile", profile)),
    ];
  }],
  others: ["Beside other people's results", () => {
    const rows = data.envs.flatMap((env) => env.others.flatMap((other) => other.steps.flatMap((step, place) => Object.entries(env.returns).map(([name, curve]) => {
      const at = curve.steps.findIndex((found) => found >= step);
      if (at < 0 || (at === 0 && curve.steps[0] > step)) return null;
      const part = at && curve.steps[at] > step ? (step - curve.steps[at - 1]) / (curve.steps[at] - curve.steps[at - 1]) : 1;
      const ours = at ? curve.mean[at - 1] + part * (curve.mean[at] - curve.mean[at - 1]) : curve.mean[0];
      return { method: other.method, their: other.env, step, theirs: other.mean[place], name, env: env.id, ours, source: other.source };
    }).filter(Boolean))));
    if (!data.otherMethods.length) return null;
    return [note("From files of other people's numbers. Versions of environments differ, and so do evaluations: compare with care. Their curves and marks are in the charts above."),
      rows.length ? table([{ title: "theirs", key: "method", text: true, show: (row) => named(row.method) }, { title: "their task", key: "their", text: true }, { title: "step", key: "step", show: (row) => whole(row.step) }, { title: "their return", key: "theirs" },
        { title: "our return", key: "ours" }, { title: "ours", key: "name", text: true, show: (row) => named(row.name) }, { title: "our task", key: "env", text: true }, { title: "source", key: "source", text: true }], rows, { label: "Beside other people's results" })
        : note("None of their steps lies within our runs, so there is no table.")];
  }],
  errors: ["Estimation error", () => [note(`How far the critics are from the returns that the policy really gets: Q(s, a) minus the discounted return that followed, mean over the steps of evaluation episodes. Above zero is overestimation.${data.methods.some((method) => method.name === "sac") ? " The values of sac have entropy in them." : ""}`), cards(...data.envs.map((env) => curveCard(env, "errors")))]],
  recipes: ["What each recipe differs in", () => data.recipes.map((recipe) => {
    const fields = recipe.fields || [];
    const rows = fields.map(([field, theirs, own]) => ({ field, theirs, own }));
    const inside = table([{ title: "field", key: "field", text: true, show: (row) => el("code", {}, row.field) }, { title: recipe.reference, key: "theirs", text: true, show: (row) => el("code", {}, exact(row.theirs)) }, { title: recipe.method, key: "own", text: true, show: (row) => el("code", {}, exact(row.own)) }], rows, { label: `${recipe.method} beside ${recipe.reference}` });
    const told = recipe.method === recipe.reference ? "what the others are compared with" : rows.length ? `${rows.length} field${rows.length > 1 ? "s" : ""} differ${rows.length > 1 ? "" : "s"} from ${recipe.reference} on ${recipe.env}` : `no field differs from ${recipe.reference}`;
    const tasks = recipe.by_task.map(([field, values]) => note(`${field} depends on the task: ${Object.entries(values).map(([env, value]) => `${exact(value)} on ${env}`).join("; ")}`));
    return el("div", {}, el("h3", {}, named(recipe.method)), note(`${recipe.summary ? `${recipe.summary}; ` : ""}${told}`), ...(rows.length > 6 ? [el("details", {}, el("summary", {}, "Show them"), inside)] : rows.length ? [inside] : []), ...tasks);
  })],
  cost: ["Cost", () => data.cost.length ? [note("Wall-clock time of training with its evaluations, as each run measured it."), table([{ title: "method", key: "method", text: true, show: (row) => named(row.method) }, { title: "task", key: "env", text: true }, { title: "runs", key: "runs" }, { title: "time in all", key: "hours", show: (row) => hours(row.hours) }, { title: "time a run", key: "minutes_each", show: (row) => hours(row.minutes_each / 60) }, { title: "steps / s", key: "speed" }], data.cost, { label: "Cost" })] : null],
  runs: ["Every run", () => [note("A row opens the run: its own curve, settings and versions."), table([{ title: "method", key: "method", text: true, show: (row) => named(row.method) }, { title: "task", key: "env", text: true }, { title: "seed", key: "seed" }, { title: "steps", key: "lastStep", show: (row) => whole(row.lastStep) + (row.finished ? "" : ` of ${whole(row.facts.steps)}`) }, { title: "score", key: "score" }, { title: "time", key: "hours", show: (row) => hours(row.hours) }, { title: "steps / s", key: "speed" }, { title: "folder", key: "place", text: true, show: (row) => el("code", {}, row.place) }], data.runs, { open: (run) => { location.hash = `run-${data.runs.indexOf(run)}`; }, label: "Every run" })]],
  missing: ["Left out", () => data.leftOut.length + data.notes.length ? [el("ul", {}, ...[...data.leftOut, ...data.notes].map((line) => el("li", {}, line)))] : null],
};

function pairs(title, values) {
  const rows = Object.entries(values).map(([name, value]) => ({ name, value }));
  if (!rows.length) return null;
  return el("div", {}, el("h3", {}, title), table([{ title: "name", key: "name", text: true, show: (row) => el("code", {}, row.name) }, { title: "value", key: "value", text: true, show: (row) => el("code", {}, exact(row.value)) }], rows, { label: title }));
}

const dialog = document.getElementById("run");
function openRun(run) {
  const curve = run.evaluations;
  const own = (key, title, spread) => plot(`${title} of this run`, () => {
    const edge = (sign) => spread && curve[key].map((y, place) => y + sign * curve[spread][place]);
    const traces = lines(run.method, curve.step, curve[key], edge(-1), edge(1)).map((trace) => ({ ...trace, visible: true }));
    return { traces, layout: layout("environment steps", title, { xaxis: { rangemode: "tozero" } }) };
  });
  const facts = { score: number(run.score), steps: whole(run.lastStep) + (run.finished ? "" : ", not finished"), time: hours(run.hours), "steps / s": number(run.speed), folder: run.place };
  const films = run.films.map((film) => film.kind.startsWith("image") ? el("img", { src: `data:${film.kind};base64,${film.data}`, alt: film.name }) : el("video", { src: `data:${film.kind};base64,${film.data}`, controls: "", loop: "", muted: "", playsinline: "" }));
  const close = el("button", { type: "button", "aria-label": "Close", onclick: () => dialog.close() }, "Close");
  plots.forEach((_, element) => { if (dialog.contains(element)) { seen.unobserve(element); plots.delete(element); Plotly.purge(element); } });
  dialog.replaceChildren(
    el("header", {}, el("h2", { id: "run-title" }, `${run.method} on ${run.env}, seed ${run.seed}`), close),
    el("dl", { class: "facts" }, ...Object.entries(facts).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", { class: name === "folder" ? "mono" : null }, value)))),
    ...films,
    el("div", { class: "card" }, el("h3", {}, "Return"), el("p", { class: "under" }, "mean ± std of the episodes of each evaluation"), own("return_mean", "return", "return_std")),
    el("div", { class: "card", style: "margin:1rem 0" }, el("h3", {}, "Estimation error"), own("estimation_error", "estimation error", null)),
    ...[pairs("Recipe", run.recipe), pairs("Run", run.facts), pairs("Versions", run.versions)].filter(Boolean));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}
dialog.addEventListener("close", () => { if (location.hash.startsWith("#run-")) history.replaceState(null, "", "#runs"); });
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
function follow() {
  const found = /^#run-(\d+)$/.exec(location.hash);
  if (found && data.runs[Number(found[1])]) openRun(data.runs[Number(found[1])]);
  else if (dialog.open) dialog.close();
}
addEventListener("hashchange", follow);

// The theme: what the system prefers until the switch is used; then what was chosen, where the browser can remember it.
const remembered = { get: () => { try { return localStorage.getItem("gemrl-theme"); } catch { return null; } }, set: (name) => { try { localStorage.setItem("gemrl-theme", name); } catch { /* not remembered */ } } };
const preferred = matchMedia("(prefers-color-scheme: dark)");
function dress(name) {
  document.documentElement.dataset.theme = name;
  document.querySelector("#theme .word").textContent = name === "dark" ? "Light" : "Dark";
  redraw();
}
document.getElementById("theme").addEventListener("click", () => {
  const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  remembered.set(name);
  dress(name);
});
preferred.addEventListener("change", () => { if (!remembered.get()) dress(preferred.matches ? "dark" : "light"); });
dress(remembered.get() || (preferred.matches ? "dark" : "light"));

const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const unfinished = data.runs.filter((run) => !run.finished).length;
const spent = data.runs.reduce((sum, run) => sum + (run.hours || 0), 0);
document.getElementById("lead").textContent = `${plural(data.runs.length, "run")} of ${plural(data.methods.length, "method")} on ${plural(data.envs.length, "task")}${spent ? `, ${hours(spent)} of computing` : ""}.${unfinished ? ` ${plural(unfinished, "run")} not finished: left out of scores where others are.` : ""}`;
document.getElementById("footer").textContent = `Written by gemrl ${data.version}. Everything is in this one file; it asks nothing of the network.`;
const links = new Map();
for (const [id, [title, make]] of Object.entries(sections)) {
  const made = make();
  if (!made) continue;
  const section = el("section", { id }, el("h2", {}, title), ...made);
  document.getElementById("sections").append(section);
  const link = el("a", { href: `#${id}` }, title);
  document.querySelector("nav ol").append(el("li", {}, link));
  links.set(section, link);
}
const spy = new IntersectionObserver((entries) => entries.forEach((entry) => {
  if (entry.isIntersecting) links.forEach((link, section) => link.classList.toggle("here", section === entry.target));
}), { rootMargin: "-20% 0px -70% 0px" });
links.forEach((_, section) => spy.observe(section));
follow();
