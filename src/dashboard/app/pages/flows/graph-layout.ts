import dagre from '@dagrejs/dagre';
import { placeInRows } from './layered-layout.ts';

/** A box of the graph. */
export interface Box {
  readonly name: string;
  readonly width: number;
  readonly height: number;
}

export interface Edge {
  readonly from: string;
  readonly to: string;
}

/** The places of boxes and the paths of edges, in pixels. */
export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly boxes: ReadonlyMap<string, { readonly x: number; readonly y: number }>;
  readonly paths: readonly { readonly edge: Edge; readonly path: string }[];
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** The middle of each box, and the points of each edge between its boxes. */
export interface Placement {
  readonly width: number;
  readonly height: number;
  readonly centers: ReadonlyMap<string, Point>;
  readonly inner: readonly (readonly Point[])[];
}

const margin = 20;
/** dagre gives shorter lines, but takes several hundred milliseconds for some hundred boxes. */
const manyBoxes = 100;

/** Places the steps of a flow from top to bottom. */
export function layOut(boxes: readonly Box[], edges: readonly Edge[]): Layout {
  const known = new Map(boxes.map((box) => [box.name, box]));
  // A step may need another one for several reasons: one line is enough.
  const pairs = new Map(edges.map((edge) => [JSON.stringify([edge.from, edge.to]), edge]));
  const shown = [...pairs.values()].filter(({ from, to }) => known.has(from) && known.has(to));
  const place = boxes.length > manyBoxes ? placeInRows : placeWithDagre;
  const { width, height, centers, inner } = place(boxes, shown);
  const placed = (name: string): Placed => {
    const { x, y } = centers.get(name) ?? { x: 0, y: 0 };
    return { x, y, height: known.get(name)?.height ?? 0 };
  };
  return {
    width,
    height,
    boxes: new Map(
      boxes.map(({ name, width: w, height: h }) => {
        const { x, y } = placed(name);
        return [name, { x: x - w / 2, y: y - h / 2 }];
      }),
    ),
    paths: shown.map((edge, index) => ({
      edge,
      path: toPath(corners(placed(edge.from), placed(edge.to), inner[index] ?? [])),
    })),
  };
}

function placeWithDagre(boxes: readonly Box[], edges: readonly Edge[]): Placement {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: 'TB', nodesep: 28, ranksep: 34, marginx: margin, marginy: margin });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { name, width, height } of boxes) graph.setNode(name, { width, height });
  for (const [index, { from, to }] of edges.entries()) graph.setEdge(from, to, {}, String(index));
  dagre.layout(graph);
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return {
    width,
    height,
    centers: new Map(boxes.map(({ name }) => [name, graph.node(name) as Point])),
    inner: edges.map(({ from, to }, index) => {
      const { points } = graph.edge({ v: from, w: to, name: String(index) }) as {
        points: readonly Point[];
      };
      return points.slice(1, -1);
    }),
  };
}

interface Placed extends Point {
  readonly height: number;
}

const radius = 8;

/**
 * The corners of a line from the bottom of one box to the top of another. The inner points are the middle of each gap
 * between rows, and between two of them the place where the line passes a row.
 */
function corners(from: Placed, to: Placed, inner: readonly Point[]): readonly Point[] {
  const points: Point[] = [{ x: from.x, y: from.y + from.height / 2 }];
  let { x } = from;
  for (let index = 0; index < inner.length; index += 2) {
    const gap = inner[index];
    const next = inner[index + 1]?.x ?? to.x;
    if (gap === undefined || Math.abs(next - x) < 1) continue;
    points.push({ x, y: gap.y }, { x: next, y: gap.y });
    x = next;
  }
  return [...points, { x, y: to.y - to.height / 2 - 2 }];
}

/** A path through points, with rounded corners. */
function toPath(points: readonly Point[]): string {
  let path = '';
  for (const [index, point] of points.entries()) {
    const before = points[index - 1];
    const after = points[index + 1];
    if (before === undefined) path += `M${round(point.x)} ${round(point.y)}`;
    else if (after === undefined) path += `L${round(point.x)} ${round(point.y)}`;
    else {
      const start = towards(point, before);
      const end = towards(point, after);
      path += `L${round(start.x)} ${round(start.y)}Q${round(point.x)} ${round(point.y)} ${round(end.x)} ${round(end.y)}`;
    }
  }
  return path;
}

/** The point on the way to another one at which a rounded corner begins. */
function towards(from: Point, to: Point): Point {
  const distance = Math.hypot(to.x - from.x, to.y - from.y);
  const share = distance === 0 ? 0 : Math.min(radius, distance / 2) / distance;
  return { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
