import { ProviderError } from '../../../model/failures/errors.ts';
import { isTerminal, type TerminalStatus } from '../../../model/status.ts';
import type { CreateTaskResult, NewTask, TaskStore } from '../../contract/tasks.ts';
import type { WorkOutcome } from '../../contract/work-queue.ts';
import { parseFailure } from '../../rules/outcome-message.ts';
import type { Batch } from '../batches/changes.ts';
import type { Scope } from '../driver/scope.ts';
import type { Store } from '../store.ts';
import { knownStart } from '../tables/existing-start.ts';
import type { InstanceRow } from '../tables/instance-rows.ts';
import type { InsertedTask, TaskRow } from '../tables/new-tasks.ts';
import type { Settlement } from '../tables/settlement.ts';
import type { RunEnd } from '../tables/task-rows.ts';
import { onFailOperation, taskOperation, type HeldItem } from '../tables/work-items.ts';

/** Creation of task runs; the rest of their life is that of instances and work items. */
export function createTaskStore(store: Store): TaskStore {
  return {
    createTasks: store.batching({
      operation: 'createTasks',
      run: (scope, tasks) => createTasks(store, scope, tasks),
      runPlain: (tasks: readonly NewTask[]) => store.plainTasks.create(tasks, store.nowParameter),
      refused: (error): CreateTaskResult => ({ kind: 'refused', error }),
      maxInFlight: 2,
    }),
  };
}

/** Creates task runs, each answered by what came before it in the list. */
export async function createTasks(
  store: Store,
  scope: Scope,
  tasks: readonly NewTask[],
): Promise<readonly CreateTaskResult[]> {
  await scope.begin();
  const results: (CreateTaskResult | undefined)[] = tasks.map(refusal);
  const wanted = tasks.filter((_, index) => results[index] === undefined);
  const keyOf = await store.definitions.intern(
    scope,
    wanted.map(({ name }) => ({ kind: 'task', name, version: null })),
  );
  let open = tasks.flatMap((task, index) =>
    results[index] === undefined
      ? [{ index, task, definitionKey: keyOf('task', task.name, null) }]
      : [],
  );
  while (open.length > 0) {
    const round = apart(open);
    for (const { index, result } of await createRound(store, scope, round)) results[index] = result;
    // Again, where whoever had an id or a key was gone before it could be read.
    open = open.filter(({ index }) => results[index] === undefined);
  }
  return results.flatMap((result) => result ?? []);
}

interface OpenTask extends TaskRow {
  readonly index: number;
}

interface Answer {
  readonly index: number;
  readonly result: CreateTaskResult;
}

/** Those that cannot be in each other's way: the first of every id and of every key. */
function apart(open: readonly OpenTask[]): readonly OpenTask[] {
  const met = new Set<string>();
  return open.filter(({ task: { instanceId, dedupeKey }, definitionKey }) => {
    const own = [`id ${instanceId}`];
    if (dedupeKey !== undefined) own.push(keyText({ definitionKey, dedupeKey }));
    const isApart = own.every((one) => !met.has(one));
    // One that has to wait keeps those behind it waiting, too.
    for (const one of own) met.add(one);
    return isApart;
  });
}

function keyText(key: { readonly definitionKey: number; readonly dedupeKey: string }): string {
  return `key ${key.definitionKey} ${key.dedupeKey}`;
}

async function createRound(
  store: Store,
  scope: Scope,
  round: readonly OpenTask[],
): Promise<readonly Answer[]> {
  const { tx, now, effects } = scope;
  const inserted = await store.taskRows.insert(tx, round, now);
  const others: OpenTask[] = [];
  const unused: number[] = [];
  const done: Answer[] = [];
  for (const [place, one] of round.entries()) {
    const { instanceKey, isCreated, hasKey, dueAt } = inserted[place] ?? nothing;
    if (isCreated) {
      effects.due('work', dueAt);
      done.push({ index: one.index, result: { kind: 'created', instanceKey } });
    } else {
      others.push(one);
      if (hasKey) unused.push(instanceKey);
    }
  }
  if (others.length > 0) done.push(...(await knownTasks(store, scope, { others, unused })));
  return done;
}

