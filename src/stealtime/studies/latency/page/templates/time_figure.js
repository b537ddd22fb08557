// Duration against time: one row a platform (or all in one), every maximum kept at every zoom.

const ROW_HEIGHT_PX = 150;
const ROW_GAP_PX = 26;
const OVERLAID_HEIGHT_PX = 420;
const MARGIN = { l: 76, r: 14, t: 8, b: 52 };
const PIXELS_PER_COLUMN = 3;
const ROW_LETTER_PX = 7.5; // of the texts above a row, the wider of both sizes
const EXACT_MARKS = 12; // of each trial within what is shown; more would hide the rest

/** Shade when a neighbour's load was on, behind the row of a cell. */
function neighbourBands(cell, row, range) {
  const yref = `${row === 0 ? "y" : `y${row + 1}`} domain`;
  return (cell.neighbours?.spans_s ?? [])
    .filter(([from, to]) => to >= range[0] && from <= range[1])
    .map(([from, to]) => ({
      type: "rect", xref: "x", yref, layer: "below", y0: 0, y1: 1, name: "neighbour",
      x0: Math.max(from, 0), x1: Math.min(to, cell.envelope.end_s),
      fillcolor: theme().neighbour, opacity: 0.5, line: { width: 0 },
    }))
    .filter((band) => band.x1 > band.x0);
}

/** Give of each platform the cell that went on longest. */
function longestOfEach(cells) {
  const found = new Map();
  for (const cell of cells) {
    const known = found.get(cell.platform);
    if (!known || known.envelope.end_s < cell.envelope.end_s) found.set(cell.platform, cell);
  }
  return [...found.values()];
}

class TimeFigure {
  /**
   * `element`: where to draw. `cells`: those of one probe and its parameters. `page`: the state all figures share
   * (`platforms`, `hidden`). `onDrawn(columns)` is told how much time a mark stands for.
   */
  constructor(element, cells, page, onDrawn) {
    this.element = element;
    this.cells = cells;
    this.page = page;
    this.onDrawn = onDrawn;
    this.isLogarithmic = true;
    this.isStacked = true;
    this.range = null;
    this.isListening = false;
  }

  visibleCells() {
    return this.cells.filter((cell) => !this.page.hidden.has(cell.platform));
  }

  fullRange() {
    const end = Math.max(...this.visibleCells().map((cell) => cell.envelope.end_s), 1e-6);
    return [-0.004 * end, 1.004 * end];
  }

  /** Give the names of the rows, from the top. */
  rows() {
    return this.isStacked ? [...new Set(this.visibleCells().map((cell) => cell.platform))] : ["all"];
  }

  plotHeight() {
    return this.isStacked ? this.rows().length * (ROW_HEIGHT_PX + ROW_GAP_PX) : OVERLAID_HEIGHT_PX;
  }

  height() {
    return this.plotHeight() + MARGIN.t + MARGIN.b;
  }

  /** Show the time from `from` to `to`, or all of it. */
  async show(range) {
    this.range = range;
    await this.draw();
  }

  /** Zoom about the middle of what is shown: a factor under 1 goes closer. */
  async zoom(factor) {
    const [from, to] = this.range ?? this.fullRange();
    const [first, last] = this.fullRange();
    const middle = (from + to) / 2;
    const half = ((to - from) / 2) * factor;
    const range = [Math.max(first, middle - half), Math.min(last, middle + half)];
    await this.show(range[0] <= first && range[1] >= last ? null : range);
  }

  /** Move what is shown sideways by a share of its width. */
  async pan(share) {
    const [from, to] = this.range ?? this.fullRange();
    await this.show([from + share * (to - from), to + share * (to - from)]);
  }

  /** Zoom to the longest sample of a cell. */
  async showMaximum(cell) {
    const [first, last] = this.fullRange();
    const half = Math.max((last - first) / 200, (cell.max_ns / 1e9) * 4);
    await this.show([cell.max_at_s - half, cell.max_at_s + half]);
  }

