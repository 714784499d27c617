// The view of one run, a dialog on top of the page: #run-3 opens the fourth run.

function pairs(title, values) {
  const rows = Object.entries(values).map(([name, value]) => ({ name, value }));
  if (!rows.length) return null;
  return el("div", {}, el("h3", {}, title), table([coded("name", "name"), coded("value", "value")], rows, { label: title }));
}

function runPlot(run, key, title, spread) {
  const { step, [key]: middle, [spread]: width } = run.evaluations;
  const edge = (sign) => width && shifted(middle, width, sign);
  return plot(`${title} of this run`, () => ({
    traces: lines(run.method, step, middle, edge(-1), edge(1), { warmUp: run.recipe.learning_starts }).map((trace) => ({ ...trace, visible: true })),
    layout: layout(run.steps, title, { xaxis: { rangemode: "tozero" } }),
  }));
}

function video({ kind, data: bytes, name }) {
  const src = `data:${kind};base64,${bytes}`;
  if (kind.startsWith("image")) return el("img", { src, alt: name });
  return el("video", { src, controls: "", loop: "", muted: "", playsinline: "", "aria-label": name });
}

function facts(run) {
  const steps = whole(run.lastStep) + (run.finished ? "" : ", not finished");
  const values = { score: number(run.score), steps, time: hours(run.hours), "steps / s": number(run.speed), folder: run.folder };
  const lines = Object.entries(values).map(([name, value]) => {
    return el("div", {}, el("dt", {}, name), el("dd", { class: name === "folder" ? "mono" : null }, value));
  });
  return el("dl", { class: "facts" }, ...lines);
}

const dialog = document.getElementById("run");

function removePlots() {
  plots.forEach((_, element) => {
    if (!dialog.contains(element)) return;
    seen.unobserve(element);
    plots.delete(element);
    Plotly.purge(element);
  });
}

function openRun(run) {
  removePlots();
  const close = el("button", { type: "button", onclick: () => dialog.close() }, "Close");
  dialog.replaceChildren(
    el("header", {}, el("h2", { id: "run-title" }, `${run.method} on ${run.env}, seed ${run.seed}`), close),
    facts(run),
    ...run.videos.map(video),
    cards(
      card("Return", "mean ± std over the episodes of each evaluation", runPlot(run, "return_mean", "return", "return_std")),
      card("Estimation error", "mean over all steps of the evaluation episodes", runPlot(run, "estimation_error", "estimation error", null)),
    ),
    ...[pairs("Recipe", run.recipe), pairs("Run", run.facts), pairs("Versions", run.versions)].filter(Boolean),
  );
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

dialog.addEventListener("close", () => {
  if (location.hash.startsWith("#run-")) history.replaceState(null, "", "#runs");
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
function openLinkedRun() {
  const found = /^#run-(\d+)$/.exec(location.hash);
  if (found && data.runs[Number(found[1])]) openRun(data.runs[Number(found[1])]);
  else if (dialog.open) dialog.close();
}
addEventListener("hashchange", openLinkedRun);
