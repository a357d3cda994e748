import dagre from '@dagrejs/dagre';

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

const margin = 20;

/** Places the steps of a flow from top to bottom. */
export function layOut(boxes: readonly Box[], edges: readonly Edge[]): Layout {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  graph.setGraph({ rankdir: 'TB', nodesep: 28, ranksep: 34, marginx: margin, marginy: margin });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { name, width, height } of boxes) graph.setNode(name, { width, height });
  const known = new Set(boxes.map(({ name }) => name));
  const shown = edges.filter(({ from, to }) => known.has(from) && known.has(to));
  for (const [index, { from, to }] of shown.entries()) graph.setEdge(from, to, {}, String(index));
  dagre.layout(graph);
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return {
    width,
    height,
    boxes: new Map(
      boxes.map(({ name, width: w, height: h }) => {
        const { x, y } = graph.node(name) as { x: number; y: number };
        return [name, { x: x - w / 2, y: y - h / 2 }];
      }),
    ),
    paths: shown.map((edge, index) => {
      const { points } = graph.edge({ v: edge.from, w: edge.to, name: String(index) }) as {
        points: readonly { x: number; y: number }[];
      };
      return { edge, path: toPath(points) };
    }),
  };
}

/** A path through points, with rounded corners. */
function toPath(points: readonly { readonly x: number; readonly y: number }[]): string {
  const [first, ...rest] = points;
  if (first === undefined) return '';
  let path = `M${round(first.x)} ${round(first.y)}`;
  for (let index = 0; index < rest.length; index += 1) {
    const point = rest[index];
    const next = rest[index + 1];
    if (point === undefined) continue;
    path +=
      next === undefined
        ? `L${round(point.x)} ${round(point.y)}`
        : `Q${round(point.x)} ${round(point.y)} ${round((point.x + next.x) / 2)} ${round((point.y + next.y) / 2)}`;
  }
  return path;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
