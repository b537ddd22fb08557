// Durations and times as people read them, and the ticks of an axis of durations.

const DURATION_UNITS = [
  { unit: "ns", ns: 1 },
  { unit: "µs", ns: 1e3 },
  { unit: "ms", ns: 1e6 },
  { unit: "s", ns: 1e9 },
];

/** Write a duration with `digits` significant digits in the unit that fits: 50128345 -> "50.13 ms". */
function formatDuration(ns, digits = 4) {
  if (ns === 0) return "0";
  const size = Math.abs(ns);
  // 999.97 ns with four digits would read "1000 ns": take the larger unit already then.
  const rounded = Number(size.toPrecision(digits));
  const chosen = DURATION_UNITS.findLast((candidate) => rounded >= candidate.ns) ?? DURATION_UNITS[0];
  return `${Number((ns / chosen.ns).toPrecision(digits))} ${chosen.unit}`;
}

/** Write a duration to the tenth of a nanosecond: 50128345.25 -> "50,128,345.3 ns". */
function formatExactly(ns) {
  return `${ns.toLocaleString("en", { maximumFractionDigits: 1 })} ns`;
}

/** Write a point in time with microseconds, thousands apart: 3.217345 -> "3.217 345 s". */
function formatMoment(seconds) {
  const [whole, fraction] = seconds.toFixed(6).split(".");
  return `${whole}.${fraction.slice(0, 3)}\u2009${fraction.slice(3)} s`;
}

/** Give the ticks of a linear axis from `low` to `high`: steps of 1, 2 or 5 times a power of ten. */
function linearTicks(low, high, wanted) {
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const ticks = [];
  for (let index = Math.ceil(low / step); index * step <= high * (1 + 1e-9); index += 1) ticks.push(index * step);
  return ticks;
}

/** Give the ticks of a logarithmic axis: decades, with 2 and 5 between them where there is room. */
function logarithmicTicks(low, high, wanted) {
  const decades = Math.log10(high / low);
  if (decades < 0.7) return linearTicks(low, high, wanted);
  const factors = decades < 2 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil(decades / wanted));
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += every) {
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) ticks.push(value);
    }
  }
  return ticks;
}

/** Give plotly's description of the ticks of an axis of durations that runs from `low` to `high` ns. */
function durationTicks(low, high, isLogarithmic, wanted = 5) {
  const ticks = isLogarithmic ? logarithmicTicks(low, high, wanted) : linearTicks(low, high, wanted);
  const span = high - low;
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : span;
  const digits = Math.max(3, Math.ceil(Math.log10(Math.max(Math.abs(high), 1) / Math.max(step, 1e-3))) + 1);
  return { tickmode: "array", tickvals: ticks, ticktext: ticks.map((value) => formatDuration(value, digits)) };
}
