// Percentile curves and histograms: all platforms of one probe overlaid.

const LOW_AXIS_HEIGHT_PX = 400;

/** Give the horizontal or vertical dashed line of each platform's floor, which its repetitions share. */
function floorLines(cells, page, isVertical) {
  return longestOfEach(cells).map((cell) => ({
    type: "line",
    name: "floor",
    line: { color: platformColour(page.platforms[cell.platform]), width: 1, dash: "dash" },
    opacity: 0.6,
    ...(isVertical
      ? { xref: "x", yref: "paper", x0: cell.floor_ns, x1: cell.floor_ns, y0: 0, y1: 1 }
      : { xref: "paper", yref: "y", x0: 0, x1: 1, y0: cell.floor_ns, y1: cell.floor_ns }),
  }));
}

/** Write a share of samples: 1e-6 -> "1 ppm". */
function formatShare(share) {
  return share >= 1e-4 ? `${Number((share * 100).toPrecision(3))} %` : `${Number((share * 1e6).toPrecision(3))} ppm`;
}

/** Write the percentile that lies `nines` decades up: 3 -> "99.9 %". */
function formatNines(nines) {
  return nines === 0 ? "0 %" : nines === 1 ? "90 %" : `99${nines > 2 ? "." : ""}${"9".repeat(nines - 2)} %`;
}

class DistributionFigure {
  constructor(element, cells, page) {
    this.element = element;
    this.cells = cells;
    this.page = page;
    this.isLogarithmic = true;
  }

  visibleCells() {
    return this.cells.filter((cell) => !this.page.hidden.has(cell.platform));
  }

  height() {
    return LOW_AXIS_HEIGHT_PX;
  }

  /** Colour tells the platform; the dash tells the repetition, or the platform as well where each was measured once. */
  line(cell) {
    const dash = hasRepetitions(this.cells) ? repetitionLook(cell.repetition).dash : this.page.platforms[cell.platform].dash;
    return { color: cellColour(cell, this.page), dash, width: 1.6 };
  }

  async draw() {
    const cells = this.visibleCells();
    const layout = { ...baseLayout(this.height()), showlegend: false, margin: this.margin(cells) };
    await Plotly.react(this.element, this.traces(cells), { ...layout, ...this.axes(cells) }, PLOT_OPTIONS);
    // Where the curves lie is known once they are drawn.
    await Plotly.relayout(this.element, { annotations: this.labels(cells) });
    if (this.isListening) return;
    this.isListening = true;
    this.element.on("plotly_doubleclick", () => this.draw());
  }
}

const LABEL_PX = 13;
const LETTER_PX = 6.4;

/** Give as many values as there are, each at least `gap` from the next and all of them between two ends. */
function spread(values, gap, low, high) {
  const order = values.map((_, index) => index).sort((a, b) => values[a] - values[b]);
  const placed = [...values];
  let least = low;
  for (const index of order) least = (placed[index] = Math.max(placed[index], least)) + gap;
  let most = high;
  for (const index of order.toReversed()) most = (placed[index] = Math.min(placed[index], most)) - gap;
  return placed;
}

class PercentileFigure extends DistributionFigure {
  /** A label for each curve, or for the first of each platform where there is no room for all. */
  labelled(cells) {
    const room = (LOW_AXIS_HEIGHT_PX - 80) / LABEL_PX;
    return cells.length <= room ? cells : cells.filter((cell) => cell.repetition === 1);
  }

  words(cell) {
    const words = hasRepetitions(this.cells) && cell.repetition === 1 ? `${cell.label} r1` : cell.label;
    return this.element.clientWidth < 500 ? words.replace(/^qemu-/, "") : words;
  }

  margin(cells) {
    const longest = Math.max(...this.labelled(cells).map((cell) => this.words(cell).length));
    return { l: 76, r: 26 + LETTER_PX * longest, t: 12, b: 56 };
  }

  labels(cells) {
    const shown = this.labelled(cells);
    const { xaxis, yaxis, _size: size } = this.element._fullLayout;
    const ends = shown.map((cell) => yaxis.d2p(cell.percentiles.ns.at(-1)));
    const places = spread(ends, LABEL_PX, LABEL_PX / 2, size.h - LABEL_PX / 2);
    return shown.map((cell, index) => ({
      // plotly takes the places of annotations on a logarithmic axis as powers of ten.
      x: Math.log10(cell.count),
      y: this.isLogarithmic ? Math.log10(cell.percentiles.ns.at(-1)) : cell.percentiles.ns.at(-1),
      ax: size.w - xaxis.d2p(cell.count) + 8,
      ay: places[index] - ends[index],
      text: this.words(cell),
      name: "curve",
      xanchor: "left",
      showarrow: true,
      arrowhead: 0,
      arrowwidth: 0.8,
      arrowcolor: cellColour(cell, this.page),
      font: { size: 11, color: cellColour(cell, this.page) },
    }));
  }

