// Hyperparameter searches: the score of each trial, the best so far, and how much each field matters.

function trialTraces(search) {
  const of = (state) => search.trials.filter((trial) => trial.state === state && trial.score !== null);
  const dots = (state, name, marker) => ({
    x: of(state).map((trial) => trial.number),
    y: of(state).map((trial) => trial.score),
    name,
    mode: "markers",
    marker: { size: 8, ...marker },
    hovertemplate: "<b>trial %{x}</b>, %{fullData.name}  %{y:,.4g}<extra></extra>",
  });
  const best = {
    x: search.trials.map((trial) => trial.number),
    y: search.best,
    name: "best so far",
    mode: "lines",
    line: { color: css("--soft"), width: 1.5, shape: "hv" },
    hovertemplate: "best so far  %{y:,.4g}<extra></extra>",
  };
  const hollow = { color: css("--accent"), symbol: "circle-open", line: { width: 1.5 } };
  return [best, dots("complete", "complete", { color: css("--accent") }), dots("pruned", "pruned", hollow)];
}

function importanceTrace({ importance }) {
  const shown = [...importance].reverse();
  return {
    type: "bar",
    orientation: "h",
    x: shown.map((row) => row.share),
    y: shown.map((row) => row.field),
    marker: { color: css("--accent") },
    hovertemplate: "<b>%{y}</b>  %{x:.0%}<extra></extra>",
  };
}

// A setting keeps three digits: 0.995 must not become 1.
const setting = (value) => (typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(3))) : exact(value));

function trialTable(search) {
  const own = (trial) => Object.fromEntries(search.fields.map((name) => [`set ${name}`, trial.settings[name]]));
  const rows = search.trials.map((trial) => ({ ...trial, ...own(trial) }));
  const columns = [
    numbers("trial", "number", (row) => whole(row.number)),
    numbers("score", "score"),
    words("state", "state"),
    numbers("steps", "step", (row) => whole(row.step)),
  ];
  const settings = search.fields.map((name) => words(name, `set ${name}`, (row) => setting(row.settings[name])));
  return table([...columns, ...settings], rows, { label: `Trials of ${search.title}` });
}

function searchParts(search) {
  const count = (state) => search.trials.filter((trial) => trial.state === state).length;
  const states = ["complete", "pruned", "failed", "running"].filter(count).map((state) => `${count(state)} ${state}`);
  const seeds = search.seeds > 1 ? `, ${search.seeds} seeds each` : "";
  const made = `${plural(search.trials.length, "trial")} of ${whole(search.steps)} steps${seeds} (${states.join(", ") || "none has started"}), sampler ${search.sampler}, pruner ${search.pruner}`;
  const scores = plot(`Scores of ${search.title}`, () => ({ traces: trialTraces(search), layout: layout("trial", "score") }));
  const axis = { type: "category", gridcolor: "rgba(0,0,0,0)", title: undefined };
  const bars = () => ({ traces: [importanceTrace(search)], layout: layout("share", "", { yaxis: axis, xaxis: { tickformat: ".0%" } }) });
  const charts = [card("Score by trial", "hollow: pruned; line: best so far", scores)];
  if (search.importance.length)
    charts.push(card("Importance of fields", "PED-ANOVA: the better half of the trials against all", plot(`Importance in ${search.title}`, bars, search.importance.length)));
  return el("div", {}, el("h3", {}, search.title), note(`${made}, in ${search.folder}`), cards(...charts), folded("All trials", trialTable(search)));
}

function searches() {
  if (!data.searches.length) return null;
  const text =
    "The score of a trial is the mean of its last three evaluations, averaged over its seeds. The best of many trials is partly lucky: " +
    "train it again with other seeds before you compare it. Importances from few trials are rough.";
  return [note(text), ...data.searches.map(searchParts)];
}
