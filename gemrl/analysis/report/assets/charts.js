// Charts are drawn when they scroll into view and redrawn when the theme, the band or the hidden methods change.
function layout(x, y, extra = {}) {
  const axis = { gridcolor: css("--line"), zeroline: false, linecolor: css("--line"), tickfont: { size: 11 }, automargin: true };
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: css("--sans"), color: css("--soft"), size: 12 },
    margin: { l: 54, r: 12, t: touch ? 8 : 26, b: 42 },
    showlegend: false,
    hovermode: "closest",
    dragmode: touch ? false : "zoom",
    hoverlabel: { bgcolor: css("--card"), bordercolor: css("--line"), font: { color: css("--ink") } },
    xaxis: { ...axis, title: { text: x, font: { size: 12 } }, ...extra.xaxis },
    yaxis: { ...axis, title: { text: y, font: { size: 12 } }, ...extra.yaxis },
    shapes: extra.shapes || [],
    uirevision: "kept", // hiding a method or changing the theme keeps the zoom
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: css("--accent") },
  };
}

function draw(element) {
  const { traces, layout: shape } = plots.get(element)();
  Plotly.react(element, traces, shape, {
    responsive: true,
    displaylogo: false,
    displayModeBar: touch ? false : "hover",
    modeBarButtons: [["toImage", "resetScale2d"]],
  });
  element.dataset.drawn = "yes";
}
const redraw = () =>
  plots.forEach((_, element) => {
    if (element.dataset.drawn) draw(element);
  });
addEventListener("beforeprint", () => plots.forEach((_, element) => draw(element)));
const seen = new IntersectionObserver(
  (entries) =>
    entries.forEach((entry) => {
      if (entry.isIntersecting && !entry.target.dataset.drawn) draw(entry.target);
    }),
  { rootMargin: "300px" },
);

// Creates a chart. A chart with many names on its y axis grows with their number, `rows`.
function plot(label, make, rows = 0) {
  const style = rows > 9 ? `height: ${5 + 1.5 * rows}rem` : null;
  const element = el("div", { class: "plot", role: "img", "aria-label": label, style });
  plots.set(element, make);
  seen.observe(element);
  return element;
}

// Each value shifted up or down by its own width; missing values stay null.
const shifted = (middle, width, sign) => middle.map((y, index) => (y === null ? null : y + sign * width[index]));

const SYMBOLS = { o: "circle", s: "square", "^": "triangle-up", D: "diamond", v: "triangle-down", P: "cross", X: "x", p: "pentagon" };

// A line with a band. Points up to step `warmUp`, where nothing was trained yet, get hollow markers.
function lines(name, x, middle, low, high, { digits = ",.1f", warmUp = -1 } = {}) {
  const look = { ...looks[name], colour: colour(name) };
  const common = { x, name, legendgroup: name, visible: !hidden.has(name) };
  const edge = { ...common, mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
  const line = {
    ...common,
    y: middle,
    mode: x.length > 40 ? "lines" : "lines+markers",
    line: { color: look.colour, width: 2, dash: look.dash },
    marker: {
      size: 7,
      color: look.colour,
      symbol: x.map((step) => SYMBOLS[look.marker] + (step <= warmUp ? "-open" : "")),
    },
    hovertemplate: `<b>%{fullData.name}</b>  %{y:${digits}}<br>%{x:,}<extra></extra>`,
  };
  if (!low) return [line];
  if (x.length === 1) {
    // a band needs two points
    const error = { type: "data", symmetric: false, array: [high[0] - middle[0]], arrayminus: [middle[0] - low[0]] };
    return [{ ...line, error_y: { ...error, color: look.colour, thickness: 1.5 } }];
  }
  return [{ ...edge, y: low }, { ...edge, y: high, fill: "tonexty", fillcolor: faded(look.colour, 0.14) }, line];
}
