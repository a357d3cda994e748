import type { LimitOverride, Limits, LimitDeclaration } from '../../contract/limits.ts';
import {
  chooseDeclaration,
  comparedDeclarations,
  gcraOf,
  keptDeclarations,
  latestTat,
  limitsText,
  mergeLimits,
  type Declaration,
} from '../../rules/limits.ts';
import { clock, keys, one, optional, prepare } from '../driver/columns.ts';
import type { Scope } from '../driver/scope.ts';
import type { LimitedDefinitions } from '../batches/limited-definitions.ts';
import { arrival, laneState, limitColumns } from './limit-text.ts';

/** A row of `limits`, locked by the transaction. */
export interface LockedLimits {
  readonly definitionKey: number;
  readonly declared: Limits;
  readonly declaredBy: string | null;
  readonly override: LimitOverride | null;
  readonly effective: Limits;
}

/** The limits of a definition after a declaration. */
export interface DeclarationResult {
  readonly effective: Limits;
  readonly declaredBy: string;
  readonly contradictions: readonly Declaration[];
}

interface Row {
  readonly definitionKey: number;
  readonly declared: string;
  readonly declaredBy: string | null;
  readonly override: string | null;
  readonly effective: string;
}

/** Writes `limits` and `declared_limits`. */
export class LimitRows {
  readonly #limited: LimitedDefinitions;
  readonly #sql: ReturnType<typeof statements>;

  constructor({
    schema,
    limited,
  }: {
    readonly schema: string;
    readonly limited: LimitedDefinitions;
  }) {
    this.#limited = limited;
    this.#sql = statements(schema);
  }

