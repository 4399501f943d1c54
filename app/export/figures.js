// Draws each figure when it comes near the window, in the colours of the reader's theme; on paper all of them, in light.
(() => {
  const { figures, light, dark } = JSON.parse(document.getElementById("figures").textContent);
  const places = [...document.querySelectorAll("[data-figure]")];
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const FULL_PAGE = 680, HALF_PAGE = 332; // pixels inside the margins of A4
  const drawn = new Set();
  let printing = false;

  const recoloured = recolouring(light, dark);

  function draw(place) {
    const { data, layout } = figures[place.dataset.figure];
    const spec = recoloured({ data, layout }, prefersDark.matches && !printing ? dark : light);
    if (printing) spec.layout.width = place.closest(".pair") ? HALF_PAGE : FULL_PAGE;
    else spec.layout.autosize = true;
    drawn.add(place);
    return Plotly.react(place, spec.data, spec.layout, {
      responsive: true, displaylogo: false, modeBarButtonsToRemove: UNWANTED_BUTTONS,
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
