import type {
  DeclaredLimits,
  LimitDeclaration,
  LimitedKind,
  LimitsRecord,
  LimitStore,
  SetLimits,
} from '../../contract/limits.ts';
import { checkLimits, limitsText, mergeOverride } from '../../rules/limits.ts';
import type { StoreAccess } from '../batches/store-access.ts';
import type { Scope } from '../driver/scope.ts';
import type { Audit } from '../tables/audit.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { LimitRows } from './limit-rows.ts';
import type { LimitViews } from './limit-views.ts';

interface LimitParts extends StoreAccess {
  readonly audit: Audit;
  readonly definitions: Definitions;
  readonly limitRows: LimitRows;
  readonly limitViews: LimitViews;
}

/** Declares, sets and lists limits of definitions. */
export function createLimitStore(store: LimitParts): LimitStore {
  const { limitViews } = store;
  return {
    async declareLimits({ buildId, definitions }) {
      for (const { limits } of definitions) checkLimits(limits);
      store.assertOpen('declareLimits');
      if (definitions.length === 0) return [];
      return store.writeOnce('declareLimits', (scope) =>
        declare(store, scope, buildId, definitions),
      );
    },

    async setLimits(request) {
      if (request.override !== null) checkLimits(request.override);
      return store.writeOnce('setLimits', (scope) => set(store, scope, request));
    },

    listLimits: (params) =>
      store.read('listLimits', (tx) => limitViews.list(tx, params, store.nowParameter)),

    listLanes: (params) =>
      store.read('listLanes', (tx) => limitViews.lanes(tx, params, store.nowParameter)),
  };
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

async function declare(
  store: LimitParts,
  scope: Scope,
  buildId: string,
  declarations: readonly LimitDeclaration[],
): Promise<readonly DeclaredLimits[]> {
  await scope.begin();
  const keys = await keysOf(store, scope, declarations);
  // A definition that never had limits stays unlimited.
  const added = keys.filter((_, index) => limitsText(declarations[index]?.limits ?? {}) !== '{}');
  const rows = await store.limitRows.lock(scope, keys, added);
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
  await scope.begin();
  const [row] = await store.limitRows.lock(scope, await keysOf(store, scope, [{ kind, name }]));
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
