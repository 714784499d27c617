// The theme: what the system prefers until the switch is used; then what was chosen, where the browser can remember it.
const remembered = {
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
      /* not remembered */
    }
  },
};
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
preferred.addEventListener("change", () => {
  if (!remembered.get()) dress(preferred.matches ? "dark" : "light");
});
dress(remembered.get() || (preferred.matches ? "dark" : "light"));

const unfinished = data.runs.filter((run) => !run.finished).length;
const spent = data.runs.reduce((sum, run) => sum + (run.hours || 0), 0);
const counted = [plural(data.methods.length, "method"), plural(data.envs.length, "task")].join(" on ");
document.getElementById("lead").textContent =
  `${plural(data.runs.length, "run")} of ${counted}${spent ? `, ${hours(spent)} of computing` : ""}.` +
  (unfinished ? ` ${plural(unfinished, "run")} not finished: left out of scores where others are.` : "");
document.getElementById("footer").textContent =
  `Written by gemrl ${data.version}. Everything is in this one file; it asks nothing of the network.`;
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
const spy = new IntersectionObserver(
  (entries) =>
    entries.forEach((entry) => {
      if (entry.isIntersecting) links.forEach((link, section) => link.classList.toggle("here", section === entry.target));
    }),
  { rootMargin: "-20% 0px -70% 0px" },
);
links.forEach((_, section) => spy.observe(section));
follow();
