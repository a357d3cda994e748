import type {
  DeclaredLimits,
  LimitDeclaration,
  LimitedKind,
  LimitStore,
  SetLimits,
} from '../../contract/limits.ts';
import {
  checkLimits,
  chooseDeclaration,
  latestTat,
  limitsText,
  mergeLimits,
  mergeOverride,
  ratesOf,
} from '../../rules/limits.ts';
import type { Scope, StoreAccess } from '../batches/group-commit.ts';
import type { Audit } from '../tables/audit.ts';
import type { Definitions } from '../tables/definitions.ts';
import type { BeginLimits } from './begin-limits.ts';
import type { LaneRows } from './lane-rows.ts';
import type { LimitReads } from './limit-reads.ts';
import type { LimitRows, LimitSources } from './limit-rows.ts';

interface LimitParts extends StoreAccess {
  readonly audit: Audit;
  readonly definitions: Definitions;
  readonly beginLimits: BeginLimits;
  readonly laneRows: LaneRows;
  readonly limitReads: LimitReads;
  readonly limitRows: LimitRows;
}

/** Declares, sets and lists limits of definitions. */
export function createLimitStore(store: LimitParts): LimitStore {
  return {
    async declareLimits({ buildId, definitions }) {
      store.assertOpen('declareLimits');
      for (const { limits } of definitions) checkLimits(limits);
      return store.write('declareLimits', definitions, (scope, definition) =>
        declare(store, scope, buildId, definition),
      );
    },

    async setLimits(request) {
      store.assertOpen('setLimits');
      if (request.override !== null) checkLimits(request.override);
      return store.writeOnce('setLimits', (scope) => set(store, scope, request));
    },

    listLimits: (params) =>
      store.read('listLimits', () => store.limitReads.list(params, store.now())),

    listLanes: (params) =>
      store.read('listLanes', () => store.limitReads.lanes(params, store.now())),
  };
}

function declare(
  store: LimitParts,
  scope: Scope,
  buildId: string,
  { kind, name, limits }: LimitDeclaration,
): DeclaredLimits {
  const { definitions, limitRows } = store;
  const known = definitions.find(kind, name, null);
  const isLimited = known !== undefined && limitRows.isLimited(scope, known);
  if (!isLimited && Object.keys(limits).length === 0) {
    // Most definitions have no limits, and get no row.
    return { kind, name, effective: {}, declaredBy: buildId, contradictions: [] };
  }
  const definitionKey = definitions.intern(kind, name, null);
  ensure(store, scope, kind, definitionKey);
  limitRows.declare(definitionKey, buildId, limits, scope.now);
  const { chosen, contradictions } = chooseDeclaration(
    limitRows.declarations(definitionKey, buildId),
  );
  const declaredBy = chosen?.buildId ?? buildId;
  const { override } = limitRows.sources(definitionKey);
  const sources = { declared: chosen?.limits ?? limits, declaredBy, override };
  change(store, scope, definitionKey, sources);
  return {
    kind,
    name,
    effective: mergeLimits(sources.declared, override),
    declaredBy,
    contradictions: contradictions.map((one) => ({ buildId: one.buildId, limits: one.limits })),
  };
}

/** Makes a definition limited. The instances of an orchestration that have begun before count from now on. */
function ensure(
  { limitRows, beginLimits }: LimitParts,
  { now }: Scope,
  kind: LimitedKind,
  definitionKey: number,
): void {
  const isNew = limitRows.ensure(definitionKey);
  if (isNew && kind === 'orchestration') beginLimits.countBegun(definitionKey, now);
}

function set(store: LimitParts, scope: Scope, { kind, name, override, audit }: SetLimits) {
  const { definitions, limitRows } = store;
  const definitionKey = definitions.intern(kind, name, null);
  ensure(store, scope, kind, definitionKey);
  const before = limitRows.sources(definitionKey);
  const merged = mergeOverride(before.override, override);
  change(store, scope, definitionKey, { ...before, override: merged });
  if (JSON.stringify(merged) !== JSON.stringify(before.override)) {
    store.audit.record([{ entry: audit, counts: {} }], scope.now);
  }
  return store.limitReads.record(definitionKey, scope.now);
}

/** Writes limits, and lets workers try again what the former ones held back. */
function change(
  { limitRows, laneRows }: LimitParts,
  { now, effects }: Scope,
  definitionKey: number,
  sources: LimitSources,
): void {
  const before = limitRows.get(definitionKey)?.limits ?? {};
  const effective = mergeLimits(sources.declared, sources.override);
  limitRows.setSources(definitionKey, sources, effective);
  if (limitsText(before) !== limitsText(effective)) {
    laneRows.makeReady(definitionKey);
    const { shared, own } = ratesOf(effective);
    if (shared !== undefined) limitRows.boundTat(definitionKey, latestTat(shared, now));
    if (own !== undefined) laneRows.boundTats(definitionKey, latestTat(own, now));
  }
  effects.due('work', now);
  effects.due('orchestrations', now);
}