  async draw() {
    await Promise.all(this.cells.map((cell) => this.page.envelopeOf(cell)));
    const cells = this.visibleCells();
    const [from, to] = this.range ?? this.fullRange();
    const width = Math.max(200, this.element.clientWidth - 100);
    const columns = Math.floor(width / PIXELS_PER_COLUMN);
    const drawn = cells.map((cell) => columnsBetween(cell.unpacked, from, to, columns));

    const rows = this.rows();
    const rowOf = (cell) => (this.isStacked ? rows.indexOf(cell.platform) : 0);
    const traces = cells.flatMap((cell, index) => this.traces(cell, drawn[index], rowOf(cell), from, to));
    const layout = this.layout(cells, drawn, rows, rowOf, [from, to]);
    reserveHeight(this);
    await Plotly.react(this.element, traces, layout, PLOT_OPTIONS);
    this.listen();
    this.onDrawn(drawn, this.range !== null);
  }

  traces(cell, drawn, row, from, to) {
    const platform = this.page.platforms[cell.platform];
    const colour = cellColour(cell, this.page);
    // In a row of its own a platform is known by its row, and its marks tell the repetitions apart.
    const symbol = this.isStacked && hasRepetitions(this.cells) ? repetitionLook(cell.repetition).symbol : platform.symbol;
    const shared = { xaxis: "x", yaxis: row === 0 ? "y" : `y${row + 1}`, name: cell.label, legendgroup: cell.platform };
    const bars = { x: [], y: [] };
    drawn.times.forEach((time, index) => {
      if (drawn.maxima[index] < drawn.minima[index] * 1.01) return;
      bars.x.push(time, time, null);
      bars.y.push(drawn.minima[index], drawn.maxima[index], null);
    });
    const worst = cell.worst.filter(([at]) => at >= from && at <= to).slice(0, this.element.clientWidth < 600 ? EXACT_MARKS / 2 : EXACT_MARKS);
    const resolution = formatDuration(drawn.column_s * 1e9, 3);
    return [
      { ...shared, ...bars, mode: "lines", line: { color: colour, width: 1 }, opacity: 0.3, hoverinfo: "skip" },
      {
        ...shared,
        x: drawn.times,
        y: drawn.maxima,
        mode: "markers",
        meta: "maxima",
        marker: { color: colour, size: symbol.endsWith("open") ? 5 : 4, symbol, opacity: 0.85, line: { color: colour, width: 1 } },
        text: drawn.times.map(
          (time, index) =>
            `<b>${cell.label}</b><br>longest ${formatDuration(drawn.maxima[index])} at ${formatMoment(time)}` +
            `<br>shortest ${formatDuration(drawn.minima[index])}<br>within ${resolution}`,
        ),
        hovertemplate: "%{text}<extra></extra>",
      },
      {
        ...shared,
        x: worst.map(([at]) => at),
        y: worst.map(([, ns]) => ns),
        mode: "markers",
        meta: "worst",
        marker: { color: "rgba(0,0,0,0)", size: 9, symbol: "diamond", line: { color: colour, width: 1.5 } },
        text: worst.map(
          ([at, ns]) =>
            `<b>${cell.label}</b>, no. ${cell.worst.findIndex((other) => other[0] === at) + 1} of the longest<br>` +
            `exactly ${formatExactly(ns)}<br>at ${at.toFixed(9)} s` +
            `<br>${formatDuration(ns - cell.floor_ns)} over the floor`,
        ),
        hovertemplate: "%{text}<extra></extra>",
      },
    ];
  }

