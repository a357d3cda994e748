import type { Client } from '../../index.ts';
import { dependenciesOf } from '../definition/graph.ts';
import { statusOf, takenSignal } from '../definition/run-format.ts';
import { FlowHistory } from './flow-history.ts';
import { RunReader } from './run-reader.ts';

/** A step of a flow that has not started, or whose items are not all done. */
export interface StepWait {
  readonly step: string;
  /** Steps that must settle first. Its condition, if any, is evaluated then. */
  readonly dependencies?: readonly string[];
  /** The signal that it needs. */
  readonly signal?: string;
  /** The items of a map or generator: how many have completed, of how many known so far. */
  readonly items?: { readonly completed: number; readonly known: number };
}

/** Reads the steps of a run that wait for other steps, a signal or items. `client.why()` explains steps that run. */
export async function readFlowWaits(client: Client, id: string): Promise<readonly StepWait[]> {
  const info = await client.get(id);
  if (info === undefined) return [];
  const history = await FlowHistory.read(client, id);
  const graph = history.run?.flow;
  if (graph === undefined) return [];
  const steps = new RunReader(info, history).steps();
  const settled = new Set(
    steps.flatMap(({ name, status }) =>
      status === 'completed' || status === 'skipped' ? [name] : [],
    ),
  );
  const nodes = new Map(graph.steps.map((node) => [node.name, node]));
  return steps.flatMap(({ name: step, status, items }): StepWait[] => {
    const node = nodes.get(step);
    if (node === undefined) return [];
    if (items !== undefined && (status === 'running' || status === 'queued')) {
      const known = Object.values(items).reduce((sum, count) => sum + count, 0);
      return [{ step, items: { completed: items.completed, known } }];
    }
    if (status !== 'pending') return [];
    const dependencies = dependenciesOf(node, graph).filter((name) => !settled.has(name));
    const { signal } = node;
    const isMissing = signal !== undefined && takenSignal(statusOf(info), signal) === undefined;
    return [
      {
        step,
        ...(dependencies.length > 0 && { dependencies }),
        ...(isMissing && { signal }),
      },
    ];
  });
}
