// Draws each figure when it comes near the window, in the colours of the reader's theme; on paper all of them, in light.
(() => {
  const { figures, light, dark } = JSON.parse(document.getElementById("figures").textContent);
  const places = [...document.querySelectorAll("[data-figure]")];
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const FULL_PAGE = 680, HALF_PAGE = 332; // pixels inside the margins of A4
  const drawn = new Set();
  let printing = false;

  // A figure is stored in the colours it was drawn in; each of them has a counterpart at the same place of the palettes.
  const position = new Map([...light, ...dark].map((colour, index) => [colour, index % light.length]));
  const channels = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
  const translucent = new Map(
    [...position].filter(([colour]) => colour.startsWith("#")).map(([colour, index]) => [`${channels(colour)}`, index]));

  function recoloured(value, palette) {
    if (typeof value === "string") {
      if (position.has(value)) return palette[position.get(value)];
      const parts = /^rgba\((\d+,\d+,\d+),([\d.]+)\)$/.exec(value);
      if (!parts || !translucent.has(parts[1])) return value;
      return `rgba(${channels(palette[translucent.get(parts[1])])},${parts[2]})`;
    }
    if (Array.isArray(value)) return value.map((part) => recoloured(part, palette));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(
      ([name, part]) => [name, name === "bdata" ? part : recoloured(part, palette)]));
  }

  function draw(place) {
    const { data, layout } = figures[place.dataset.figure];
    const spec = recoloured({ data, layout }, prefersDark.matches && !printing ? dark : light);
    if (printing) spec.layout.width = place.closest(".pair") ? HALF_PAGE : FULL_PAGE;
    else spec.layout.autosize = true;
    drawn.add(place);
    return Plotly.react(place, spec.data, spec.layout, {
      responsive: true, displaylogo: false, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
      toImageButtonOptions: { format: "svg", filename: `routecal-figure-${Number(place.dataset.figure) + 1}` },
    });
  }

  const near = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
    near.unobserve(entry.target);
    if (!drawn.has(entry.target)) draw(entry.target);
  }), { rootMargin: "800px" });
  places.forEach((place) => near.observe(place));
  prefersDark.addEventListener("change", () => drawn.forEach(draw));
  addEventListener("beforeprint", () => { printing = true; places.forEach(draw); });
  addEventListener("afterprint", () => { printing = false; places.forEach(draw); });
})();
