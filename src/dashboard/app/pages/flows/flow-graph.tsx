import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Button } from '../../components/button.tsx';
import { Icon } from '../../components/icon.tsx';
import { Loading } from '../../components/states.tsx';
import { statusWords } from '../../words/status.ts';
import { noteOf, timeOf, type GraphNode, type RunGraph } from './graph-node.ts';
import { ItemBar } from './item-bar.tsx';
import type { Box, Layout } from './graph-layout.ts';

const boxWidth = 184;
const mapWidth = 232;
const boxHeight = 58;
/** A box of this size is still 24 px high, which fingers can hit. */
const smallestFit = 0.45;
const mapHeight = 74;

/** The steps as boxes, placed once per graph; a change of state repaints a box only. */
export function FlowGraph({
  graph,
  selected,
  onSelect,
}: {
  readonly graph: RunGraph;
  readonly selected: string | undefined;
  readonly onSelect: (name: string) => void;
}): JSX.Element {
  const shape = `${graph.nodes.map(({ name, items }) => `${name} ${items !== undefined}`).join('\n')}\n${graph.edges.map(({ from, to }) => `${from} ${to}`).join('\n')}`;
  const layout = useLayout(graph, shape);
  const [zoom, setZoom] = useState(1);
  const frame = useRef<HTMLDivElement>(null);
  const fit = (): void => {
    const element = frame.current;
    // The graph is hidden on small screens.
    if (element === null || layout === undefined || element.clientWidth === 0) return;
    const { clientWidth, clientHeight } = element;
    setZoom(
      Math.max(smallestFit, Math.min(1, clientWidth / layout.width, clientHeight / layout.height)),
    );
  };
  useEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(fit);
    observer.observe(element);
    return () => observer.disconnect();
  }, [layout]);
  const states = useMemo(() => new Map(graph.nodes.map((node) => [node.name, node])), [graph]);
  if (layout === undefined) return <Loading />;
  return (
    <div class="dag-box">
      <div class="dag" ref={frame} tabIndex={0} role="group" aria-label="Graph of the flow">
        <div
          class="dag-in"
          style={{ width: `${layout.width * zoom}px`, height: `${layout.height * zoom}px` }}
        >
          <div
            class="dag-scale"
            style={{
              transform: `scale(${zoom})`,
              width: `${layout.width}px`,
              height: `${layout.height}px`,
            }}
          >
            <svg class="e" aria-hidden="true" width={layout.width} height={layout.height}>
              <defs>
                <marker
                  id="arrow"
                  viewBox="0 0 8 8"
                  refX="6"
                  refY="4"
                  markerWidth="7"
                  markerHeight="7"
                  orient="auto"
                >
                  <path
                    d="M1 1l5 3-5 3"
                    fill="none"
                    stroke="var(--control-line)"
                    stroke-width="1.3"
                  />
                </marker>
              </defs>
              {layout.paths.map(({ edge, path }, index) => (
                <path
                  key={index}
                  class={`edge ${states.get(edge.from)?.status === 'completed' ? 'done' : 'todo'}`}
                  d={path}
                  marker-end="url(#arrow)"
                />
              ))}
            </svg>
            {graph.nodes.map((node) => {
              const place = layout.boxes.get(node.name);
              return place === undefined ? null : (
                <StepBox
                  key={node.name}
                  node={node}
                  note={noteOf(node, graph)}
                  x={place.x}
                  y={place.y}
                  isSelected={node.name === selected}
                  onSelect={onSelect}
                />
              );
            })}
          </div>
        </div>
      </div>
      <div class="dag-legend" aria-hidden="true">
        <span>
          <i /> completed
        </span>
        <span>
          <i class="todo" /> still to come
        </span>
      </div>
      <div class="dagtools">
        <Button
          small
          icon="minus"
          label="Zoom out"
          onClick={() => setZoom(Math.max(0.2, zoom / 1.25))}
        />
        <Button
          small
          icon="plus"
          label="Zoom in"
          onClick={() => setZoom(Math.min(2, zoom * 1.25))}
        />
        <Button small icon="fit" label="Fit" onClick={fit} />
      </div>
    </div>
  );
}

/** Loads the layout when a graph is first shown, and places the boxes. */
function useLayout(graph: RunGraph, shape: string): Layout | undefined {
  const [layout, setLayout] = useState<Layout>();
  useEffect(() => {
    let isCurrent = true;
    const load = async (): Promise<void> => {
      const { layOut } = await import('./graph-layout.ts');
      if (isCurrent) setLayout(layOut(graph.nodes.map(toBox), graph.edges));
    };
    void load();
    return () => {
      isCurrent = false;
    };
  }, [shape]);
  return layout;
}

function toBox({ name, items }: GraphNode): Box {
  return items === undefined
    ? { name, width: boxWidth, height: boxHeight }
    : { name, width: mapWidth, height: mapHeight };
}

function StepBox({
  node,
  note,
  x,
  y,
  isSelected,
  onSelect,
}: {
  readonly node: GraphNode;
  readonly note: string;
  readonly x: number;
  readonly y: number;
  readonly isSelected: boolean;
  readonly onSelect: (name: string) => void;
}): JSX.Element {
  const isTodo = node.status === 'pending' || node.status === 'skipped';
  return (
    <button
      type="button"
      class={`nd ${node.items === undefined ? '' : 'map'} ${isTodo ? 'todo' : ''} ${isSelected ? 'sel' : ''}`}
      data-st={node.status}
      aria-pressed={isSelected}
      style={{ '--nx': String(x), '--ny': String(y) }}
      onClick={() => onSelect(node.name)}
    >
      <span class="n1">
        <Icon name={statusWords[node.status].icon} label={statusWords[node.status].word} />
        <bdi class="cut">{node.name}</bdi>
        {node.kind !== 'step' && <span class="kind">{node.kind}</span>}
      </span>
      {node.items !== undefined && <ItemBar items={node.items} />}
      <span class="n2">
        <bdi class="cut" title={note}>
          {note === '' ? timeOf(node) : note}
        </bdi>
        <span>
          {node.items !== undefined
            ? shareOf(node.items)
            : note === ''
              ? attemptsOf(node)
              : timeOf(node)}
        </span>
      </span>
    </button>
  );
}

/** The share of the items that are done: `64 %`. */
function shareOf(items: NonNullable<GraphNode['items']>): string {
  const all = Object.values(items).reduce((sum, count) => sum + count, 0);
  return all === 0 ? '' : `${Math.floor((items.completed / all) * 100)} %`;
}

function attemptsOf({ attempts }: GraphNode): string {
  return attempts === undefined || attempts < 2 ? '' : `${attempts} attempts`;
}