  /** Makes definitions limited, without any limit: their items wait in lanes. Keys of paused instances are negative. */
  async ensure(scope: Scope, definitionKeys: readonly number[]): Promise<void> {
    const missing = [...new Set(definitionKeys.map(Math.abs))].filter(
      (key) => !this.#limited.has(key),
    );
    if (missing.length === 0) return;
    await scope.tx.execute(...this.#sql.ensure({ definitionKeys: missing }));
    scope.afterCommit(() => this.#limited.add(missing));
  }

  /** Locks the rows of definitions, in key order. Inserts those of `added` that are missing. */
  async lock(
    scope: Scope,
    definitionKeys: readonly number[],
    added = definitionKeys,
  ): Promise<readonly LockedLimits[]> {
    const missing = [...new Set(added)];
    if (missing.length > 0) {
      await scope.tx.execute(...this.#sql.insert({ definitionKeys: missing }));
    }
    const rows = await scope.tx.query<Row>(...this.#sql.lock({ definitionKeys }));
    scope.afterCommit(() => this.#limited.add(rows.map(({ definitionKey }) => definitionKey)));
    return rows.map((row) => ({
      definitionKey: row.definitionKey,
      declared: JSON.parse(row.declared) as Limits,
      declaredBy: row.declaredBy,
      override: row.override === null ? null : (JSON.parse(row.override) as LimitOverride),
      effective: JSON.parse(row.effective) as Limits,
    }));
  }

  /** Stores the declaration of a build, and what holds after it. */
  async declare(
    { tx, now, effects }: Scope,
    row: LockedLimits,
    { buildId, limits }: Pick<LimitDeclaration, 'limits'> & { readonly buildId: string },
  ): Promise<DeclarationResult> {
    const { definitionKey, override } = row;
    const text = limitsText(limits);
    const { declare, selectDeclared, forget } = this.#sql;
    await tx.execute(...declare({ definitionKey, buildId, limits: text, now }));
    await tx.execute(...forget({ definitionKey }));
    const declared = await tx.query<{ buildId: string; firstAt: number; limits: string }>(
      ...selectDeclared({ definitionKey, buildId }),
    );
    const { chosen, contradictions } = chooseDeclaration(
      declared.map((one) => ({ ...one, limits: JSON.parse(one.limits) as Limits })),
    );
    const declaredBy = chosen?.buildId ?? buildId;
    const holds = chosen?.limits ?? limits;
    const effective = mergeLimits(holds, override);
    await this.#write({ tx, now, effects }, row, {
      declared: holds,
      declaredBy,
      override,
      effective,
    });
    return { effective, declaredBy, contradictions };
  }

  /** Replaces what an operator set. */
  async override(
    scope: Pick<Scope, 'tx' | 'now' | 'effects'>,
    row: LockedLimits,
    override: LimitOverride | null,
  ): Promise<void> {
    const effective = mergeLimits(row.declared, override);
    await this.#write(scope, row, { ...row, override, effective });
  }

  async #write(
    { tx, now, effects }: Pick<Scope, 'tx' | 'now' | 'effects'>,
    before: LockedLimits,
    row: Omit<LockedLimits, 'definitionKey'>,
  ): Promise<void> {
    const { definitionKey } = before;
    const { global, perKey, rate } = row.effective;
    const gcra = rate && gcraOf(rate);
    await tx.execute(
      ...this.#sql.update({
        definitionKey,
        declared: limitsText(row.declared),
        declaredBy: row.declaredBy,
        override: row.override === null ? null : JSON.stringify(row.override),
        effective: limitsText(row.effective),
        global,
        perKey,
        rateUs: gcra?.intervalUs,
        tau: gcra?.toleranceUs,
        ratePerKey: rate?.perKey ?? false,
        latestTat: gcra === undefined || rate?.perKey ? undefined : latestTat(gcra, now),
      }),
    );
    if (limitsText(before.effective) === limitsText(row.effective)) return;
    await tx.execute(...this.#sql.updateLanes({ now, definitionKey }));
    effects.due('work', 0);
    effects.due('orchestrations', 0);
  }
}

function statements(schema: string) {
  const [limits, declared, lanes] = [
    `${schema}.limits`,
    `${schema}.declared_limits`,
    `${schema}.lanes`,
  ];
  const state = laneState({ more: 'more', running: 'running', tat: 'tat' });
  const definitionKey = one<number>('int');
  const insert = (
    definitionKeys: string,
  ) => `INSERT INTO ${limits} (definition_key, declared, effective)
        SELECT key, '{}', '{}' FROM unnest(${definitionKeys}) AS new (key) ORDER BY key
        ON CONFLICT (definition_key) DO NOTHING RETURNING definition_key AS "definitionKey"`;
  return {
    insert: prepare(
      'perdure_insert_limits',
      { definitionKeys: keys('int') },
      ({ definitionKeys }) => insert(definitionKeys),
    ),
    // The signal makes the first claim due, which adds the triggers if the store has none. It does not say that the lane has
    // items: an empty lane that counts as ready could take the only place of a claim.
    ensure: prepare(
      'perdure_ensure_limits',
      { definitionKeys: keys('int') },
      ({ definitionKeys }) => `WITH new AS (${insert(definitionKeys)})
        INSERT INTO ${schema}.lane_signals (definition_key, lane, due, freed) SELECT "definitionKey", '', FALSE, 0 FROM new`,
    ),
    lock: prepare(
      'perdure_lock_limits_to_set',
      { definitionKeys: keys('int') },
      ({
        definitionKeys,
      }) => `SELECT definition_key AS "definitionKey", declared, declared_by AS "declaredBy", override,
          effective
        FROM ${limits} WHERE definition_key = ANY (${definitionKeys}) ORDER BY definition_key FOR UPDATE`,
    ),
    declare: prepare(
      'perdure_declare_limits',
      {
        definitionKey,
        buildId: one<string>('text'),
        limits: one<string>('text'),
        now: one<number>('bigint'),
      },
      ({ definitionKey, buildId, limits, now }) => `INSERT INTO ${declared} AS known
          (definition_key, build_id, limits, first_at)
        VALUES (${definitionKey}, ${buildId}, ${limits}, ${now})
        ON CONFLICT (definition_key, build_id) DO UPDATE SET limits = excluded.limits WHERE known.limits <> excluded.limits`,
    ),
    selectDeclared: prepare(
      'perdure_select_declared_limits',
      { definitionKey, buildId: one<string>('text') },
      ({
        definitionKey,
        buildId,
      }) => `SELECT build_id AS "buildId", first_at AS "firstAt", limits FROM ${declared}
        WHERE definition_key = ${definitionKey} AND (build_id = ${buildId} OR declaration_key = ANY (ARRAY(
          SELECT declaration_key FROM ${declared} WHERE definition_key = ${definitionKey}
          ORDER BY declaration_key DESC LIMIT ${comparedDeclarations})))
        ORDER BY declaration_key DESC`,
    ),
    forget: prepare(
      'perdure_forget_declared_limits',
      { definitionKey },
      ({ definitionKey }) => `DELETE FROM ${declared} WHERE declaration_key = ANY (ARRAY(
          SELECT declaration_key FROM ${declared} WHERE definition_key = ${definitionKey}
          ORDER BY declaration_key DESC OFFSET ${keptDeclarations}))`,
    ),
    update: prepare(
      'perdure_update_limits',
      {
        definitionKey,
        declared: one<string>('text'),
        declaredBy: one<string | null>('text'),
        override: one<string | null>('text'),
        effective: one<string>('text'),
        global: optional(one<number>('int')),
        perKey: optional(one<number>('int')),
        rateUs: optional(one<number>('bigint')),
        tau: optional(one<number>('bigint')),
        ratePerKey: one<boolean>('boolean'),
        latestTat: optional(one<number>('bigint')),
      },
      (row) => `UPDATE ${limits} SET declared = ${row.declared}, declared_by = ${row.declaredBy},
          override = ${row.override}, effective = ${row.effective}, global_limit = ${row.global}, key_limit = ${row.perKey},
          rate_us = ${row.rateUs}, rate_tau = ${row.tau}, rate_per_key = ${row.ratePerKey},
          tat = least(tat, ${row.latestTat})
        WHERE definition_key = ${row.definitionKey}`,
    ),
    // All lanes, also those that become ready: a limit may be raised. Bounds the times of the rate by `latestTat` of the
    // rules, also of lanes without items.
    updateLanes: prepare(
      'perdure_update_lanes',
      { now: clock, definitionKey },
      ({
        definitionKey,
      }) => `UPDATE ${lanes} AS lane SET ready = next.ready, wake_at = next.wake_at,
          tat = least(lane.tat, latest_tat) FROM (
          SELECT row_id, latest_tat, ${state.ready} AS ready, ${state.wakeAt} AS wake_at FROM (
            SELECT lim.now, lim.now_us, key_limit, key_rate_us, key_tau, known.ctid AS row_id, known.more, known.running,
              now_us + key_tau + key_rate_us AS latest_tat, ${arrival('known.tat')} AS tat
            FROM (SELECT ${limitColumns} FROM ${limits} AS one WHERE definition_key = ${definitionKey}) AS lim
            JOIN ${lanes} AS known USING (definition_key)) AS lane) AS next
        WHERE lane.ctid = next.row_id
          AND (lane.ready <> next.ready OR lane.wake_at IS DISTINCT FROM next.wake_at OR lane.tat > latest_tat)`,
    ),
  };
}
