import { deflateSync, crc32, inflateSync } from 'node:zlib';

/** An image with 8 bits per channel, rows from top to bottom. */
interface Image {
  readonly width: number;
  readonly height: number;
  /** One 24-bit colour per pixel. */
  readonly colours: Uint32Array;
}

const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const maxColours = 256;

/** Encodes an opaque PNG again with a palette of at most 256 colours: about a third of the bytes for a page of text. */
export function toPalettePng(png: Buffer): Buffer {
  const { width, height, colours } = decode(png);
  const counts = new Map<number, number>();
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const palette = choosePalette(counts);
  const indexes = new Map<number, number>();
  for (const colour of counts.keys()) indexes.set(colour, nearest(palette, colour));
  const rows = Buffer.alloc((width + 1) * height);
  for (let at = 0; at < colours.length; at += 1) {
    const row = Math.floor(at / width);
    rows[at + row + 1] = indexes.get(colours[at] ?? 0) ?? 0;
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  const bytes = palette.flatMap((colour) => channels(colour));
  return Buffer.concat([
    signature,
    chunk('IHDR', header),
    chunk('PLTE', Buffer.from(bytes)),
    chunk('IDAT', deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk('IEND', Buffer.alloc(0)),
  ]);
}

function channels(colour: number): readonly [number, number, number] {
  return [(colour >> 16) & 255, (colour >> 8) & 255, colour & 255];
}

/** Median cut: divides the largest box of colours at the median of its longest side. */
function choosePalette(counts: ReadonlyMap<number, number>): readonly number[] {
  // Colours of large areas are exact.
  const exact = [...counts].toSorted((a, b) => b[1] - a[1]).slice(0, maxColours / 2);
  const palette = exact.map(([colour]) => colour);
  const taken = new Set(palette);
  let boxes = [[...counts.keys()].filter((colour) => !taken.has(colour))].filter(
    ({ length }) => length > 0,
  );
  while (boxes.length > 0 && boxes.length < maxColours - palette.length) {
    const [largest] = boxes.toSorted((a, b) => side(b).length - side(a).length);
    if (largest === undefined || largest.length < 2) break;
    const { shift } = side(largest);
    const sorted = largest.toSorted((a, b) => ((a >> shift) & 255) - ((b >> shift) & 255));
    const middle = sorted.length >> 1;
    boxes = boxes.filter((box) => box !== largest);
    boxes.push(sorted.slice(0, middle), sorted.slice(middle));
  }
  return [...palette, ...boxes.map(average)];
}

/** The channel in which the colours of a box differ most. */
function side(box: readonly number[]): { readonly shift: number; readonly length: number } {
  const sides = [16, 8, 0].map((shift) => {
    const values = box.map((colour) => (colour >> shift) & 255);
    const spread = values.reduce((most, value) => Math.max(most, value), 0);
    return { shift, length: spread - values.reduce((least, value) => Math.min(least, value), 255) };
  });
  return sides.toSorted((a, b) => b.length - a.length)[0] ?? { shift: 0, length: 0 };
}

function average(box: readonly number[]): number {
  const mean = (shift: number): number =>
    Math.round(box.reduce((sum, colour) => sum + ((colour >> shift) & 255), 0) / box.length);
  return (mean(16) << 16) | (mean(8) << 8) | mean(0);
}

function nearest(palette: readonly number[], colour: number): number {
  const [red, green, blue] = channels(colour);
  let best = 0;
  let least = Number.POSITIVE_INFINITY;
  for (const [index, other] of palette.entries()) {
    const [r, g, b] = channels(other);
    const distance = (r - red) ** 2 + (g - green) ** 2 + (b - blue) ** 2;
    if (distance < least) [best, least] = [index, distance];
  }
  return best;
}

/** Decodes the PNG files that Chromium writes: 8 bits, with or without alpha, not interlaced. */
function decode(png: Buffer): Image {
  const data: Buffer[] = [];
  let header = Buffer.alloc(13);
  for (let at = signature.length; at < png.length;) {
    const length = png.readUInt32BE(at);
    const type = png.toString('latin1', at + 4, at + 8);
    const body = png.subarray(at + 8, at + 8 + length);
    if (type === 'IHDR') header = Buffer.from(body);
    if (type === 'IDAT') data.push(body);
    at += length + 12;
  }
  const [width, height] = [header.readUInt32BE(0), header.readUInt32BE(4)];
  const size = new Map([
    [2, 3],
    [6, 4],
  ]).get(header[9] ?? -1);
  if (header[8] !== 8 || size === undefined || header[12] !== 0) {
    throw new Error('Unsupported PNG: expected 8 bits per channel and no interlacing.');
  }
  const pixels = unfilter(inflateSync(Buffer.concat(data)), width * size, size);
  const colours = Uint32Array.from({ length: width * height }, (_, at) =>
    pixels.readUIntBE(at * size, 3),
  );
  return { width, height, colours };
}

/** Undoes the filters of the rows. */
function unfilter(raw: Buffer, rowBytes: number, pixelBytes: number): Buffer {
  const height = raw.length / (rowBytes + 1);
  const out = Buffer.alloc(rowBytes * height);
  for (let row = 0; row < height; row += 1) {
    const filter = raw[row * (rowBytes + 1)];
    for (let column = 0; column < rowBytes; column += 1) {
      const at = row * rowBytes + column;
      const left = column < pixelBytes ? 0 : (out[at - pixelBytes] ?? 0);
      const above = row === 0 ? 0 : (out[at - rowBytes] ?? 0);
      const corner = row === 0 || column < pixelBytes ? 0 : (out[at - rowBytes - pixelBytes] ?? 0);
      const predicted = predict(filter, left, above, corner);
      out[at] = (raw[row * (rowBytes + 1) + 1 + column] ?? 0) + predicted;
    }
  }
  return out;
}

function predict(filter: number | undefined, left: number, above: number, corner: number): number {
  if (filter === 1) return left;
  if (filter === 2) return above;
  if (filter === 3) return (left + above) >> 1;
  if (filter !== 4) return 0;
  const estimate = left + above - corner;
  const [a, b, c] = [left, above, corner].map((value) => Math.abs(estimate - value));
  if ((a ?? 0) <= (b ?? 0) && (a ?? 0) <= (c ?? 0)) return left;
  return (b ?? 0) <= (c ?? 0) ? above : corner;
}

function chunk(type: string, body: Buffer): Buffer {
  const bytes = Buffer.concat([Buffer.from(type, 'latin1'), body]);
  const framed = Buffer.alloc(bytes.length + 8);
  framed.writeUInt32BE(body.length, 0);
  framed.set(bytes, 4);
  framed.writeUInt32BE(crc32(bytes), bytes.length + 4);
  return framed;
}