/** Answers for tasks whose id or key is taken, as far as whoever has it is still there. */
async function knownTasks(
  store: Store,
  { tx }: Scope,
  { others, unused }: { readonly others: readonly OpenTask[]; readonly unused: readonly number[] },
): Promise<readonly Answer[]> {
  // In a snapshot of their own, which shows what the insert has waited for.
  const [, starts, holders] = await Promise.all([
    store.dedupeKeys.free(tx, unused),
    store.instances.selectStarts(
      tx,
      others.map(({ task }) => task.instanceId),
    ),
    store.dedupeKeys.holders(
      tx,
      others.flatMap(({ task: { dedupeKey }, definitionKey }) =>
        dedupeKey === undefined ? [] : [{ definitionKey, dedupeKey }],
      ),
    ),
  ]);
  await store.definitions.load(
    tx,
    starts.map(({ definitionKey }) => definitionKey),
  );
  // Keys that nobody is behind any more, as a damaged database may have them.
  const dead = holders.filter(({ instanceId }) => instanceId === null);
  await store.dedupeKeys.free(
    tx,
    dead.map(({ instanceKey }) => instanceKey),
  );
  const startOf = new Map(starts.map((start) => [start.instanceId, start]));
  const holderOf = new Map(holders.map((held) => [keyText(held), held.instanceId]));
  return others.flatMap(({ index, task, definitionKey }): readonly Answer[] => {
    const start = startOf.get(task.instanceId);
    if (start !== undefined) {
      return [{ index, result: knownStart(store.definitions, { ...task, kind: 'task' }, start) }];
    }
    const { dedupeKey = '' } = task;
    const instanceId = holderOf.get(keyText({ definitionKey, dedupeKey })) ?? null;
    if (instanceId === null) return [];
    return [{ index, result: { kind: 'active', instanceId } }];
  });
}

const nothing: InsertedTask = {
  instanceKey: 0,
  isCreated: false,
  hasKey: false,
  dueAt: Infinity,
};

function refusal({ instanceId, priority }: NewTask): CreateTaskResult | undefined {
  if (Number.isInteger(priority) && priority >= -100 && priority <= 100) return undefined;
  const error = new ProviderError({
    operation: 'createTasks',
    message: `createTasks: the priority of ${JSON.stringify(instanceId)} is ${priority}. Take a whole number from -100 to 100.`,
    retryable: false,
  });
  return { kind: 'refused', error };
}

/** Says whether an item is a task run itself. */
export function isRun({ instances }: Batch, { instanceKey, operation }: HeldItem): boolean {
  return operation === taskOperation && instances.get(instanceKey)?.isTask === true;
}

/** Decides what the end of an item does to the run that it belongs to; answers how the run has ended by that. */
export function settleRun(
  { scope, instances, changes }: Batch,
  run: InstanceRow,
  { item, outcome }: Settlement,
): TerminalStatus | undefined {
  const { instanceKey } = run;
  if (outcome.kind === 'failed') parseFailure(outcome.failure);
  if (item.operation === onFailOperation) {
    const failure = outcome.kind === 'failed' ? outcome.failure : null;
    const state = outcome.kind === 'completed' ? 'completed' : 'failed';
    changes.tasks.onFailEnds.push({ instanceKey, state, failure });
    return undefined;
  }
  if (isTerminal(run.status)) {
    // Terminated before: what remains of it is its key.
    changes.tasks.freeKey(run);
    return undefined;
  }
  // What was asked to stop has stopped, whatever it brings.
  const end = toEnd(item.cancelRequested ? { kind: 'canceled', leaked: false } : outcome);
  changes.tasks.end(scope, run, { ...end, startedAt: item.startedAt });
  instances.update(instanceKey, { status: end.status });
  return end.status;
}

function toEnd(outcome: WorkOutcome): Omit<RunEnd, 'instanceKey' | 'startedAt'> {
  switch (outcome.kind) {
    case 'completed':
      return { status: 'completed', output: outcome.payload };
    case 'failed':
      return { status: 'failed', failure: outcome.failure, onFail: outcome.onFail };
    case 'skipped':
      return { status: 'skipped' };
    case 'canceled':
      return { status: 'canceled', reason: 'canceled', actor: null };
  }
}
