import { taskNameOf } from '../../model/task-call.ts';
import type { DefinitionQueue, QueueDepth } from '../../providers/contract/management.ts';
import type { DefinitionKind } from '../../providers/contract/pausing.ts';
import type { Provider } from '../../providers/contract/provider.ts';
import type { WorkerRecord } from '../../providers/contract/workers.ts';
import { liveWorkers } from '../../providers/rules/workers.ts';
import { withoutCalls } from '../managing/task-pauses.ts';
import { toPauseInfo, type InstanceInfo } from './instance-info.ts';
import { sumDepths } from '../../providers/rules/queue-depths.ts';

/** The queue of one definition. The versions of an orchestration share it. */
export interface DefinitionQueueInfo extends Omit<DefinitionQueue, 'capped'> {
  /** A number reached 10,000: the numbers are lower bounds. */
  readonly capped?: true;
  /** The number of live workers that have the definition. */
  readonly workers: number;
  /** When, why and by whom the definition was paused. */
  readonly pause?: NonNullable<InstanceInfo['paused']>;
}

/** The work of all definitions of a kind. */
interface QueueTotal extends QueueDepth {
  /** The numbers are lower bounds: a definition reached 10,000, or more than 1,000 have work. */
  readonly capped?: true;
}

/** The work of all definitions by kind, from the queues of the definitions. */
export interface QueueTotals {
  readonly orchestrations: QueueTotal;
  readonly activities: QueueTotal;
  readonly tasks: QueueTotal;
}

const cap = 10_000;
const maxQueues = 1_000;

/**
 * Lists the queues of definitions: those with work, the longest waiting first, then the others that live workers have
 * or that are paused.
 */
export async function listQueues(
  store: Pick<Provider, 'definitionQueues' | 'listWorkers' | 'listPausedDefinitions'>,
): Promise<readonly DefinitionQueueInfo[]> {
  const [queues, workers, paused] = await Promise.all([
    store.definitionQueues({ cap, limit: maxQueues }),
    store.listWorkers().then(liveWorkers),
    store.listPausedDefinitions(),
  ]);
  const workerCounts = countWorkers(workers);
  const pauses = new Map(paused.map((one) => [keyOf(one), one]));
  const busy = new Set(queues.map(keyOf));
  const idle = new Map(
    [...workerCounts.values(), ...withoutCalls(paused)]
      .filter((one) => !busy.has(keyOf(one)))
      .map(({ kind, name }) => [keyOf({ kind, name }), { kind, name, ...empty }]),
  );
  const others = [...idle.values()].toSorted((one, other) => (one.name < other.name ? -1 : 1));
  return [...queues, ...others].slice(0, maxQueues).map(({ capped, ...queue }) => {
    const pause = pauses.get(keyOf(queue));
    return {
      ...queue,
      ...(capped && { capped }),
      workers: workerCounts.get(keyOf(runnerOf(queue)))?.count ?? 0,
      ...(pause !== undefined && { pause: toPauseInfo(pause) }),
    };
  });
}

/** Adds the queues of the definitions of each kind. */
export function sumQueues(queues: readonly DefinitionQueueInfo[]): QueueTotals {
  const isCut = queues.length >= maxQueues;
  const sumOf = (kind: DefinitionKind): QueueTotal => {
    const own = queues.filter((queue) => queue.kind === kind);
    return {
      ...sumDepths(own),
      ...((isCut || own.some(({ capped }) => capped)) && { capped: true }),
    };
  };
  return {
    orchestrations: sumOf('orchestration'),
    activities: sumOf('activity'),
    tasks: sumOf('task'),
  };
}

const empty = {
  ready: 0,
  delayed: 0,
  claimed: 0,
  paused: 0,
  oldestReadyAt: null,
  capped: false,
} as const;

interface Named {
  readonly kind: DefinitionKind;
  readonly name: string;
}

function keyOf({ kind, name }: Named): string {
  return `${kind} ${name}`;
}

/** The definition that a worker registers: the calls of a task have a queue of their own. */
export function runnerOf({ kind, name }: Named): Named {
  const task = taskNameOf(name, kind === 'activity' ? 'activity' : 'task');
  return task === name ? { kind, name } : { kind: 'task', name: task };
}

function countWorkers(
  workers: readonly WorkerRecord[],
): ReadonlyMap<string, Named & { readonly count: number }> {
  const counts = new Map<string, Named & { readonly count: number }>();
  for (const { orchestrations, activities, tasks } of workers) {
    const kinds = {
      orchestration: new Set(orchestrations.map(({ name }) => name)),
      activity: new Set(activities),
      task: new Set(tasks),
    };
    for (const kind of ['orchestration', 'activity', 'task'] as const) {
      for (const name of kinds[kind]) {
        const key = keyOf({ kind, name });
        counts.set(key, { kind, name, count: (counts.get(key)?.count ?? 0) + 1 });
      }
    }
  }
  return counts;
}
