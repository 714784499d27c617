// Learning curves of each task, from our runs and from external results, and the buttons above them.

const EXTERNAL_SYMBOLS = { solid: "diamond-open", dash: "square-open", dot: "triangle-up-open", dashdot: "circle-open" };

function externalTrace(other) {
  const few = other.steps.length <= 3;
  const { dash } = looks[other.method];
  return {
    x: other.steps,
    y: other.mean,
    name: other.method,
    meta: other.env,
    visible: !hidden.has(other.method),
    mode: few ? "markers" : "lines",
    marker: { symbol: EXTERNAL_SYMBOLS[dash], size: 9, color: colour(other.method), line: { width: 2 } },
    line: { color: colour(other.method), width: 1.5, dash },
    hovertemplate: "<b>%{fullData.name}</b> (%{meta})  %{y:,.0f}<br>%{x:,}<extra></extra>",
  };
}

function ownTraces(curves) {
  return Object.entries(curves).flatMap(([name, curve]) => {
    const spread = (sign) => shifted(curve.mean, curve.std, sign);
    const [low, high] = band === "interval" ? [curve.low, curve.high] : [spread(-1), spread(1)];
    return lines(name, curve.steps, curve.mean, low, high, { warmUp: curve.warm_up });
  });
}

// Axis ranges that end with our runs, because external results often come from much longer training. If no external result
// lies within the range of our runs, everything is shown.
function ranges(traces, external, last) {
  const end = 1.04 * last;
  if (!external.some((trace) => trace.x.some((step) => step <= end))) return { xaxis: { rangemode: "tozero" } };
  const heights = traces.flatMap((trace) => trace.y.filter((_, index) => trace.x[index] <= end));
  const [low, high] = [Math.min(...heights), Math.max(...heights)];
  const room = 0.06 * (high - low || 1);
  return { xaxis: { range: [0, end] }, yaxis: { range: [low - room, high + room] } };
}

function curveCard(env, quantity) {
  const returns = quantity === "returns";
  const title = returns ? "return" : "estimation error";
  const counts = Object.values(env[quantity]).map((curve) => curve.runs);
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  const runs = fewest === most ? plural(most, "run") : `${fewest} to ${most} runs`;
  const zero = { type: "line", xref: "paper", x0: 0, x1: 1, y0: 0, y1: 0, line: { width: 1, color: "#888888" } };
  const make = () => {
    const external = returns ? env.others.map(externalTrace) : [];
    const traces = [...ownTraces(env[quantity]), ...external];
    const last = Math.max(...Object.values(env[quantity]).map((curve) => curve.steps.at(-1)));
    const shown = ranges(traces, external, last);
    return { traces, layout: layout(env.steps, title, { ...shown, shapes: returns ? [] : [zero] }) };
  };
  return card(env.id, `${runs} per method`, plot(`${title} on ${env.id}`, make));
}

function chip(method) {
  const pressed = { "aria-pressed": "true", "data-method": method.name, onclick: () => toggle(method.name) };
  return el("button", { class: "chip", type: "button", ...pressed }, swatch(method), method.name);
}

const press = (selector, pressed) =>
  document.querySelectorAll(selector).forEach((button) => button.setAttribute("aria-pressed", String(pressed(button.dataset))));

function toggle(name) {
  if (!hidden.delete(name)) hidden.add(name);
  press(".chip", (data) => !hidden.has(data.method));
  redraw();
}

function chooseBand(name) {
  band = name;
  press("[data-band]", (data) => data.band === band);
  redraw();
}

function controls() {
  const names = Object.entries({ interval: "95% interval", deviation: "std over runs" });
  const buttons = names.map(([key, text]) => {
    const pressed = { "data-band": key, "aria-pressed": String(key === band), onclick: () => chooseBand(key) };
    return el("button", { type: "button", ...pressed }, text);
  });
  const choice = el("span", { class: "choice", role: "group", "aria-label": "Band" }, ...buttons);
  return el("div", { class: "bar stuck" }, ...[...data.methods, ...data.otherMethods].map(chip), choice);
}
