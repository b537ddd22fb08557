// Colours of the page's theme as the figures need them, and what all figures have in common.

const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");
let isPrinting = false;
/** In CSS pixels, between margins of 15 mm on A4 (210 mm, 96 pixels an inch). */
const PAPER_WIDTH = 680;

/** Read the page's colours, which follow the reader's light or dark setting; paper is always light. */
function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return {
    isDark: darkScheme.matches && !isPrinting,
    text: isPrinting ? "#1b1f24" : read("--text"),
    muted: isPrinting ? "#57606a" : read("--muted"),
    grid: isPrinting ? "#e3e6ea" : read("--grid"),
    surface: isPrinting ? "#ffffff" : read("--surface"),
    neighbour: isPrinting ? "#ffe3c2" : read("--neighbour"),
  };
}

/** Give the colour of a platform, the same in every figure. */
function platformColour(platform) {
  return theme().isDark ? platform.dark : platform.light;
}

/** Mix two colours, `#rrggbb` each: a share of the other one. */
function mixedColour(colour, other, share) {
  const parts = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
  const [from, to] = [parts(colour), parts(other)];
  return `rgb(${from.map((part, index) => Math.round(part + share * (to[index] - part))).join(", ")})`;
}

const REPETITION_LOOKS = [
  { symbol: "circle", sign: "\u25cf", dash: "solid", shade: 0 },
  { symbol: "square-open", sign: "\u25a1", dash: "dot", shade: 0.3 },
  { symbol: "triangle-up", sign: "\u25b2", dash: "dash", shade: 0.5 },
  { symbol: "x-thin-open", sign: "\u2715", dash: "dashdot", shade: 0.15 },
  { symbol: "hexagon-open", sign: "\u2b21", dash: "longdash", shade: 0.4 },
  { symbol: "cross-thin-open", sign: "+", dash: "longdashdot", shade: 0.6 },
];

/** Give the look of a repetition: mark, sign, dash, and how far its colour lies from that of its platform. */
function repetitionLook(repetition) {
  return REPETITION_LOOKS[(repetition - 1) % REPETITION_LOOKS.length];
}

/** Give the colour of a cell: that of its platform, a shade of it for each further repetition. */
function cellColour(cell, page) {
  const colour = platformColour(page.platforms[cell.platform]);
  const shade = repetitionLook(cell.repetition).shade;
  return shade > 0 ? mixedColour(colour, theme().text, shade) : colour;
}

/** Say whether a platform has several repetitions among some cells. */
function hasRepetitions(cells) {
  return cells.some((cell) => cell.repetition > 1);
}

/** Keep the room that a figure takes when drawn: what a link leads to would be pushed away by figures drawn above it. */
function reserveHeight(figure) {
  figure.element.style.minHeight = `${figure.height()}px`;
}

/** Give the parts of a layout that all figures share. */
function baseLayout(height) {
  const colours = theme();
  return {
    height,
    // A printer lays the page out anew only after this: paper is narrower than most windows.
    ...(isPrinting ? { width: PAPER_WIDTH } : { autosize: true, width: undefined }),
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 13, color: colours.text },
    hoverlabel: { bgcolor: colours.surface, bordercolor: colours.muted, font: { color: colours.text }, align: "left" },
    hovermode: "closest",
    showlegend: true,
    legend: { orientation: "h", x: 0, xanchor: "left", y: 1, yanchor: "bottom", itemsizing: "constant" },
    margin: { l: 72, r: 16, t: 40, b: 48 },
    // A finger on a figure scrolls the page; the buttons above it zoom.
    dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom",
  };
}

/** Give the parts of an axis that all figures share. */
function baseAxis(more) {
  const colours = theme();
  return { gridcolor: colours.grid, linecolor: colours.grid, zeroline: false, ticks: "", automargin: true, ...more };
}

const PLOT_OPTIONS = {
  displaylogo: false,
  responsive: true,
  doubleClick: false, // handled by each figure, which knows what to draw after a reset
  displayModeBar: false, // it lies over what a figure says at its upper right; the buttons above the figure do the same
};
