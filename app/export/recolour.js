// What a report and a site share: which buttons figures lack, and figures drawn in one theme in the colours of the other.
const UNWANTED_BUTTONS = ["select2d", "lasso2d", "autoScale2d", "sendChartToCloud"]; // the last would upload a figure
function recolouring(light, dark) {
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
  return recoloured;
}
