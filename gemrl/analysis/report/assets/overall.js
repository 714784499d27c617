// Comparisons over all tasks: points with intervals, and lines with bands.

function points(key, rows, x, extra = {}) {
  const [low, high] = key === "iqm" ? ["low", "high"] : [`${key}_low`, `${key}_high`];
  return () => {
    const shown = rows.filter((row) => !hidden.has(row.method)).reverse();
    const traces = shown.map((row) => ({
      x: [row[key]],
      y: [row.method],
      name: row.method,
      mode: "markers",
      marker: { size: 11, color: colour(row.method) },
      error_x: {
        type: "data",
        symmetric: false,
        array: [row[high] - row[key]],
        arrayminus: [row[key] - row[low]],
        thickness: 3,
        width: 0,
        color: colour(row.method),
      },
      hovertemplate: "<b>%{y}</b>  %{x:.3f}<extra></extra>",
    }));
    const yaxis = { type: "category", gridcolor: "rgba(0,0,0,0)", title: undefined, range: [-0.7, shown.length - 0.3] };
    return { traces, layout: layout(x, "", { yaxis, ...extra }) };
  };
}

function bands(records, x, titles, extra, digits) {
  return () => ({
    traces: Object.entries(records).flatMap(([name, it]) => lines(name, x, it.value, it.low, it.high, { digits })),
    layout: layout(...titles, extra),
  });
}

function overall() {
  const { rows, methods, reference, profile, thresholds, efficiency, fractions } = data.overall;
  if (methods.length < 2) return null;
  const absent = data.methods.map(({ name }) => name).filter((name) => !methods.includes(name));
  const leftOut = absent.length ? ` Left out, because they lack runs on some task: ${absent.join(", ")}.` : "";
  const tasks = ["no task", "the one task", "both tasks"][data.envs.length] || `all ${data.envs.length} tasks`;
  const single = rows.every((row) => row.runs === 1);
  const intervals = single ? "one run per task, so without intervals" : "with stratified bootstrap 95% intervals";
  const even = { type: "line", yref: "paper", y0: 0, y1: 1, x0: 0.5, x1: 0.5, line: { width: 1, color: "#888888", dash: "dot" } };
  const competitors = rows.filter((row) => row.method !== reference);
  const chances = points("improvement", competitors, `P(${reference} > other)`, { shapes: [even], xaxis: { range: [-0.02, 1.02] } });
  const profiles = bands(
    profile,
    thresholds,
    ["normalised score", "fraction of runs above it"],
    { yaxis: { range: [-0.02, 1.02] } },
    ".2f",
  );
  const efficiencies = bands(efficiency, fractions, ["fraction of training", "normalised IQM"], { xaxis: { tickformat: ".0%" } }, ".3f");
  return [
    note(`Normalised scores of all runs on ${tasks}, ${intervals}.${leftOut}`),
    cards(
      card(
        "Interquartile mean",
        "the mean of the middle half of all runs",
        plot("Interquartile mean", points("iqm", rows, "normalised score"), rows.length),
      ),
      card(
        `Is ${reference} better?`,
        `probability that a run of ${reference} beats a run of the other method on the same task`,
        plot("Probability of improvement", chances, competitors.length),
      ),
      card("Sample efficiency", "interquartile mean during training", plot("Sample efficiency", efficiencies)),
      card("Performance profile", "fraction of runs above each score", plot("Performance profile", profiles)),
    ),
  ];
}
