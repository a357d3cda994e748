import type {
  DefinitionPauseResult,
  PauseResult,
  PauseStore,
  ResumeInstance,
} from '../../contract/pausing.ts';
import type { AuditCounts, AuditEntry } from '../../contract/management.ts';
import { mayPause } from '../../rules/pauses.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type { Audit } from '../tables/audit.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { FullRow, InstanceRows } from '../tables/instance-rows.ts';
import type { PausedDefinitions, PauseRows } from '../tables/pause-rows.ts';
import type { StopRows } from '../tables/stop-rows.ts';

/** The parts of the store that pause and resume. */
interface PauseParts extends StoreAccess {
  readonly audit: Audit;
  readonly definitions: Definitions;
  readonly instances: InstanceRows;
  readonly pausedDefinitions: PausedDefinitions;
  readonly pauseRows: PauseRows;
  readonly stopRows: StopRows;
}

/** Pauses and resumes instances and definitions. */
export function createPauseStore(store: PauseParts): PauseStore {
  const { pauseRows, pausedDefinitions } = store;
  return {
    pauseInstances: (requests) =>
      store.write('pauseInstances', requests, (scope, request) =>
        change(store, scope, request, (row) => {
          if (!mayPause(row)) return false;
          const { reason, actor, tree } = request;
          pauseRows.pause(row, { at: scope.now, reason, actor, tree: tree ? 1 : 0 });
          return true;
        }),
      ),

    resumeInstances: (requests) =>
      store.write('resumeInstances', requests, (scope, request) =>
        change(store, scope, request, ({ instanceKey, isPaused }) => {
          if (isPaused === 0) return false;
          pauseRows.lift(instanceKey);
          wake(scope);
          return true;
        }),
      ),

    pauseDefinitions: (requests) =>
      store.write('pauseDefinitions', requests, (scope, { audit, ...definition }) => {
        const changed = pausedDefinitions.pause({ ...definition, at: scope.now });
        return definitionResult(store, scope, { ...definition, changed, audit });
      }),

    resumeDefinitions: (requests) =>
      store.write('resumeDefinitions', requests, (scope, { audit, kind, name }) => {
        const changed = pausedDefinitions.resume(kind, name);
        if (changed) wake(scope);
        return definitionResult(store, scope, { kind, name, changed, audit });
      }),

    listPausedDefinitions: () =>
      store.read('listPausedDefinitions', () => pausedDefinitions.list()),
  };
}

/** Changes an instance, or with `tree` all of its tree, and reads the new state. */
function change(
  store: PauseParts,
  scope: Scope,
  { instanceId, incarnation, tree, audit }: ResumeInstance,
  how: (row: FullRow) => boolean,
): PauseResult {
  const row = store.instances.find(instanceId);
  if (row === undefined || row.incarnation !== (incarnation ?? row.incarnation)) {
    return { found: false, changed: false, status: null, paused: false };
  }
  let changed = how(row);
  if (tree) for (const child of descendants(store, row)) changed = how(child) || changed;
  if (changed) record(store, scope, audit, { instances: 1 });
  const after = store.instances.get(row.instanceKey);
  return { found: true, changed, status: after?.status ?? null, paused: after?.isPaused === 1 };
}

/** The attached descendants of an instance, also those of ended children. */
function* descendants(store: PauseParts, root: FullRow): Generator<FullRow> {
  const parents = [root];
  // In a damaged store an instance can be its own ancestor.
  const seen = new Set([root.instanceKey]);
  for (let parent = parents.pop(); parent !== undefined; parent = parents.pop()) {
    for (const key of store.stopRows.selectChildren(parent.instanceId, 1, 'all')) {
      const child = seen.has(key) ? undefined : store.instances.getFull(key);
      seen.add(key);
      if (child === undefined) continue;
      yield child;
      parents.push(child);
    }
  }
}

function definitionResult(
  store: PauseParts,
  scope: Scope,
  definition: {
    readonly kind: 'orchestration' | 'activity' | 'task';
    readonly name: string;
    readonly changed: boolean;
    readonly audit: AuditEntry | undefined;
  },
): DefinitionPauseResult {
  const { kind, name, changed, audit } = definition;
  if (changed) record(store, scope, audit);
  return { found: store.definitions.keysOf([kind], [name]).length > 0, changed };
}

function record(
  { audit }: PauseParts,
  { now }: Scope,
  entry: AuditEntry | undefined,
  counts: Partial<AuditCounts> = {},
): void {
  audit.record([{ entry, counts }], now);
}

function wake({ now, effects }: Scope): void {
  effects.due('orchestrations', now);
  effects.due('work', now);
}
