import type { Box, Edge, Placement, Point } from './graph-layout.ts';

const boxGap = 28;
const rowGap = 34;
const margin = 20;
const sweeps = 4;
const alignments = 8;

/** A box, or the place where a line passes a row. */
interface Vertex {
  readonly box: Box | undefined;
  readonly width: number;
  readonly above: Vertex[];
  readonly below: Vertex[];
  row: number;
  /** Its position in the row. */
  at: number;
  /** Its middle. */
  x: number;
}

/**
 * Places boxes in rows, each below all that it needs. For graphs of hundreds of steps, which dagre lays out in several
 * hundred milliseconds: a few sweeps order each row by the mean of its neighbours, and a few more move boxes below them.
 */
export function placeInRows(boxes: readonly Box[], edges: readonly Edge[]): Placement {
  const byName = new Map(boxes.map((box) => [box.name, newVertex(box)]));
  const vertices = [...byName.values()];
  rankVertices(vertices, byName, edges);
  const rows: Vertex[][] = [];
  const add = (vertex: Vertex): void => {
    const row = (rows[vertex.row] ??= []);
    vertex.at = row.length;
    row.push(vertex);
  };
  for (const vertex of vertices) add(vertex);
  const passes = edges.map((edge) => connect(byName.get(edge.from), byName.get(edge.to), add));
  for (let sweep = 0; sweep < sweeps; sweep += 1) {
    for (const row of rows) orderRow(row, ({ above }) => above);
    for (const row of rows.toReversed()) orderRow(row, ({ below }) => below);
  }
  for (const row of rows) alignRow(row, () => undefined);
  for (let round = 0; round < alignments; round += 1) {
    const isDown = round % 2 === 0;
    for (const row of isDown ? rows : rows.toReversed()) {
      alignRow(row, ({ above, below }) => meanOf(isDown ? above : below, ({ x }) => x));
    }
  }
  const left = Math.min(...rows.flat().map(({ x, width }) => x - width / 2)) - margin;
  for (const vertex of rows.flat()) vertex.x -= left;
  const heights = rows.map((row) => Math.max(...row.map(({ box }) => box?.height ?? 0)));
  const tops: number[] = [];
  let y = margin;
  for (const height of heights) {
    tops.push(y);
    y += height + rowGap;
  }
  const middle = (row: number): number => (tops[row] ?? 0) + (heights[row] ?? 0) / 2;
  const gap = (row: number): number => (tops[row] ?? 0) + (heights[row] ?? 0) + rowGap / 2;
  return {
    width: Math.max(...rows.flat().map(({ x, width }) => x + width / 2)) + margin,
    height: y - rowGap + margin,
    centers: new Map(vertices.map(({ box, x, row }) => [box?.name ?? '', { x, y: middle(row) }])),
    // The middle of each gap between rows, and between two of them the place where the line passes a row.
    inner: passes.map((passed, index) => {
      const first = byName.get(edges[index]?.from ?? '')?.row ?? 0;
      const points: Point[] = [{ x: 0, y: gap(first) }];
      for (const { x, row } of passed) points.push({ x, y: middle(row) }, { x, y: gap(row) });
      return points;
    }),
  };
}

function newVertex(box: Box | undefined): Vertex {
  return { box, width: box?.width ?? 0, above: [], below: [], row: 0, at: 0, x: 0 };
}

/** Sets the row of each box: one below the lowest that it needs. */
function rankVertices(
  vertices: readonly Vertex[],
  byName: ReadonlyMap<string, Vertex>,
  edges: readonly Edge[],
): void {
  const needed = new Map<Vertex, number>(vertices.map((vertex) => [vertex, 0]));
  const following = new Map<Vertex, Vertex[]>(vertices.map((vertex) => [vertex, []]));
  for (const { from, to } of edges) {
    const [first, second] = [byName.get(from), byName.get(to)];
    if (first === undefined || second === undefined) continue;
    following.get(first)?.push(second);
    needed.set(second, (needed.get(second) ?? 0) + 1);
  }
  // A flow has no cycles. Boxes of a damaged one stay in the first row.
  const ready = vertices.filter((vertex) => needed.get(vertex) === 0);
  for (const vertex of ready) {
    for (const next of following.get(vertex) ?? []) {
      next.row = Math.max(next.row, vertex.row + 1);
      const left = (needed.get(next) ?? 0) - 1;
      needed.set(next, left);
      if (left === 0) ready.push(next);
    }
  }
}

/** Connects two boxes, through one vertex in each row between them. Returns those. */
function connect(
  from: Vertex | undefined,
  to: Vertex | undefined,
  add: (vertex: Vertex) => void,
): readonly Vertex[] {
  if (from === undefined || to === undefined || to.row <= from.row) return [];
  const passed = Array.from({ length: to.row - from.row - 1 }, (_, index) => {
    const vertex = newVertex(undefined);
    vertex.row = from.row + 1 + index;
    add(vertex);
    return vertex;
  });
  const chain = [from, ...passed, to];
  for (const [index, vertex] of chain.slice(1).entries()) {
    const before = chain[index] as Vertex;
    before.below.push(vertex);
    vertex.above.push(before);
  }
  return passed;
}

function meanOf(
  vertices: readonly Vertex[],
  value: (vertex: Vertex) => number,
): number | undefined {
  if (vertices.length === 0) return undefined;
  return vertices.reduce((sum, vertex) => sum + value(vertex), 0) / vertices.length;
}

/** Sorts a row by the mean position of the neighbours of each vertex. One without neighbours keeps its place. */
function orderRow(row: Vertex[], neighbours: (vertex: Vertex) => readonly Vertex[]): void {
  const keys = new Map(row.map((one) => [one, meanOf(neighbours(one), ({ at }) => at) ?? one.at]));
  row.sort((a, b) => (keys.get(a) ?? 0) - (keys.get(b) ?? 0));
  for (const [at, vertex] of row.entries()) vertex.at = at;
}

/** Moves the vertices of a row as near to their wishes as their widths permit. */
function alignRow(row: readonly Vertex[], wish: (vertex: Vertex) => number | undefined): void {
  const wishes = row.map((vertex) => wish(vertex) ?? vertex.x);
  const distance = (index: number): number =>
    ((row[index - 1]?.width ?? 0) + (row[index]?.width ?? 0)) / 2 + boxGap;
  // Pushed to the right, and pushed to the left: both keep the distances, and so does their mean.
  const right: number[] = [];
  for (const [index, wished] of wishes.entries()) {
    right.push(index === 0 ? wished : Math.max(wished, (right[index - 1] ?? 0) + distance(index)));
  }
  const left: number[] = [];
  for (let index = row.length - 1; index >= 0; index -= 1) {
    const wished = wishes[index] ?? 0;
    left[index] =
      index === row.length - 1
        ? wished
        : Math.min(wished, (left[index + 1] ?? 0) - distance(index + 1));
  }
  for (const [index, vertex] of row.entries()) {
    vertex.x = ((right[index] ?? 0) + (left[index] ?? 0)) / 2;
  }
}
