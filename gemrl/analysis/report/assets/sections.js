// Each section has a title and a function that returns its elements, or null if there is nothing to show.

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
  const certainty = ({ runs, low, high }) => el("small", {}, runs === 1 ? "1 run per task" : span(low, high));
  const middle = (row) => (row.over ? [number(row.overall), certainty(row.over)] : "–");
  if (data.envs.length > 1 && data.overall.rows)
    columns.push({ ...numbers("all tasks, normalised IQM", "overall", middle), best: best("overall") });
  return [
    note(
      "Mean ± sample standard deviation over runs, and the bootstrap 95% interval of the mean. The score of a run is the " +
        "mean return of its last three evaluations. With fewer than five runs the intervals are too narrow.",
    ),
    table([method, ...columns], rows, { label: "Scores" }),
    folded(
      "All numbers",
      allScores(),
      note("Area under curve: the mean return over training. Normalised scores: the returns that count as 0 and 1 are, by task:"),
      scales(),
    ),
  ];
}

function allScores() {
  const plain = {
    runs: "runs",
    mean: "mean",
    std: "std",
    low: "95% low",
    high: "95% high",
    iqm: "IQM",
    last: "last evaluation",
    area: "area under curve",
  };
  const columns = Object.entries({ ...plain, normalised: "normalised", error: "estimation error" });
  const step = numbers("at step", "step", (row) => whole(row.step));
  return table([method, task, step, ...columns.map(([key, title]) => numbers(title, key))], data.scores, {
    label: "All scores",
  });
}

function scales() {
  const line = ({ id, scale }) => `${id}: ${number(scale.low)} and ${number(scale.high)}. ${scale.source}.`;
  return el("ul", { class: "note" }, ...data.envs.map((env) => el("li", {}, line(env))));
}

function differences() {
  if (!data.differences.length) return null;
  const columns = [
    task,
    method,
    words("differs in", "fields"),
    numbers("difference", "value"),
    numbers("p (smallest possible)", "p", (row) => `${row.p.toPrecision(2)} (${row.least.toPrecision(2)})`),
    words("verdict", "verdict"),
  ];
  return [
    note(
      `How much higher the mean score is than that of ${data.differences[0].reference}, and the p-value of the exact permutation ` +
        "test, with the smallest one that so many runs can have. Up to 0.05 a difference is called clear, up to 0.1 likely, otherwise it is not shown. " +
        "With three runs each, p cannot be below 0.1.",
    ),
    table(columns, data.differences, { label: "Differences by task" }),
  ];
}

function curves() {
  const zoom = touch ? "" : "; drag in a chart to zoom in, double-click to reset";
  const untrained = data.envs.some((env) => Object.values(env.returns).some((curve) => curve.steps[0] <= curve.warm_up));
  const hollow = untrained ? " Hollow markers: evaluations before training starts." : "";
  return [
    note(`Mean over runs. Click a method to hide or show it in all charts${zoom}.${hollow}`),
    controls(),
    cards(...data.envs.map((env) => curveCard(env, "returns"))),
  ];
}

function others() {
  if (!data.otherMethods.length) return null;
  const shared = data.shared.flatMap(({ ours, ...row }) => Object.entries(ours).map(([name, value]) => ({ ...row, name, ours: value })));
  const columns = [
    words("external method", "method", (row) => named(row.method)),
    words("external task", "env"),
    numbers("step", "step", (row) => whole(row.step)),
    numbers("external return", "value"),
    numbers("our return", "ours"),
    words("our method", "name", (row) => named(row.name)),
    words("our task", "our_env"),
    words("source", "source"),
  ];
  return [
    note(
      "Results from the given CSV files. Environment versions and evaluation protocols may differ: compare with care. " +
        "External results also appear in the charts above; double-click a chart to see those beyond the last step of our runs.",
    ),
    shared.length
      ? table(columns, shared, { label: "External results" })
      : note("No external result lies within the steps of our runs."),
  ];
}

function errors() {
  const soft = data.recipes.some(({ algo }) => algo === "sac") ? " The values of sac include the entropy bonus." : "";
  return [
    note(
      "Q(s, a) minus the discounted return that the policy actually obtained afterwards, averaged over the steps of the " +
        `evaluation episodes. Values above zero mean overestimation.${soft}`,
    ),
    cards(...data.envs.map((env) => curveCard(env, "errors"))),
  ];
}

function recipes() {
  return data.recipes.map((recipe) => {
    const rows = recipe.fields.map(([field, theirs, own]) => ({ field, theirs, own }));
    const columns = [coded("field", "field"), coded(recipe.reference, "theirs"), coded(recipe.method, "own")];
    const found = rows.length ? [table(columns, rows, { label: `${recipe.method} compared with ${recipe.reference}` })] : [];
    const byTask = (values) => Object.entries(values).map(([env, value]) => `${exact(value)} on ${env}`);
    const tasks = recipe.by_task.map(([field, values]) => note(`${field} depends on the task: ${byTask(values).join("; ")}`));
    const summary = [recipe.summary, difference(recipe, rows)].filter(Boolean).join("; ");
    const inside = rows.length > 6 ? [folded("Show fields", ...found)] : found;
    return el("div", {}, el("h3", {}, named(recipe.method)), note(summary), ...inside, ...tasks);
  });
}

function difference(recipe, rows) {
  if (recipe.method === recipe.reference) return "the reference that the others are compared with";
  if (!rows.length) return `no field differs from ${recipe.reference}`;
  return `${plural(rows.length, "field")} differ${rows.length === 1 ? "s" : ""} from ${recipe.reference} on ${recipe.env}`;
}

function cost() {
  const each = numbers("time per run", "minutes_each", (row) => hours(row.minutes_each / 60));
  const all = numbers("total time", "hours", (row) => hours(row.hours));
  const columns = [method, task, numbers("runs", "runs"), all, each, numbers("steps / s", "speed")];
  if (!data.cost.length) return null;
  return [
    note("Wall-clock time of training, including evaluations, as recorded by each run."),
    table(columns, data.cost, { label: "Cost" }),
  ];
}

function allRuns() {
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
    note("Click a row to open the run: its curve, settings and versions."),
    table([...columns, coded("folder", "folder")], data.runs, { open, label: "All runs" }),
  ];
}

function missing() {
  const lines = [...data.leftOut, ...data.notes];
  return lines.length ? [el("ul", { class: "note" }, ...lines.map((line) => el("li", {}, line)))] : null;
}

const sections = {
  scores: ["Scores", scores],
  differences: ["Differences by task", differences],
  curves: ["Learning curves", curves],
  overall: ["Over all tasks", overall],
  others: ["External results", others],
  errors: ["Estimation error", errors],
  recipes: ["Differences between recipes", recipes],
  cost: ["Cost", cost],
  runs: ["All runs", allRuns],
  searches: ["Hyperparameter searches", searches],
  missing: ["Left out", missing],
};
