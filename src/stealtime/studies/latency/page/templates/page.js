// Brings the page to life: unpacks what is embedded, draws each figure when it comes into view, wires the controls.

/** Read a block of JSON that the page holds. */
function embeddedJson(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

/** Write a name so that plotly, which reads some tags in texts, shows it as it is. */
function asPlainText(name) {
  return name.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** What all figures share. */
class Page {
  constructor(content) {
    this.platforms = content.platforms;
    for (const named of [...Object.values(content.platforms), ...content.groups.flatMap((group) => group.cells)]) {
      named.label = asPlainText(named.label);
    }
    this.hidden = new Set();
    this.figures = []; // {element, figure, isDrawn}
  }

  /** Unpack the envelope of a cell, once. */
  envelopeOf(cell) {
    cell.unpacking ??= inflate(document.getElementById(cell.envelope.element).textContent).then((bytes) => {
      cell.unpacked = sharpenEnvelope(unpackEnvelope(bytes, cell.envelope), cell.worst);
    });
    return cell.unpacking;
  }

  /** Unpack every envelope while there is nothing else to do: paper is drawn at once, and waits for none. */
  async unpackAll(cells) {
    for (const cell of cells) {
      await new Promise((done) => requestIdleCallback(done, { timeout: 1000 }));
      await this.envelopeOf(cell);
    }
    document.documentElement.dataset.unpacked = "all";
  }

  async drawAll(onlyDrawn) {
    for (const entry of this.figures) {
      if (onlyDrawn && !entry.isDrawn) continue;
      // What is folded away has no size to draw into.
      if (entry.element.offsetParent === null) continue;
      entry.isDrawn = true;
      await entry.figure.draw();
    }
  }

  toggle(platform) {
    if (!this.hidden.delete(platform)) this.hidden.add(platform);
    // With nothing left to show there would be nothing to read: show all again.
    if (this.hidden.size === Object.keys(this.platforms).length) this.hidden.clear();
    for (const button of document.querySelectorAll("[data-platform]")) {
      button.setAttribute("aria-pressed", String(!this.hidden.has(button.dataset.platform)));
    }
    return this.drawAll(true);
  }
}

/** Say what the shaded stretches are, and where they are not known. */
function describeBands(cells) {
  const beside = cells.filter((cell) => cell.neighbours);
  const unknown = beside.filter((cell) => cell.neighbours.absent_because);
  const leftOut = beside.reduce((sum, cell) => sum + cell.neighbours.left_out, 0);
  let words = beside.length > unknown.length ? " Shaded: a neighbour's load was on." : "";
  if (leftOut > 0) words += ` ${leftOut.toLocaleString("en")} later stretches are not shaded.`;
  for (const cell of unknown) words += ` ${cell.platform}: when neighbours were on is not known, ${cell.neighbours.absent_because}.`;
  return words;
}

/** Say in words how much time one mark stands for. */
function describeResolution(status, drawn, isZoomed, cells) {
  const filled = drawn.filter((columns) => columns.times.length > 0);
  if (filled.length === 0) {
    status.textContent = "No sample began in this stretch of time.";
    return;
  }
  const widest = filled.reduce((most, columns) => (columns.column_s > most.column_s ? columns : most));
  const detail = widest.buckets === 1 ? ", the finest that this file holds" : "; zoom in for more";
  const signs = [...new Set(cells.map((cell) => cell.repetition))].map((one) => `${repetitionLook(one).sign} ${one}`);
  const repetitions = hasRepetitions(cells) ? ` Repetitions: ${signs.join(", ")}.` : "";
  status.textContent =
    `${isZoomed ? "Zoomed. " : ""}Each mark is the longest sample of at most ` +
    `${formatDuration(widest.column_s * 1e9, 3)}${detail}. Diamonds are exact.${repetitions}${describeBands(cells)}`;
}

function wireTimeFigure(container, figure, cells) {
  const actions = {
    in: () => figure.zoom(1 / 3),
    out: () => figure.zoom(3),
    left: () => figure.pan(-0.5),
    right: () => figure.pan(0.5),
    reset: () => figure.show(null),
    save: () => Plotly.downloadImage(figure.element, { format: "svg", filename: container.dataset.group }),
  };
  for (const button of container.querySelectorAll("[data-action]")) {
    button.addEventListener("click", () => actions[button.dataset.action]());
  }
  container.querySelector("[data-role=stacked]").addEventListener("change", (event) => {
    figure.isStacked = event.target.checked;
    figure.draw();
  });
  const select = container.querySelector("[data-role=maximum]");
  select.addEventListener("change", () => {
    const cell = cells.find((candidate) => candidate.id === select.value);
    if (cell) figure.showMaximum(cell);
    else figure.show(null);
  });
}

function wireFigure(page, container, groups) {
  const cells = groups.find((group) => group.id === container.dataset.group).cells;
  const element = container.querySelector(".plot");
  const kinds = { time: TimeFigure, percentiles: PercentileFigure, histogram: HistogramFigure };
  const status = container.querySelector("[data-role=status]");
  const figure = new kinds[container.dataset.figure](element, cells, page, (drawn, isZoomed) =>
    describeResolution(status, drawn, isZoomed, cells),
  );
  element.figure = figure;
  reserveHeight(figure);
  container.querySelector("[data-role=logarithmic]").addEventListener("change", (event) => {
    figure.isLogarithmic = event.target.checked;
    figure.draw();
  });
  if (container.dataset.figure === "time") wireTimeFigure(container, figure, cells);
  const entry = { element, figure, isDrawn: false };
  page.figures.push(entry);
  return entry;
}

/** Add the library of figures to the page. It is embedded compressed: that saves 3 MB. */
async function loadLibrary() {
  const bytes = await inflate(document.getElementById("figure-library").textContent);
  const script = document.createElement("script");
  script.textContent = new TextDecoder().decode(bytes);
  document.head.append(script);
  script.remove();
}

async function start() {
  const content = embeddedJson("report-content");
  const page = new Page(content);
  await loadLibrary();
  const entries = new Map();
  for (const container of document.querySelectorAll("[data-figure]")) {
    entries.set(container, wireFigure(page, container, content.groups));
  }
  for (const button of document.querySelectorAll("[data-platform]")) {
    button.addEventListener("click", () => page.toggle(button.dataset.platform));
  }
  const observer = new IntersectionObserver(
    (seen) => {
      for (const { isIntersecting, target } of seen) {
        const entry = entries.get(target);
        if (!isIntersecting || entry.isDrawn) continue;
        entry.isDrawn = true;
        entry.figure.draw();
      }
    },
    { rootMargin: "600px 0px" },
  );
  for (const container of entries.keys()) observer.observe(container);
  const causes = document.getElementById("causes");
  if (causes) new CauseSection(causes).wire();
  window.addEventListener("hashchange", openTarget);
  if (location.hash) openTarget();
  darkScheme.addEventListener("change", () => page.drawAll(true));
  window.addEventListener("beforeprint", () => {
    isPrinting = true;
    page.drawAll(false);
  });
  window.addEventListener("afterprint", () => {
    isPrinting = false;
    page.drawAll(true);
  });
  // A narrower or wider window has room for fewer or more marks.
  let waiting = null;
  window.addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => page.drawAll(true), 200);
  });
  document.documentElement.dataset.state = "ready";
  await page.unpackAll(content.groups.flatMap((group) => group.cells));
}

start().catch((error) => {
  document.documentElement.dataset.state = "failed";
  const notice = document.getElementById("script-failure");
  notice.hidden = false;
  notice.textContent = `The figures could not be drawn: ${error.message}. The tables below are complete.`;
  console.error(error);
});
