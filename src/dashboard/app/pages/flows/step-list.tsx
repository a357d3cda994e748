import type { JSX } from 'preact';
import { Icon } from '../../components/icon.tsx';
import { statusWords } from '../../words/status.ts';
import { ItemBar } from './item-bar.tsx';
import { noteOf, timeOf, type RunGraph } from './graph-node.ts';

/** The steps in order, for small screens and large flows. */
export function StepList({
  graph,
  selected,
  onSelect,
}: {
  readonly graph: RunGraph;
  readonly selected: string | undefined;
  readonly onSelect: (name: string) => void;
}): JSX.Element {
  return (
    <ol class="steps" aria-label="Steps">
      {graph.nodes.map((node) => (
        <li key={node.name} class={node.name === selected ? 'sel' : ''} data-st={node.status}>
          <Icon
            name={statusWords[node.status].icon}
            class="ic"
            label={statusWords[node.status].word}
          />
          <button type="button" class="plain-link grow" onClick={() => onSelect(node.name)}>
            <span class="s1">
              <b>
                <bdi>{node.name}</bdi>
              </b>
              {node.kind !== 'step' && <span class="dim">{node.kind}</span>}
              <span class="r dim">{timeOf(node) || statusWords[node.status].word}</span>
            </span>
            {noteOf(node, graph) !== '' && (
              <span class="sec">
                <bdi>{noteOf(node, graph)}</bdi>
              </span>
            )}
            {node.items !== undefined && <ItemBar items={node.items} />}
          </button>
        </li>
      ))}
    </ol>
  );
}
