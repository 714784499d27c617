// Each section is a title and a function that gives its elements, or null where there is nothing to show.

function scores() {
  const rows = data.methods.map(({ name }) => {
    const own = data.scores.filter((score) => score.method === name);
    const over = (data.overall.rows || []).find((row) => row.method === name);
    const means = Object.fromEntries(own.map((score) => [score.env, score.mean]));
    return { method: name, ...means, own: Object.fromEntries(own.map((score) => [score.env, score])), over, overall: over?.iqm };
  });
  const best = (key) => {
    const top = Math.max(...rows.map((row) => row[key] ?? -Infinity));
    return (row) => rows.length > 1 && row[key] === top;
  };
  const cell = (score) => {
    if (!score) return "–";
    if (score.runs === 1) return [number(score.mean), el("small", {}, "1 run")];
    return [`${number(score.mean)} ± ${number(score.std, score.mean)}`, el("small", {}, span(score.low, score.high))];
  };
  const columns = data.envs.map(({ id }) => ({ ...numbers(id, id, (row) => cell(row.own[id])), best: best(id) }));
  const sure = ({ runs, low, high }) => el("small", {}, runs === 1 ? "1 run a task" : span(low, high));
  const middle = (row) => (row.over ? [number(row.overall), sure(row.over)] : "–");
  if (data.envs.length > 1 && data.overall.rows)
    columns.push({ ...numbers("all tasks, normalised IQM", "overall", middle), best: best("overall") });
  return [
    note(
      "Mean ± standard deviation of runs, as the paper reports, and the bootstrap 95% interval of the mean. A run's score is the " +
        "mean return of its evaluations in the last tenth of training. With fewer than five runs such intervals are too narrow.",
    ),
    table([method, ...columns], rows, { label: "Scores" }),
    folded(
      "Every number",
      everyScore(),
      note("Area under curve: the mean return over training. Normalised: by task, 0 and 1 are"),
      scales(),
    ),
  ];
}

function everyScore() {
  const plain = {
    runs: "runs",
    mean: "mean",
    std: "std",
    low: "95% low",
    high: "95% high",
    iqm: "IQM",
    area: "area under curve",
  };
  const columns = Object.entries({ ...plain, normalised: "normalised", error: "estimation error" });
  const step = numbers("at step", "step", (row) => whole(row.step));
  return table([method, task, step, ...columns.map(([key, title]) => numbers(title, key))], data.scores, {
    label: "Every score",
  });
}

function scales() {
  const line = ({ id, scale }) => `${id}: ${number(scale.low)} and ${number(scale.high)}. ${scale.source}.`;
  return el("ul", { class: "note" }, ...data.envs.map((env) => el("li", {}, line(env))));
}

function curves() {
  const zoom = touch ? "" : "; drag over a chart to zoom, double-click to go back";
  return [
    note(`Mean over runs by steps. A method's name hides or shows it everywhere${zoom}.`),
    controls(),
    cards(...data.envs.map((env) => curveCard(env, "returns"))),
  ];
}

function others() {
  if (!data.otherMethods.length) return null;
  const shared = data.shared.flatMap(({ ours, ...row }) => Object.entries(ours).map(([name, value]) => ({ ...row, name, ours: value })));
  const columns = [
    words("theirs", "method", (row) => named(row.method)),
    words("their task", "env"),
    numbers("step", "step", (row) => whole(row.step)),
    numbers("their return", "value"),
    numbers("our return", "ours"),
    words("ours", "name", (row) => named(row.name)),
    words("our task", "beside"),
    words("source", "source"),
  ];
  return [
    note(
      "From files of other people's numbers. Versions of environments differ, and so do evaluations: compare with care. " +
        "Their curves and marks are in the charts above; those beyond our runs come into view with a double-click on a chart.",
    ),
    shared.length
      ? table(columns, shared, { label: "Beside other people's results" })
      : note("None of their steps lies within our runs."),
  ];
}

function errors() {
  const soft = data.recipes.some(({ algo }) => algo === "sac") ? " The values of sac have entropy in them." : "";
  return [
    note(
      "How far the critics are from the returns that the policy really gets: Q(s, a) minus the discounted return that followed, " +
        `mean over the steps of evaluation episodes. Above zero is overestimation.${soft}`,
    ),
    cards(...data.envs.map((env) => curveCard(env, "errors"))),
  ];
}

function recipes() {
  return data.recipes.map((recipe) => {
    const rows = recipe.fields.map(([field, theirs, own]) => ({ field, theirs, own }));
    const columns = [coded("field", "field"), coded(recipe.reference, "theirs"), coded(recipe.method, "own")];
    const found = rows.length ? [table(columns, rows, { label: `${recipe.method} beside ${recipe.reference}` })] : [];
    const places = (values) => Object.entries(values).map(([env, value]) => `${exact(value)} on ${env}`);
    const tasks = recipe.by_task.map(([field, values]) => note(`${field} depends on the task: ${places(values).join("; ")}`));
    const summary = [recipe.summary, difference(recipe, rows)].filter(Boolean).join("; ");
    const inside = rows.length > 6 ? [folded("Show them", ...found)] : found;
    return el("div", {}, el("h3", {}, named(recipe.method)), note(summary), ...inside, ...tasks);
  });
}

function difference(recipe, rows) {
  if (recipe.method === recipe.reference) return "what the others are compared with";
  if (!rows.length) return `no field differs from ${recipe.reference}`;
  return `${plural(rows.length, "field")} differ${rows.length === 1 ? "s" : ""} from ${recipe.reference} on ${recipe.env}`;
}

function cost() {
  const each = numbers("time a run", "minutes_each", (row) => hours(row.minutes_each / 60));
  const all = numbers("time in all", "hours", (row) => hours(row.hours));
  const columns = [method, task, numbers("runs", "runs"), all, each, numbers("steps / s", "speed")];
  if (!data.cost.length) return null;
  return [
    note("Wall-clock time of training with its evaluations, as each run measured it."),
    table(columns, data.cost, { label: "Cost" }),
  ];
}

function everyRun() {
  const steps = (run) => whole(run.lastStep) + (run.finished ? "" : ` of ${whole(run.facts.steps)}`);
  const time = [numbers("time", "hours", (run) => hours(run.hours)), numbers("steps / s", "speed")];
  const columns = [
    method,
    task,
    numbers("seed", "seed"),
    numbers("steps", "lastStep", steps),
    numbers("score", "score"),
    ...time,
  ];
  const open = (run) => (location.hash = `run-${data.runs.indexOf(run)}`);
  return [
    note("A row opens the run: its own curve, settings and versions."),
    table([...columns, coded("folder", "place")], data.runs, { open, label: "Every run" }),
  ];
}

function missing() {
  const lines = [...data.leftOut, ...data.notes];
  return lines.length ? [el("ul", { class: "note" }, ...lines.map((line) => el("li", {}, line)))] : null;
}

const sections = {
  scores: ["Scores", scores],
  curves: ["Learning curves", curves],
  overall: ["Over all tasks", overall],
  others: ["Beside other people's results", others],
  errors: ["Estimation error", errors],
  recipes: ["What each recipe differs in", recipes],
  cost: ["Cost", cost],
  runs: ["Every run", everyRun],
  missing: ["Left out", missing],
};
