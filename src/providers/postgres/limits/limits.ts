import type {
  DeclaredLimits,
  LimitDeclaration,
  LimitedKind,
  Limits,
  LimitsRecord,
  LimitStore,
  SetLimits,
} from '../../contract/limits.ts';
import { checkLimits, limitsText, mergeOverride } from '../../rules/limits.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { Scope } from '../driver/scope.ts';
import type { Audit } from '../tables/audit.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { BeginLimits } from './begin-limits.ts';
import { isCounted, type FirstBeginLimits } from './first-begin-limits.ts';
import type { LimitRows, LockedLimits } from './limit-rows.ts';
import { triggersOf, type LimitTriggers } from './limit-triggers.ts';
import type { LimitViews } from './limit-views.ts';

interface LimitParts extends StoreAccess {
  readonly audit: Audit;
  readonly definitions: Definitions;
  readonly beginLimits: BeginLimits;
  readonly firstBeginLimits: FirstBeginLimits;
  readonly limitRows: LimitRows;
  readonly limitTriggers: LimitTriggers;
  readonly limitViews: LimitViews;
}

/** Declares, sets and lists limits of definitions. */
export function createLimitStore(store: LimitParts): LimitStore {
  const { limitTriggers, limitViews } = store;
  return {
    async declareLimits({ buildId, definitions }) {
      for (const { limits } of definitions) checkLimits(limits);
      store.assertOpen('declareLimits');
      if (definitions.length === 0) return [];
      const limited = definitions.filter(({ limits }) => isAny(limits));
      await limitTriggers.add(
        'declareLimits',
        limited.map(({ kind }) => triggersOf(kind)),
      );
      await open(store, 'declareLimits', definitions);
      return store.writeOnce('declareLimits', (scope) =>
        declare(store, scope, buildId, definitions),
      );
    },

    async setLimits(request) {
      if (request.override !== null) checkLimits(request.override);
      store.assertOpen('setLimits');
      await limitTriggers.add('setLimits', [triggersOf(request.kind)]);
      await open(store, 'setLimits', [request]);
      return store.writeOnce('setLimits', (scope) => set(store, scope, request));
    },

    listLimits: (params) =>
      store.read('listLimits', (tx) => limitViews.list(tx, params, store.nowParameter)),

    listLanes: (params) =>
      store.read('listLanes', (tx) => limitViews.lanes(tx, params, store.nowParameter)),
  };
}

/** Whether there is any limit. */
function isAny(limits: Limits): boolean {
  return limitsText(limits) !== '{}';
}

async function keysOf(
  { definitions }: LimitParts,
  scope: Scope,
  wanted: readonly { readonly kind: LimitedKind; readonly name: string }[],
): Promise<readonly number[]> {
  const keyOf = await definitions.intern(
    scope,
    wanted.map(({ kind, name }) => ({ kind, name, version: null })),
  );
  return wanted.map(({ kind, name }) => keyOf(kind, name, null));
}

/** Makes orchestrations limited, without any limit, and waits until all claims and starts know it. */
async function open(
  store: LimitParts,
  operation: string,
  definitions: readonly {
    readonly kind: LimitedKind;
    readonly name: string;
    readonly limits?: Limits;
  }[],
): Promise<void> {
  const gates = definitions.filter(({ kind }) => kind === 'orchestration');
  if (gates.length === 0) return;
  const rows = await store.writeOnce(operation, async (scope) => {
    const keys = await keysOf(store, scope, gates);
    return store.limitRows.lock(scope, keys, keysToAdd(keys, gates));
  });
  if (rows.every(isCounted)) return;
  store.beginLimits.opened();
  await store.firstBeginLimits.waitForEarlierWriters(operation);
}

/** The definitions that become limited. One that never had limits stays unlimited. */
function keysToAdd(
  keys: readonly number[],
  definitions: readonly { readonly limits?: Limits }[],
): readonly number[] {
  return keys.filter((_, index) => {
    const limits = definitions[index]?.limits;
    return limits === undefined || isAny(limits);
  });
}

/**
 * Locks the limits of definitions, and then reads the time. A time from before the lock is earlier than that of claims
 * that were made meanwhile: a bound by it would give their tokens back. The instances of an orchestration that have begun
 * before count from now on.
 */
async function lockRows(
  { firstBeginLimits, limitRows }: LimitParts,
  scope: Scope,
  definitions: readonly { readonly key: number; readonly kind: LimitedKind }[],
  added: readonly number[],
): Promise<readonly LockedLimits[]> {
  const rows = await limitRows.lock(
    scope,
    definitions.map(({ key }) => key),
    added,
  );
  await scope.begin();
  const uncounted = new Set(
    rows.filter((row) => !isCounted(row)).map(({ definitionKey }) => definitionKey),
  );
  const gates = definitions.filter(
    ({ key, kind }) => kind === 'orchestration' && uncounted.has(key),
  );
  await firstBeginLimits.countBegun(
    scope,
    gates.map(({ key }) => key),
  );
  return rows;
}

async function declare(
  store: LimitParts,
  scope: Scope,
  buildId: string,
  declarations: readonly LimitDeclaration[],
): Promise<readonly DeclaredLimits[]> {
  const keys = await keysOf(store, scope, declarations);
  const rows = await lockRows(
    store,
    scope,
    declarations.map(({ kind }, index) => ({ kind, key: keys[index] ?? 0 })),
    keysToAdd(keys, declarations),
  );
  const byKey = new Map(rows.map((row) => [row.definitionKey, row]));
  const results: DeclaredLimits[] = [];
  for (const [index, { kind, name, limits }] of declarations.entries()) {
    const row = byKey.get(keys[index] ?? 0);
    if (row === undefined) {
      results.push({ kind, name, effective: {}, declaredBy: buildId, contradictions: [] });
      continue;
    }
    const { contradictions, ...result } = await store.limitRows.declare(scope, row, {
      buildId,
      limits,
    });
    results.push({
      kind,
      name,
      ...result,
      contradictions: contradictions.map((other) => ({
        buildId: other.buildId,
        limits: other.limits,
      })),
    });
  }
  return results;
}

async function set(
  store: LimitParts,
  scope: Scope,
  { kind, name, override, audit }: SetLimits,
): Promise<LimitsRecord> {
  const [key = 0] = await keysOf(store, scope, [{ kind, name }]);
  const [row] = await lockRows(store, scope, [{ kind, key }], [key]);
  if (row === undefined) throw new Error(`The limits of ${JSON.stringify(name)} were not locked.`);
  const merged = mergeOverride(row.override, override);
  if (JSON.stringify(merged) !== JSON.stringify(row.override)) {
    await store.limitRows.override(scope, row, merged);
    await store.audit.record(scope.tx, [{ entry: audit, counts: {} }], scope.now);
  }
  const { records } = await store.limitViews.list(
    scope.tx,
    { limit: 1, only: { kind, name } },
    scope.nowParameter,
  );
  const [record] = records;
  if (record === undefined) throw new Error(`The limits of ${JSON.stringify(name)} are missing.`);
  return record;
}
