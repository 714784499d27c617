// The theme: that of the system until the reader switches it; the choice is stored if the browser allows it.
const storedTheme = {
  get: () => {
    try {
      return localStorage.getItem("gemrl-theme");
    } catch {
      return null;
    }
  },
  set: (name) => {
    try {
      localStorage.setItem("gemrl-theme", name);
    } catch {
      /* storage is blocked: the choice lasts until the page is closed */
    }
  },
};
const preferred = matchMedia("(prefers-color-scheme: dark)");
function applyTheme(name) {
  document.documentElement.dataset.theme = name;
  document.querySelector("#theme .word").textContent = name === "dark" ? "Light" : "Dark";
  redraw();
}
document.getElementById("theme").addEventListener("click", () => {
  const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  storedTheme.set(name);
  applyTheme(name);
});
preferred.addEventListener("change", () => {
  if (!storedTheme.get()) applyTheme(preferred.matches ? "dark" : "light");
});
applyTheme(storedTheme.get() || (preferred.matches ? "dark" : "light"));

const unfinished = data.runs.filter((run) => !run.finished).length;
const spent = data.runs.reduce((sum, run) => sum + (run.hours || 0), 0);
const counted = [plural(data.methods.length, "method"), plural(data.envs.length, "task")].join(" on ");
const trials = data.searches.reduce((sum, search) => sum + search.trials.length, 0);
const searched = data.searches.length ? ` ${plural(data.searches.length, "hyperparameter search").replace("searchs", "searches")}, ${plural(trials, "trial")}.` : "";
const trained =
  `${plural(data.runs.length, "run")} of ${counted}${spent ? `, ${hours(spent)} of training time` : ""}.` +
  (unfinished ? ` ${plural(unfinished, "run")} not finished; left out of the scores on tasks that have finished runs.` : "");
document.getElementById("lead").textContent = `${data.runs.length ? trained : ""}${searched}`.trim();
document.getElementById("footer").textContent =
  `Written by gemrl ${data.version}. This file is self-contained and makes no network requests.`;
const links = new Map();
for (const [id, [title, make]] of Object.entries(sections)) {
  const content = data.runs.length || ["searches", "missing"].includes(id) ? make() : null;
  if (!content) continue;
  const section = el("section", { id }, el("h2", {}, title), ...content);
  document.getElementById("sections").append(section);
  const link = el("a", { href: `#${id}` }, title);
  document.querySelector("nav ol").append(el("li", {}, link));
  links.set(section, link);
}
const spy = new IntersectionObserver(
  (entries) =>
    entries.forEach((entry) => {
      if (entry.isIntersecting) links.forEach((link, section) => link.classList.toggle("here", section === entry.target));
    }),
  { rootMargin: "-20% 0px -70% 0px" },
);
links.forEach((_, section) => spy.observe(section));
openLinkedRun();
