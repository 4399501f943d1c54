// The site's one script: it loads the data of a run when it is needed, and draws the view that the address names.
"use strict";
const routecal = (() => {
  const byId = (id) => document.getElementById(id);
  const root = document.documentElement, main = byId("main"), search = byId("search"), found = byId("found");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const KEPT = 8; // runs in memory
  let index, recoloured, tests, byName, byRun, at, turn = 0;

  // Data: a script calls add(name, data); the data are compressed JSON.
  const parts = new Map();
  function part(name) {
    if (!parts.has(name)) {
      const made = {};
      made.ready = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
      parts.set(name, made);
    }
    return parts.get(name);
  }
  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }
  const add = (name, text) => part(name).resolve(unpacked(text));
  function load(name) {
    if (!parts.has(name)) {
      for (const old of parts.keys()) if (parts.size > KEPT && old.startsWith("run-")) parts.delete(old);
      const { reject } = part(name);
      const script = Object.assign(document.createElement("script"), { src: `data/${name}.js` });
      script.onload = () => script.remove();
      script.onerror = () => { parts.delete(name); reject(new Error(`The file data/${name}.js of this site is missing.`)); };
      document.head.append(script);
    }
    return part(name).ready;
  }

  // Small makers of elements; every text from the data is set as text.
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== undefined && child !== ""));
    return element;
  }

  // The address: page, run, feature, with (a second run), tab, theme, present; what is not there falls back.
  const DEFAULTS = { with: "", tab: "", theme: "", present: "" };
  function asked() {
    const query = new URLSearchParams(location.hash.slice(1)), lost = [];
    const known = (name, options, fallback) => {
      const value = query.get(name);
      if (value && !options.has(value)) lost.push(`This site has no ${name} “${value}”.`);
      return options.has(value) ? value : fallback;
    };
    const page = known("page", byName, index.pages[0].name);
    const run = known("run", byRun, index.runs[0].id);
    const feature = known("feature", new Set(byRun.get(run).features), byRun.get(run).features[0]);
    const chosen = { page, run, feature, ...DEFAULTS };
    for (const name of Object.keys(DEFAULTS)) chosen[name] = query.get(name) ?? "";
    chosen.with = known("with", byRun, "");
    if (chosen.with === run) chosen.with = "";
    return { ...chosen, lost };
  }
  function address(changes = {}) {
    const chosen = { ...at, ...changes }, query = new URLSearchParams();
    for (const name of ["page", "run", "feature", ...Object.keys(DEFAULTS)]) if (chosen[name]) query.set(name, chosen[name]);
    return `#${query}`;
  }
  const go = (changes) => { location.hash = address(changes); };
  const link = (text, changes, more = {}) => make("a", { href: address(changes), ...more }, text);

  // Theme and size.
  const dark = () => (at.theme ? at.theme === "dark" : prefersDark.matches);
  function paint() {
    const colours = index.palette[dark() ? "dark" : "light"];
    index.palette.names.forEach((name, place) => root.style.setProperty(`--${name}`, colours[place]));
    root.style.colorScheme = dark() ? "dark" : "light";
    root.classList.toggle("present", at.present === "1");
    byId("presenter").hidden = at.present !== "1";
  }
  function enlarged(layout) { // as the dashboard's figures in its presenter mode
    const size = (font) => ({ ...font, size: 20 });
    return { ...layout, font: size(layout.font), hoverlabel: { font: { size: 20 } }, height: Math.round((layout.height || 440) * 1.25),
      margin: Object.fromEntries(Object.entries(layout.margin || {}).map(([side, pixels]) => [side, Math.round(pixels * 1.3)])) };
  }

  // Figures are drawn when they come near the window.
  const specs = new WeakMap();
  async function draw(place) {
    const { spec, key } = specs.get(place), drawn = turn;
    while (!window.Plotly) await new Promise((resolve) => addEventListener("load", resolve, { once: true }));
    if (drawn !== turn) return;
    const { data, layout } = recoloured({ data: spec.data, layout: spec.layout }, index.palette[dark() ? "dark" : "light"]);
    const frames = recoloured(spec.frames || [], index.palette[dark() ? "dark" : "light"]);
    const fitted = { ...(at.present === "1" ? enlarged(layout) : layout), autosize: true, sliders: [] };
    await Plotly.newPlot(place, { data, layout: fitted, frames, config: {
      responsive: true, displaylogo: false, modeBarButtonsToRemove: UNWANTED_BUTTONS,
      toImageButtonOptions: { format: "svg", filename: `routecal-${at.page}-${key}` },
    } });
    if (drawn !== turn) return;
    place.dataset.drawn = "yes";
    const other = [...main.querySelectorAll("[data-drawn]")].find((each) => each !== place && each.dataset.key === key);
    if (other) sameAxes(place, other);
  }
  function sameAxes(...places) {
    const [one, two] = places.map((place) => place._fullLayout), ranges = {};
    for (const name of Object.keys(one).filter((each) => /^[xy]axis\d*$/.test(each))) {
      const pair = [one[name], two[name]];
      if (!pair[1] || pair.some((axis) => !["linear", "log"].includes(axis.type)) || pair[0].type !== pair[1].type) continue;
      const ends = pair.flatMap((axis) => axis.range), turned = pair[0].range[0] > pair[0].range[1];
      const range = [Math.min(...ends), Math.max(...ends)];
      ranges[`${name}.range`] = turned ? range.reverse() : range;
    }
    places.forEach((place) => Plotly.relayout(place, ranges));
  }
  const near = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
    near.unobserve(entry.target);
    draw(entry.target);
  }), { rootMargin: "600px" });

  function slide(label, texts, start, move) {
    const value = make("output", {}, texts[start]);
    const input = make("input", { type: "range", min: 0, max: texts.length - 1, value: start, "aria-label": label,
      "aria-valuetext": texts[start], oninput: () => {
        value.textContent = texts[input.value];
        input.setAttribute("aria-valuetext", texts[input.value]);
        move(Number(input.value));
      } });
    return make("div", { class: "slide" }, make("span", {}, `${label}: `, value), input);
  }
  function figure(item) {
    const caption = make("figcaption", {}, item.finding);
    const place = make("div", { class: "plot", role: "img", "aria-label": item.alt || item.finding, "data-key": item.key,
      style: `min-height:${item.layout.height || 440}px` });
    const shown = make("figure", {}, item.finding || item.steps ? caption : "", place);
    specs.set(place, { spec: item, key: item.key });
    near.observe(place);
    const [slider] = item.layout.sliders || [];
    if (slider) {
      const still = { mode: "immediate", frame: { duration: 0, redraw: false }, transition: { duration: 0 } };
      shown.append(slide("Bandwidth, in multiples of Scott's", slider.steps.map((step) => step.label), slider.active || 0,
        (step) => place.dataset.drawn && Plotly.animate(place, slider.steps[step].args[0], still)));
    } else if (item.steps) {
      const said = make("ul"), stops = item.steps.at;
      const tell = (stop) => { caption.textContent = stop.finding; said.replaceChildren(...stop.said.map((line) => make("li", {}, line))); };
      const start = Math.max(0, stops.findIndex((stop) => JSON.stringify(stop.data) === JSON.stringify(item.data)));
      const bar = slide(item.steps.label, stops.map((stop) => stop.value.toFixed(2)), start, (step) => {
        tell(stops[step]);
        specs.set(place, { spec: stops[step], key: item.key });
        if (!place.dataset.drawn) return;
        const { data, layout } = recoloured({ data: stops[step].data, layout: stops[step].layout }, index.palette[dark() ? "dark" : "light"]);
        Plotly.react(place, data, { ...(at.present === "1" ? enlarged(layout) : layout), autosize: true });
      });
      tell(stops[start]);
      bar.append(said);
      shown.append(bar);
    }
    return shown;
  }

  // Tables: sorted by their values, filtered by their words, saved as CSV that no spreadsheet computes.
  function table(item) {
    const columns = item.columns.map((column) => ({ ...column, values: column.values || column.cells }));
    const numeric = columns.map(({ values }) => values.some((value) => typeof value === "number") && values.every((value) => typeof value !== "string"));
    const height = columns.length ? columns[0].cells.length : 0;
    let order = [...Array(height).keys()], words = "";
    const body = make("tbody"), heads = columns.map(({ name }, place) => make("th", { class: numeric[place] && "number", scope: "col" },
      make("button", { type: "button", onclick: () => sort(place) }, name)));
    const whole = (row) => columns.map(({ cells }) => cells[row]).join(" ").toLowerCase();
    function fill() {
      const kept = order.filter((row) => words.split(/\s+/).every((word) => whole(row).includes(word)));
      body.replaceChildren(...kept.map((row) => make("tr", {}, ...columns.map(({ cells }, place) => {
        const run = index.runs.find(({ full }) => full === cells[row]);
        return make("td", { class: numeric[place] && "number" }, run ? link(cells[row], { page: tests, run: run.id, tab: "" }) : cells[row]);
      }))));
    }
    function sort(place) {
      const down = heads[place].getAttribute("aria-sort") === "ascending";
      heads.forEach((head) => head.removeAttribute("aria-sort"));
      heads[place].setAttribute("aria-sort", down ? "descending" : "ascending");
      const { values } = columns[place], sign = down ? -1 : 1;
      order = [...order].sort((one, two) => { // what is missing comes last
        const [a, b] = [values[one], values[two]];
        if (a === null || b === null) return (a === null) - (b === null);
        return sign * (numeric[place] ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
      });
      fill();
    }
    fill();
    return make("div", { class: "table" },
      make("div", { class: "tablebar" },
        height > 10 ? make("input", { type: "search", placeholder: "Filter rows", "aria-label": "Filter rows",
          oninput: (event) => { words = event.target.value.toLowerCase().trim(); fill(); } }) : "",
        make("button", { type: "button", onclick: () => save(columns, order, item.key) }, "CSV")),
      make("div", { class: "rows", tabindex: 0, role: "region", "aria-label": "Table" }, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body)));
  }
  function csv(columns, order) {
    const formula = new RegExp(index.formula, "g");
    const cell = (value) => {
      if (typeof value === "number") return String(value);
      const text = value === null ? "" : value.replace(formula, "'");
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    };
    const lines = [columns.map(({ name }) => cell(name)), ...order.map((row) => columns.map(({ values }) => cell(values[row])))];
    return lines.map((line) => `${line.join(",")}\n`).join("");
  }
  function save(columns, order, key) {
    const url = URL.createObjectURL(new Blob([csv(columns, order)], { type: "text/csv" }));
    make("a", { href: url, download: `routecal-${at.page}-${key.replace(/^table-/, "")}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  // Items in order: figures that follow each other share a row, tabs hold what follows them.
  function explained(text) {
    const met = new Set(), terms = Object.keys(index.glossary).sort((one, two) => two.length - one.length);
    const escaped = terms.map((term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const cut = text.split(new RegExp(`(?<![\\p{L}\\p{N}_])(${escaped.join("|")})(?![\\p{L}\\p{N}_])`, "u"));
    return cut.map((word, place) => {
      if (place % 2 === 0 || met.has(word)) return word;
      met.add(word);
      return make("abbr", { title: index.glossary[word] }, word);
    });
  }
  function verdict({ text, finding, of }) {
    const chip = make("span", { class: `chip ${of}` }, index.chips[of] || "");
    return [make("p", { class: "verdict" }, chip, make("strong", {}, `${finding}.`)), make("p", {}, ...explained(text.slice(finding.length + 2)))];
  }
  function elements(item) {
    if (item.kind === "verdict") return verdict(item);
    if (item.kind === "table") return [table(item)];
    if (item.kind === "heading") return [make("h3", {}, item.text)];
    if (item.kind === "link") {
      const [page, run] = item.of.split("/");
      return [make("p", {}, byName.has(page) && byRun.has(run) ? link(item.text, { page, run, tab: "" }) : item.text)];
    }
    return [make("p", { class: item.kind }, item.text)];
  }
  function written(items) {
    const whole = make("div"), bar = make("div", { class: "tabs", role: "tablist" });
    let target = whole, row = null;
    for (const item of items) {
      if (item.kind === "figure") {
        if (!row) target.append(row = make("div", { class: "figures" }));
        if ((item.layout.height || 440) <= 300) row.classList.add("small");
        row.append(figure(item));
        continue;
      }
      row = null;
      if (item.kind === "tab") {
        if (!bar.parentElement) whole.append(bar);
        bar.append(make("button", { type: "button", role: "tab", "data-tab": item.text, onclick: () => open(item.text, true) }, item.text));
        whole.append(target = make("div", { role: "tabpanel", "aria-label": item.text, "data-panel": item.text }));
      } else target.append(...elements(item));
    }
    return whole;
  }
  function open(label, chosen) {
    if (chosen) history.replaceState(null, "", address({ tab: label }));
    if (chosen) at.tab = label;
    for (const bar of main.querySelectorAll(".tabs")) {
      const tabs = [...bar.children], wanted = tabs.find((tab) => tab.dataset.tab === label) || tabs[0];
      tabs.forEach((tab) => { tab.setAttribute("aria-selected", tab === wanted); tab.tabIndex = tab === wanted ? 0 : -1; });
      for (const panel of bar.parentElement.querySelectorAll("[data-panel]")) panel.hidden = panel.dataset.panel !== wanted.dataset.tab;
    }
  }
  main.addEventListener("keydown", (event) => { // arrow keys move between tabs
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!move || event.ctrlKey || event.target.getAttribute("role") !== "tab") return;
    const tabs = [...event.target.parentElement.children];
    const next = tabs[(tabs.indexOf(event.target) + move + tabs.length) % tabs.length];
    next.focus();
    next.click();
  });

  // The sidebar.
  function box(label, options, chosen, change, hint = "") {
    const id = `box-${label.toLowerCase().replaceAll(" ", "-")}`;
    const select = make("select", { id, disabled: options.length < 2, title: hint, onchange: () => change(select.value) },
      ...options.map(([value, text]) => make("option", { value, selected: value === chosen }, text)));
    return [make("label", { for: id }, label), select];
  }
  function choices() {
    const page = byName.get(at.page), run = byRun.get(at.run), focused = document.activeElement?.id;
    const among = byId("pages").contains(document.activeElement);
    const made = [];
    let left = index.runs;
    ["Backbone", "Data set", "Variant", "Run"].forEach((label, place) => {
      const options = [...new Set(left.map(({ parts: names }) => names[place]))], offered = left;
      made.push(...box(label, options.map((name) => [name, name]), run.parts[place], (name) => {
        const fits = offered.filter(({ parts: names }) => names[place] === name);
        const same = (other) => other.parts.filter((part_, each) => part_ === run.parts[each]).length;
        go({ run: fits.reduce((best, other) => (same(other) > same(best) ? other : best)).id });
      }));
      left = left.filter(({ parts: names }) => names[place] === run.parts[place]);
    });
    made.push(...box("Compare with", [["", "none"], ...index.runs.filter(({ id }) => id !== at.run).map(({ id, full }) => [id, full])],
      at.with, (id) => go({ with: id })));
    if (page.scope === "feature") {
      made.push(...box("Feature", run.features.map((name) => [name, index.features[name]]), at.feature, (name) => go({ feature: name })));
    }
    byId("boxes").replaceChildren(...made);
    if (focused?.startsWith("box-")) byId(focused)?.focus();
    const sections = new Map();
    for (const each of index.pages) sections.set(each.section, [...(sections.get(each.section) || []), each]);
    byId("pages").replaceChildren(...[...sections].flatMap(([name, pages]) => [make("h2", {}, name),
      ...pages.map((each) => link(each.title, { page: each.name, tab: "" }, { "aria-current": each.name === at.page && "page" }))]));
    if (among) byId("pages").querySelector("[aria-current]")?.focus();
    byId("position").textContent = `${index.pages.indexOf(page) + 1} of ${index.pages.length}: ${page.title}`
      + (page.scope === "cache" ? "" : ` · ${run.full}`);
  }
  function look() {
    const words = search.value.toLowerCase().trim().split(/\s+/).filter(Boolean);
    const hits = words.length ? index.runs.filter(({ full, id }) => words.every((word) => `${full} ${id}`.toLowerCase().includes(word))) : [];
    const page = byName.get(at.page).scope === "cache" ? tests : at.page;
    found.replaceChildren(...hits.slice(0, 30).map((run) => make("li", {}, link(run.full, { page, run: run.id, tab: "" }))));
    if (words.length && !hits.length) found.append(make("li", {}, "No run has these words."));
  }
  search.addEventListener("input", look);
  search.addEventListener("keydown", (event) => {
    const first = found.querySelector("a");
    if (event.key === "Enter" && first) first.click();
    if (event.key === "ArrowDown" && first) { event.preventDefault(); first.focus(); }
    if (event.key === "Escape") { search.value = ""; look(); }
  });

  // Views.
  async function content(page, run, feature) {
    if (page.name === "methods") return Object.assign(make("div"), { innerHTML: index.methods }); // ours, nothing of the cache in it
    const file = page.scope === "cache" ? "cache" : run.file;
    const { views, items } = await load(file);
    const view = page.scope === "feature" ? `${page.name}/${feature}` : page.name;
    if (!views[view]) return make("p", { class: "notice" }, "This run lacks the chosen feature, or this site does not hold it.");
    return written(views[view].map((place) => items[place]));
  }
  async function show() {
    const mine = ++turn, before = at?.page;
    at = asked();
    paint();
    choices();
    look();
    const page = byName.get(at.page), run = byRun.get(at.run), other = page.scope !== "cache" && byRun.get(at.with);
    main.setAttribute("aria-busy", "true");
    document.title = `${page.title} · RouteCal`;
    const wanted = [run, ...(other ? [other] : [])].map((each) => content(page, each, at.feature));
    const shown = await Promise.all(wanted.map((each) => each.catch((error) => make("p", { class: "notice" }, error.message))));
    if (mine !== turn) return;
    main.querySelectorAll("[data-drawn]").forEach((place) => Plotly.purge(place));
    const lost = at.lost.map((text) => make("p", { class: "notice", role: "status" }, text));
    const sides = other ? [make("div", { class: "sides" }, ...shown.map((each, side) => make("section", {}, make("h2", {}, [run, other][side].full), each)))] : shown;
    main.replaceChildren(make("h1", {}, page.question), ...lost, ...sides);
    open(at.tab, false);
    if (before && before !== at.page) scrollTo(0, 0);
    main.removeAttribute("aria-busy");
  }

  // Keys.
  const turnPage = (by) => go({ page: (index.pages[index.pages.findIndex(({ name }) => name === at.page) + by] || byName.get(at.page)).name, tab: "" });
  const turnRun = (by) => go({ run: (index.runs[index.runs.findIndex(({ id }) => id === at.run) + by] || byRun.get(at.run)).id });
  const KEYS = {
    n: ["next page (also ctrl + →; page down when presenting)", () => turnPage(1)],
    b: ["page before (also ctrl + ←; page up when presenting)", () => turnPage(-1)],
    j: ["next run", () => turnRun(1)],
    k: ["run before", () => turnRun(-1)],
    "/": ["search runs", () => search.focus()],
    d: ["light or dark", () => go({ theme: dark() ? "light" : "dark" })],
    p: ["presenter: large type, no sidebar", () => go({ present: at.present === "1" ? "" : "1" })],
    "?": ["these keys", () => byId("keys").showModal()],
  };
  byId("keys").querySelector("dl").append(...Object.entries(KEYS).flatMap(([key, [what]]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, what)]));
  document.querySelectorAll("[data-key]").forEach((button) => button.addEventListener("click", () => KEYS[button.dataset.key][1]()));
  byId("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
  addEventListener("keydown", (event) => {
    const writing = event.target.matches("input, select, textarea") || byId("keys").open;
    const paging = { ArrowRight: event.ctrlKey && "n", ArrowLeft: event.ctrlKey && "b" }[event.key]
      || (at?.present === "1" && { PageDown: "n", PageUp: "b" }[event.key]);
    const key = paging || (!writing && !event.ctrlKey && !event.metaKey && !event.altKey && event.key);
    if (!at || !Object.hasOwn(KEYS, key)) return;
    event.preventDefault();
    KEYS[key][1]();
  });

  part("index").ready.then((data) => {
    index = data;
    index.pages.push({ name: "methods", section: "Evidence", title: "Methods", question: "How is each number computed?", scope: "cache" });
    byName = new Map(index.pages.map((page) => [page.name, page]));
    byRun = new Map(index.runs.map((run) => [run.id, run]));
    tests = (index.pages.find(({ scope }) => scope === "feature") || index.pages[0]).name;
    recoloured = recolouring(index.palette.light, index.palette.dark);
    byId("made").textContent = `RouteCal ${index.version} · cache ${index.fingerprint}`;
    addEventListener("hashchange", show);
    prefersDark.addEventListener("change", show);
    show();
  }).catch((error) => main.replaceChildren(make("p", { class: "notice" }, `This site cannot be shown: ${error.message}`)));
  return { add };
})();
