// The envelope of a cell: for each of many equal stretches of time (buckets) the shortest and the longest sample and
// when the longest began. Packed by `stealtime.studies.latency.page.packing`; drawn in columns, each of some neighbouring buckets.

/** Undo base64 and zlib. */
async function inflate(base64) {
  const bytes = Uint8Array.from(atob(base64.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Unpack an envelope.
 *
 * `packing` = {buckets, bucket_s, log2_offset, steps_per_octave}. The bytes hold five planes of `buckets`
 * bytes: code of the maximum (high, low), code of the minimum (high, low), when in the bucket the maximum began in
 * 1/256. A code c > 0 stands for 2^(log2_offset + (c - 1) / steps_per_octave) ns; 0 says that the bucket is empty.
 */
function unpackEnvelope(bytes, packing) {
  const count = packing.buckets;
  const maxima = new Float64Array(count);
  const minima = new Float64Array(count);
  const times = new Float64Array(count);
  const decode = (high, low) => {
    const code = (high << 8) | low;
    return code === 0 ? NaN : 2 ** (packing.log2_offset + (code - 1) / packing.steps_per_octave);
  };
  for (let bucket = 0; bucket < count; bucket += 1) {
    maxima[bucket] = decode(bytes[bucket], bytes[count + bucket]);
    minima[bucket] = decode(bytes[2 * count + bucket], bytes[3 * count + bucket]);
    times[bucket] = (bucket + bytes[4 * count + bucket] / 256) * packing.bucket_s;
  }
  return { maxima, minima, times, packing };
}

/** Put the exact worst samples in place of their rounded ones: `worst` = [[at_s, ns], ...], the longest first. */
function sharpenEnvelope(envelope, worst) {
  const { packing } = envelope;
  for (const [at, ns] of [...worst].reverse()) {
    const bucket = Math.min(packing.buckets - 1, Math.max(0, Math.floor(at / packing.bucket_s)));
    // Rounding moves a value by at most half a step; anything further off is another sample of that bucket.
    if (ns >= envelope.maxima[bucket] * 2 ** (-1 / packing.steps_per_octave)) {
      envelope.maxima[bucket] = ns;
      envelope.times[bucket] = at;
      if (envelope.minima[bucket] > ns) envelope.minima[bucket] = ns;
    }
  }
  return envelope;
}

/**
 * Give what to draw between two times in at most `columns` columns. No maximum is lost: each column keeps the longest
 * of its buckets and when it was.
 */
function columnsBetween(envelope, fromS, toS, columns) {
  const { maxima, minima, times, packing } = envelope;
  const first = Math.max(0, Math.floor(fromS / packing.bucket_s));
  const last = Math.min(packing.buckets, Math.ceil(toS / packing.bucket_s));
  const perColumn = Math.max(1, Math.ceil((last - first) / columns));
  const drawn = { times: [], maxima: [], minima: [], column_s: perColumn * packing.bucket_s, buckets: perColumn };
  // Columns begin at a multiple of their width, so that dragging sideways does not make the marks dance.
  for (let start = first - (first % perColumn); start < last; start += perColumn) {
    let longest = -1;
    let shortest = Infinity;
    for (let bucket = Math.max(start, first); bucket < Math.min(start + perColumn, last); bucket += 1) {
      if (Number.isNaN(maxima[bucket]) || times[bucket] < fromS || times[bucket] > toS) continue;
      if (longest < 0 || maxima[bucket] > maxima[longest]) longest = bucket;
      if (minima[bucket] < shortest) shortest = minima[bucket];
    }
    if (longest < 0) continue;
    drawn.times.push(times[longest]);
    drawn.maxima.push(maxima[longest]);
    drawn.minima.push(shortest);
  }
  return drawn;
}