  layout(cells, drawn, rows, rowOf, range) {
    const colours = theme();
    const plotHeight = this.plotHeight();
    const layout = { ...baseLayout(this.height()), margin: MARGIN, showlegend: false, shapes: [], annotations: [] };
    const span = range[1] - range[0];
    layout.xaxis = baseAxis({
      range,
      title: { text: "time since the first sample (s)", standoff: 8 },
      anchor: rows.length > 1 ? `y${rows.length}` : "y",
      tickformat: span < 1e-3 ? ".7f" : span < 0.1 ? ".5f" : undefined,
      nticks: this.element.clientWidth < 500 ? 4 : 9,
    });
    const values = drawn.flatMap((columns) => [...columns.minima, ...columns.maxima]);
    const floors = cells.map((cell) => cell.floor_ns);
    const low = [...values, ...floors].reduce((least, value) => Math.min(least, value), Infinity);
    const high = values.reduce((most, value) => Math.max(most, value), low * 1.01);
    const [bottom, top] = this.isLogarithmic ? [low / (high / low) ** 0.06, high * (high / low) ** 0.1] : [0, high * 1.08];
    rows.forEach((platformName, row) => {
      const upper = 1 - (row * (ROW_HEIGHT_PX + ROW_GAP_PX) + (this.isStacked ? ROW_GAP_PX : 0)) / plotHeight;
      const height = (this.isStacked ? ROW_HEIGHT_PX : OVERLAID_HEIGHT_PX) / plotHeight;
      layout[row === 0 ? "yaxis" : `yaxis${row + 1}`] = baseAxis({
        type: this.isLogarithmic ? "log" : "linear",
        range: this.isLogarithmic ? [Math.log10(bottom), Math.log10(top)] : [bottom, top],
        domain: [Math.max(0, upper - height), upper],
        fixedrange: true,
        ...durationTicks(bottom, top, this.isLogarithmic),
      });
      if (this.isStacked) this.describeRow(layout, platformName, cells, upper);
    });
    layout.shapes.push(...cells.flatMap((cell) => neighbourBands(cell, rowOf(cell), range)));
    // A cell has one floor; its repetitions share the line of the longest.
    for (const cell of longestOfEach(cells)) {
      if (range[0] > cell.envelope.end_s || range[1] < 0) continue;
      const colour = platformColour(this.page.platforms[cell.platform]);
      layout.shapes.push({
        type: "line", name: "floor", x0: Math.max(0, range[0]), x1: Math.min(cell.envelope.end_s, range[1]),
        xref: "x", yref: rowOf(cell) === 0 ? "y" : `y${rowOf(cell) + 1}`,
        y0: cell.floor_ns, y1: cell.floor_ns, line: { color: this.isStacked ? colours.muted : colour, width: 1, dash: "dash" },
      });
    }
    return layout;
  }

  /** Label a row: its platform, its floor and its longest sample. */
  describeRow(layout, platformName, cells, upper) {
    const platform = this.page.platforms[platformName];
    const own = cells.filter((cell) => cell.platform === platformName);
    const worst = own.reduce((most, cell) => (cell.max_ns > most.max_ns ? cell : most));
    const isNarrow = this.element.clientWidth < 600;
    const shared = { xref: "paper", yref: "paper", y: upper, yanchor: "bottom", showarrow: false };
    const repetitions = own.map((cell) => `${repetitionLook(cell.repetition).sign} r${cell.repetition}`).join("  ");
    const isKeyed = !isNarrow && hasRepetitions(own);
    const key = isKeyed ? `  <span style="font-size: 12px">${repetitions}</span>` : "";
    const longest = `max ${formatDuration(worst.max_ns)}`;
    const whole = `floor ${formatDuration(worst.floor_ns)} (dashed), ${longest} at ${formatMoment(worst.max_at_s)}`;
    // Both texts stand on one line: as wide as paper, there is no room for all.
    const letters = platform.label.length + (isKeyed ? repetitions.length : 0) + whole.length;
    const hasRoom = !isNarrow && letters * ROW_LETTER_PX < this.element.clientWidth - MARGIN.l - MARGIN.r;
    layout.annotations.push(
      { ...shared, x: 0, xanchor: "left", text: `<b>${platform.label}</b>${key}`, font: { color: platformColour(platform) } },
      {
        ...shared,
        x: 1,
        xanchor: "right",
        text: hasRoom ? whole : longest,
        font: { color: theme().muted, size: 12 },
      },
    );
  }

  listen() {
    if (this.isListening) return;
    this.isListening = true;
    this.element.on("plotly_relayout", (change) => {
      if (change["xaxis.range[0]"] !== undefined) this.show([change["xaxis.range[0]"], change["xaxis.range[1]"]]);
      else if (change["xaxis.range"] !== undefined) this.show(change["xaxis.range"]);
      else if (change["xaxis.autorange"]) this.show(null);
    });
    this.element.on("plotly_doubleclick", () => this.show(null));
  }
}
