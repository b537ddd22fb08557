// A spike as a small time line: what ran in the machine and on the host, on one axis from the spike's start to its end.

const SPIKE_WIDTH = 1000; // of the drawing's own coordinates; it is stretched to the room there is
const SPIKE_LEAST = 2; // a segment too short to see is drawn this wide, a five-hundredth of the figure
const SVG = "http://www.w3.org/2000/svg";

/** Make an element with a class and text. */
function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Say what a segment is, for a tooltip: `segment` = {from, ns, family, text}. */
function describeSegment(segment) {
  return `${segment.text}\n${formatDuration(segment.ns)}, from ${formatDuration(segment.from)} on`;
}

/** Draw one track: a bar of segments in their time order, coloured by cause; grey where the probe ran. */
function drawTrack(track, duration) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${SPIKE_WIDTH} 10`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  for (const segment of track.segments) {
    const rectangle = document.createElementNS(SVG, "rect");
    const width = Math.max((segment.ns / duration) * SPIKE_WIDTH, SPIKE_LEAST);
    const x = Math.min((segment.from / duration) * SPIKE_WIDTH, SPIKE_WIDTH - width);
    for (const [name, value] of Object.entries({ x, y: 0, width, height: 10 })) rectangle.setAttribute(name, value);
    rectangle.dataset.cause = segment.family;
    rectangle.dataset.tip = describeSegment(segment);
    svg.append(rectangle);
  }
  return svg;
}

/** Draw all tracks of a spike with their names, and an axis below if there is room for one. */
function drawSpike(spike, hasAxis) {
  const figure = make("div", "spike-figure");
  for (const track of spike.tracks) {
    figure.append(make("span", "track-name", track.name));
    if (track.segments.length > 0) figure.append(drawTrack(track, spike.duration_ns));
    else figure.append(make("span", "track-empty none", "nothing was traced here"));
  }
  if (hasAxis) {
    figure.append(make("span"));
    const axis = make("div", "spike-axis");
    for (const tick of linearTicks(0, spike.duration_ns, window.innerWidth < 600 ? 3 : 6)) {
      // The last label would stick out of the figure.
      if (tick > spike.duration_ns * 0.96) continue;
      const label = make("span", "", formatDuration(tick, 3));
      label.style.left = `${(100 * tick) / spike.duration_ns}%`;
      axis.append(label);
    }
    figure.append(axis);
  }
  return figure;
}

/** Say in a line what a spike was: "1. 52.30 ms at 3.217 345 s". */
function spikeTitle(spike, number) {
  const repetition = spike.repetition === null ? "" : ` of repetition ${spike.repetition}`;
  return `${number}. ${formatDuration(spike.duration_ns)} at ${formatMoment(spike.at_s)}${repetition}`;
}

/** Say whose fault most of a spike was. */
function spikeVerdict(spike) {
  if (!spike.is_judged) return "not judged: events were lost here";
  if (spike.parts.length === 0) return "no excess";
  const largest = spike.parts.reduce((most, part) => (part.ns > most.ns ? part : most));
  return `${Math.round((100 * largest.ns) / spike.excess_ns)} % ${largest.label}`;
}

/** Make the button that shows a spike small. */
function spikeButton(spike, number, onOpen) {
  const button = make("button", "spike");
  button.type = "button";
  button.append(make("b", "", spikeTitle(spike, number)), make("span", "verdict", spikeVerdict(spike)), drawSpike(spike, false));
  button.setAttribute("aria-label", `${spikeTitle(spike, number)}, ${spikeVerdict(spike)}. Enlarge.`);
  button.addEventListener("click", () => onOpen());
  return button;
}

/** Give the swatch and words of a cause. */
function causeWords(family, words) {
  const cell = make("span");
  cell.append(make("span", "swatch"), words);
  cell.dataset.cause = family;
  return cell;
}

/** Make a table from its headings and rows of texts or elements. */
function makeTable(className, headings, rows) {
  const table = make("table", className);
  const head = table.createTHead().insertRow();
  for (const heading of headings) head.append(make("th", "", heading));
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const content of row) line.insertCell().append(content);
  }
  return table;
}

/** The parts of a spike's excess and their sum, so that the reader can add them up. */
function partsTable(spike) {
  const rows = spike.parts.map((part) => [
    causeWords(part.family, part.label),
    formatWhole(part.ns),
    `${((100 * part.ns) / spike.excess_ns).toFixed(1)} %`,
  ]);
  rows.push([make("b", "", spike.is_judged ? "excess, their sum" : "excess, not judged"), make("b", "", formatWhole(spike.excess_ns)), ""]);
  return makeTable("causes", ["cause", "lost", "share"], rows);
}

/** Every segment of a spike in words. */
function segmentsTable(spike) {
  const rows = spike.tracks.flatMap((track) =>
    track.segments.map((segment) => [track.name, formatDuration(segment.from), formatDuration(segment.ns), causeWords(segment.family, segment.text)]),
  );
  return makeTable("causes segments", ["track", "from", "for", "what"], rows);
}

/** Write a duration in whole nanoseconds, thousands apart. */
function formatWhole(ns) {
  return `${Math.round(ns).toLocaleString("en")} ns`;
}
