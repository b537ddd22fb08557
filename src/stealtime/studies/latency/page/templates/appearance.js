// Colours of the page's theme as the figures need them, and what all figures have in common.

const darkScheme = window.matchMedia("(prefers-color-scheme: dark)");
let isPrinting = false;

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

/** Keep the room that a figure takes when drawn: what a link leads to would be pushed away by figures drawn above it. */
function reserveHeight(figure) {
  figure.element.style.minHeight = `${figure.height()}px`;
}

/** Give the parts of a layout that all figures share. */
function baseLayout(height) {
  const colours = theme();
  return {
    height,
    autosize: true,
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
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", "pan2d", "resetScale2d", "zoom2d"],
  toImageButtonOptions: { format: "svg" },
};
