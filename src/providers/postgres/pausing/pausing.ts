import type { AuditCounts, AuditEntry } from '../../contract/management.ts';
import type {
  DefinitionPauseResult,
  PauseInstance,
  PauseResult,
  PauseStore,
  ResumeDefinition,
  ResumeInstance,
} from '../../contract/pausing.ts';
import type { InstanceStatus } from '../../../model/status.ts';
import { mayPause } from '../../rules/pauses.ts';
import type { Batch } from '../batches/batch.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { Audit } from '../tables/audit.ts';
import type { Scope } from '../driver/scope.ts';
import type { Transaction } from '../driver/connection.ts';
import type { InstanceStops } from '../stopping/instance-stops.ts';
import type { InstanceRow } from '../tables/instance-rows.ts';
import type { PauseRows } from '../tables/pause-rows.ts';

/** The store parts that pause and resume. */
interface PauseParts extends StoreAccess {
  readonly audit: Audit;
  readonly pauseRows: PauseRows;
  readonly stops: InstanceStops;
  readonly instanceRecords: {
    get(
      tx: Transaction,
      ids: readonly string[],
    ): Promise<readonly ({ readonly status: InstanceStatus } | undefined)[]>;
  };
}

/** Pauses and resumes instances and definitions. */
export function createPauseStore(store: PauseParts): PauseStore {
  const { pauseRows } = store;
  return {
    pauseInstances: store.batching({
      operation: 'pauseInstances',
      run: (scope, requests: readonly PauseInstance[]) =>
        change(store, scope, requests, async (rows, { reason, actor, tree }) => {
          const pausable = rows.filter(mayPause);
          const pauses = pausable.map(({ instanceKey }) => ({ instanceKey, reason, actor, tree }));
          await pauseRows.pause(scope.tx, pauses, scope.now);
          return { keys: pausable.map(({ instanceKey }) => instanceKey), isPaused: true };
        }),
      maxInFlight: 1,
    }),

    resumeInstances: store.batching({
      operation: 'resumeInstances',
      run: (scope, requests: readonly ResumeInstance[]) =>
        change(store, scope, requests, async (rows) => {
          const keys = rows
            .filter(({ isPaused }) => isPaused)
            .map(({ instanceKey }) => instanceKey);
          await pauseRows.lift(scope.tx, keys);
          if (keys.length > 0) wake(scope);
          return { keys, isPaused: false };
        }),
      maxInFlight: 1,
    }),

    pauseDefinitions: async (requests) =>
      requests.length === 0
        ? []
        : store.writeOnce('pauseDefinitions', async (scope) => {
            await scope.begin();
            const first = firstOfEach(requests);
            const changed = await pauseRows.pauseDefinitions(scope.tx, first, scope.now);
            return definitionResults(store, scope, requests, changed);
          }),

    resumeDefinitions: async (requests) =>
      requests.length === 0
        ? []
        : store.writeOnce('resumeDefinitions', async (scope) => {
            await scope.begin();
            const changed = await pauseRows.resumeDefinitions(scope.tx, firstOfEach(requests));
            if (changed.length > 0) wake(scope);
            return definitionResults(store, scope, requests, changed);
          }),

    listPausedDefinitions: () =>
      store.read('listPausedDefinitions', (tx) => pauseRows.listDefinitions(tx)),
  };
}

/** Changes instances, with `tree` all of their trees, and reads the new states. */
async function change<Request extends ResumeInstance>(
  store: PauseParts,
  scope: Scope,
  requests: readonly Request[],
  how: (
    rows: readonly InstanceRow[],
    request: Request,
  ) => Promise<{ readonly keys: readonly number[]; readonly isPaused: boolean }>,
): Promise<readonly PauseResult[]> {
  const batch = store.newBatch(scope);
  const { instances } = batch;
  const ids = [...new Set(requests.map(({ instanceId }) => instanceId))];
  await scope.begin(instances.lock({ ids }));
  const results: Omit<PauseResult, 'status'>[] = [];
  for (const request of requests) {
    const row = instances.find(request.instanceId);
    if (row === undefined || row.incarnation !== (request.incarnation ?? row.incarnation)) {
      results.push({ found: false, changed: false, paused: false });
      continue;
    }
    const rows = request.tree ? [row, ...(await lockDescendants(store, batch, row))] : [row];
    const { keys, isPaused } = await how(rows, request);
    for (const key of keys) instances.update(key, { isPaused });
    const changed = keys.length > 0;
    if (changed) await record(store, scope, request.audit, { instances: 1 });
    const paused = instances.get(row.instanceKey)?.isPaused === true;
    results.push({ found: true, changed, paused });
  }
  // The status of a task run is in its item.
  const records = await store.instanceRecords.get(
    scope.tx,
    requests.map(({ instanceId }) => instanceId),
  );
  return results.map((result, index) => ({
    ...result,
    status: result.found ? (records[index]?.status ?? null) : null,
  }));
}

/** Locks the attached descendants of an instance, also those of ended children. */
async function lockDescendants(
  { stops }: PauseParts,
  batch: Batch,
  root: InstanceRow,
): Promise<readonly InstanceRow[]> {
  const found: InstanceRow[] = [];
  // In a damaged database an instance can be its own ancestor.
  const seen = new Set([root.instanceKey]);
  let level: readonly InstanceRow[] = [root];
  while (level.length > 0) {
    const parents = level.map(({ instanceId }) => ({ instanceId, executionId: 1 }));
    const children = await stops.lockChildren(batch, parents, 'all');
    level = children.filter(({ instanceKey }) => !seen.has(instanceKey));
    for (const { instanceKey } of level) seen.add(instanceKey);
    found.push(...level);
  }
  return found;
}

async function definitionResults(
  store: PauseParts,
  scope: Scope,
  requests: readonly ResumeDefinition[],
  changed: readonly Pick<ResumeDefinition, 'kind' | 'name'>[],
): Promise<readonly DefinitionPauseResult[]> {
  const known = await store.pauseRows.findDefinitions(scope.tx, firstOfEach(requests));
  const found = new Set(known.map(textOf));
  const left = new Set(changed.map(textOf));
  const results = requests.map((request) => ({
    found: found.has(textOf(request)),
    // The first of equal requests made the change.
    changed: left.delete(textOf(request)),
  }));
  for (const [index, { audit }] of requests.entries()) {
    if (results[index]?.changed === true) await record(store, scope, audit);
  }
  return results;
}

function firstOfEach<Definition extends ResumeDefinition>(
  definitions: readonly Definition[],
): readonly Definition[] {
  const first = new Map<string, Definition>();
  for (const one of definitions) if (!first.has(textOf(one))) first.set(textOf(one), one);
  return [...first.values()];
}

function textOf({ kind, name }: Pick<ResumeDefinition, 'kind' | 'name'>): string {
  return `${kind} ${name}`;
}

async function record(
  { audit }: PauseParts,
  { tx, now }: Scope,
  entry: AuditEntry | undefined,
  counts: Partial<AuditCounts> = {},
): Promise<void> {
  await audit.record(tx, [{ entry, counts }], now);
}

function wake({ now, effects }: Scope): void {
  effects.due('orchestrations', now);
  effects.due('work', now);
}
