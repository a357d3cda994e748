import type Database from 'better-sqlite3';
import type { LimitOverride, Limits } from '../../contract/limits.ts';
import { callsOf } from './lane-rows.ts';
import {
  comparedDeclarations,
  keptDeclarations,
  limitsText,
  type Declaration,
} from '../../rules/limits.ts';
import { limitTriggers } from './limit-triggers.ts';

/** The limits of a definition with the state that a claim needs. */
export interface LimitRow {
  readonly definitionKey: number;
  readonly limits: Limits;
  readonly running: number;
  readonly tatUs: number;
  readonly vclock: number;
  /** Items from this key on may have no lane yet. `null`: all have one. */
  readonly convertFrom: number | null;
  readonly convertTo: number | null;
}

/** What was declared and set for a definition. */
export interface LimitSources {
  readonly declared: Limits;
  readonly declaredBy: string | null;
  readonly override: LimitOverride | null;
}

interface StoredRow extends Omit<LimitRow, 'limits'> {
  readonly effective: string;
}

// Bounds the cache of parsed limits. Few texts exist at a time.
const maxParsed = 1_000;

/**
 * The rows of `limits` and `declared_limits`. A definition is limited from its first row on, forever.
 *
 * Each insert of an item checks whether its definition is limited. The first of a transaction reads whether any is. No
 * other process can change that before the commit.
 */
export class LimitRows {
  readonly #addTriggers: () => void;
  readonly #any;
  readonly #has;
  readonly #insert;
  readonly #select;
  readonly #selectSources;
  readonly #setSources;
  readonly #boundTat;
  readonly #claimed;
  readonly #converted;
  readonly #freed;
  readonly #selectDeclarations;
  readonly #declare;
  readonly #forgetDeclarations;
  readonly #parsed = new Map<string, Limits>();
  #transaction: object | undefined;
  /** Whether any definition is limited. Never false again. */
  #isAny = false;
  #lastFreed = 0;