  traces(cells) {
    return cells.map((cell) => {
      const { tail_share: tails, ns } = cell.percentiles;
      return {
        name: cell.label,
        x: tails.map((tail) => 1 / Math.max(tail, 1 / cell.count)),
        y: ns,
        mode: "lines",
        line: { ...this.line(cell), shape: "hv" },
        text: tails.map((tail, index) => {
          const share = tail === 0 ? "the longest" : `${formatShare(tail)} are longer than`;
          return `<b>${cell.label}</b><br>${share} ${formatDuration(ns[index], 5)}`;
        }),
        hovertemplate: "%{text}<extra></extra>",
      };
    });
  }

  axes(cells) {
    const most = Math.max(...cells.map((cell) => cell.count), 10);
    const nines = Array.from({ length: Math.ceil(Math.log10(most)) + 1 }, (_, index) => index);
    const low = Math.min(...cells.map((cell) => Math.min(cell.percentiles.ns[0], cell.floor_ns)));
    const high = Math.max(...cells.map((cell) => cell.max_ns));
    const [bottom, top] = this.isLogarithmic ? [low * 0.85, high * 1.25] : [0, high * 1.05];
    return {
      xaxis: baseAxis({
        type: "log",
        range: [0, Math.log10(most) + 0.1],
        tickmode: "array",
        tickvals: nines.map((count) => 10 ** count),
        ticktext: nines.map(formatNines),
        tickangle: this.element.clientWidth < 420 ? 45 : 0,
        tickfont: { size: 12 },
        title: { text: "share of samples that are shorter", standoff: 8 },
      }),
      yaxis: baseAxis({
        type: this.isLogarithmic ? "log" : "linear",
        range: this.isLogarithmic ? [Math.log10(bottom), Math.log10(top)] : [bottom, top],
        ...durationTicks(bottom, top, this.isLogarithmic, 7),
      }),
      shapes: floorLines(cells, this.page, false),
    };
  }
}

class HistogramFigure extends DistributionFigure {
  margin(cells) {
    return { l: 76, r: 30, t: 12 + 16 * new Set(cells.map((cell) => cell.platform)).size, b: 56 };
  }

  /** Name each platform right of a line up from its highest bin, the leftmost highest, so that no line meets a name. */
  labels(cells) {
    const { yaxis } = this.element._fullLayout;
    const peaks = longestOfEach(cells).map((cell) => {
      const { edges_ns: edges, counts } = cell.histogram;
      const peak = counts.indexOf(Math.max(...counts));
      return { cell, duration: Math.sqrt(edges[peak] * edges[peak + 1]), share: counts[peak] / cell.count };
    });
    peaks.sort((one, other) => other.duration - one.duration);
    return peaks.map(({ cell, duration, share }, level) => ({
      x: Math.log10(duration),
      y: this.isLogarithmic ? Math.log10(share) : share,
      ax: 0,
      ay: -10 - 16 * level - yaxis.d2p(share),
      text: this.page.platforms[cell.platform].label,
      name: "curve",
      xanchor: "left",
      showarrow: true,
      arrowhead: 0,
      arrowwidth: 0.8,
      arrowcolor: platformColour(this.page.platforms[cell.platform]),
      font: { size: 12, color: platformColour(this.page.platforms[cell.platform]) },
    }));
  }

  traces(cells) {
    const nothing = this.isLogarithmic ? 1e-12 : 0;
    return cells.map((cell) => {
      const { edges_ns: edges, counts } = cell.histogram;
      return {
        name: cell.label,
        // The outline: a step from each lower edge to the next, down to under the axis where a bin is empty.
        x: [edges[0], ...edges],
        y: [nothing, ...counts.map((count) => (count > 0 ? count / cell.count : nothing)), nothing],
        mode: "lines",
        line: { ...this.line(cell), shape: "hv" },
        text: ["", ...counts].map((count, index) =>
          count === "" ? "" : `<b>${cell.label}</b><br>${count.toLocaleString("en")} samples (${formatShare(count / cell.count)})` +
            `<br>of ${formatDuration(edges[index - 1])} to ${formatDuration(edges[index])}`,
        ),
        hovertemplate: "%{text}<extra></extra>",
      };
    });
  }

  axes(cells) {
    const low = Math.min(...cells.map((cell) => cell.histogram.edges_ns[0]));
    const high = Math.max(...cells.map((cell) => cell.histogram.edges_ns.at(-1)));
    const [left, right] = [low * 0.85, high * 1.2];
    const least = Math.min(...cells.map((cell) => 1 / cell.count));
    const powers = Array.from({ length: Math.ceil(-Math.log10(least)) + 1 }, (_, index) => 10 ** -index);
    return {
      xaxis: baseAxis({
        type: "log",
        range: [Math.log10(left), Math.log10(right)],
        ...durationTicks(left, right, true, this.element.clientWidth < 600 ? 4 : 9),
        title: { text: "duration", standoff: 8 },
      }),
      yaxis: baseAxis({
        type: this.isLogarithmic ? "log" : "linear",
        ...(this.isLogarithmic
          ? { range: [Math.log10(least) - 0.3, 0.1], tickmode: "array", tickvals: powers, ticktext: powers.map(formatShare) }
          : { rangemode: "tozero", tickformat: ".0%" }),
        title: { text: "share of samples", standoff: 8 },
      }),
      shapes: floorLines(cells, this.page, true),
    };
  }
}