  constructor(db: Database.Database) {
    this.#addTriggers = () => db.exec(limitTriggers);
    this.#any = db.prepare<[], 1>('SELECT 1 FROM limits LIMIT 1').pluck();
    this.#has = db.prepare<[number], 1>('SELECT 1 FROM limits WHERE definition_key = ?').pluck();
    // Items that were queued before get their lanes in slices: see `Lanes.convert`.
    this.#insert = db.prepare<[{ definitionKey: number }]>(
      `INSERT INTO limits (definition_key, declared, effective, convert_from, convert_to)
       SELECT :definitionKey, '{}', '{}', iif(queued, 0, NULL), iif(queued, (SELECT max(item_key) FROM worker_queue), NULL)
       FROM (SELECT EXISTS (SELECT 1 FROM worker_queue
                            WHERE definition_key IN (:definitionKey, -:definitionKey,
                              ${callsOf(':definitionKey')}, -${callsOf(':definitionKey')})) AS queued)
       WHERE TRUE ON CONFLICT (definition_key) DO NOTHING`,
    );
    this.#select = db.prepare<[number], StoredRow>(
      `SELECT definition_key AS definitionKey, effective, running, tat AS tatUs, vclock,
              convert_from AS convertFrom, convert_to AS convertTo
       FROM limits WHERE definition_key = ?`,
    );
    this.#selectSources = db.prepare<
      [number],
      { declared: string; declaredBy: string | null; override: string | null }
    >('SELECT declared, declared_by AS declaredBy, override FROM limits WHERE definition_key = ?');
    this.#setSources = db.prepare<
      [
        {
          definitionKey: number;
          declared: string;
          declaredBy: string | null;
          override: string | null;
          effective: string;
        },
      ]
    >(
      `UPDATE limits SET declared = :declared, declared_by = :declaredBy, override = :override, effective = :effective
       WHERE definition_key = :definitionKey`,
    );
    this.#boundTat = db.prepare<[{ definitionKey: number; latest: number }]>(
      'UPDATE limits SET tat = :latest WHERE definition_key = :definitionKey AND tat > :latest',
    );
    this.#claimed = db.prepare<[number, number, number, number]>(
      'UPDATE limits SET running = running + ?, tat = ?, vclock = ? WHERE definition_key = ?',
    );
    this.#converted = db.prepare<[number | null, number, number]>(
      'UPDATE limits SET convert_from = ?, running = running + ? WHERE definition_key = ?',
    );
    this.#freed = db.prepare<[], number>('SELECT sum(freed) FROM limits').pluck();
    this.#selectDeclarations = db.prepare<
      [{ definitionKey: number; buildId: string }],
      { buildId: string; firstAt: number; limits: string }
    >(
      `SELECT build_id AS buildId, first_at AS firstAt, limits FROM declared_limits
       WHERE definition_key = :definitionKey AND (build_id = :buildId OR declaration_key IN (
         SELECT declaration_key FROM declared_limits WHERE definition_key = :definitionKey
         ORDER BY declaration_key DESC LIMIT ${comparedDeclarations}))
       ORDER BY declaration_key DESC`,
    );
    this.#declare = db.prepare<[number, string, string, number]>(
      `INSERT INTO declared_limits (definition_key, build_id, limits, first_at) VALUES (?, ?, ?, ?)
       ON CONFLICT (definition_key, build_id) DO UPDATE SET limits = excluded.limits`,
    );
    this.#forgetDeclarations = db.prepare<[number, number]>(
      `DELETE FROM declared_limits WHERE declaration_key IN (
         SELECT declaration_key FROM declared_limits WHERE definition_key = ?
         ORDER BY declaration_key DESC LIMIT -1 OFFSET ?)`,
    );
  }

  /** Whether a definition is limited. `transaction` identifies the write transaction that the call is part of. */
  isLimited(transaction: object, definitionKey: number): boolean {
    return this.isAny(transaction) && this.#has.get(definitionKey) !== undefined;
  }

  /** Whether any definition is limited. */
  isAny(transaction: object): boolean {
    if (this.#transaction !== transaction) {
      this.#isAny ||= this.#any.get() !== undefined;
      this.#transaction = transaction;
    }
    return this.#isAny;
  }

  /** Makes a definition limited, without any limit. Returns whether it was not limited before. */
  ensure(definitionKey: number): boolean {
    this.#transaction = undefined;
    if (this.#any.get() === undefined) this.#addTriggers();
    return this.#insert.run({ definitionKey }).changes === 1;
  }

  get(definitionKey: number): LimitRow | undefined {
    const row = this.#select.get(definitionKey);
    if (row === undefined) return undefined;
    this.#isAny = true;
    const { effective, ...others } = row;
    return { ...others, limits: this.#parse(effective) };
  }

  sources(definitionKey: number): LimitSources {
    const row = this.#selectSources.get(definitionKey);
    if (row === undefined) return { declared: {}, declaredBy: null, override: null };
    const override = row.override === null ? null : (JSON.parse(row.override) as LimitOverride);
    return { declared: this.#parse(row.declared), declaredBy: row.declaredBy, override };
  }

  setSources(definitionKey: number, sources: LimitSources, effective: Limits): void {
    const { declared, declaredBy, override } = sources;
    this.#setSources.run({
      definitionKey,
      declared: limitsText(declared),
      declaredBy,
      override: override === null ? null : JSON.stringify(override),
      effective: limitsText(effective),
    });
  }

  /** Bounds the theoretical arrival time of the rate that all keys share. */
  boundTat(definitionKey: number, latest: number): void {
    this.#boundTat.run({ definitionKey, latest });
  }

  /** Counts claimed items. */
  claimed(
    definitionKey: number,
    {
      count,
      tatUs,
      vclock,
    }: { readonly count: number; readonly tatUs: number; readonly vclock: number },
  ): void {
    this.#claimed.run(count, tatUs, vclock, definitionKey);
  }

  /** Records how far items have got their lanes, and the places of those that were running. */
  converted(definitionKey: number, convertFrom: number | null, places: number): void {
    this.#converted.run(convertFrom, places, definitionKey);
  }

  /** Whether places were freed since the last call. Call it in a write transaction. */
  hasFreed(): boolean {
    if (!this.#isAny) return false;
    const freed = this.#freed.get() ?? 0;
    const hasFreed = freed !== this.#lastFreed;
    this.#lastFreed = freed;
    return hasFreed;
  }

  /** The newest declarations of a definition and the one of a build, newest first. */
  declarations(definitionKey: number, buildId: string): readonly Declaration[] {
    return this.#selectDeclarations
      .all({ definitionKey, buildId })
      .map(({ limits, ...others }) => ({ ...others, limits: this.#parse(limits) }));
  }

  /** Stores the declaration of a build. A repeat keeps its rank. */
  declare(definitionKey: number, buildId: string, limits: Limits, now: number): void {
    this.#declare.run(definitionKey, buildId, limitsText(limits), now);
    this.#forgetDeclarations.run(definitionKey, keptDeclarations);
  }

  #parse(text: string): Limits {
    const known = this.#parsed.get(text);
    if (known !== undefined) return known;
    const limits = JSON.parse(text) as Limits;
    if (this.#parsed.size >= maxParsed) this.#parsed.clear();
    this.#parsed.set(text, limits);
    return limits;
  }
}
