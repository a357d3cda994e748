import type { AuditEntry } from './management.ts';

/** The kind of a definition that can have limits. */
export type LimitedKind = 'orchestration' | 'activity' | 'task';

/**
 * A rate limit (GCRA): at most `limit + burst` runs begin in any window of `perMs`.
 * An idle definition, or key, can begin `burst + 1` runs immediately, then one per `perMs / limit`.
 */
export interface RateLimit {
  /** An integer from 1 to 1,000,000. */
  readonly limit: number;
  /** The period in milliseconds. An integer from 1 to 31 days. */
  readonly perMs: number;
  /** An integer from 0 to 1,000,000. */
  readonly burst: number;
  /** Whether each key has this rate. False: all keys of the definition share it. */
  readonly perKey: boolean;
}

/** The limits of a definition, over all processes. An absent figure is unlimited. */
export interface Limits {
  /** Maximum places in use: claimed items. An integer from 1 to 1,000,000. */
  readonly global?: number;
  /** Maximum places in use per key. An integer from 1 to 1,000,000. */
  readonly perKey?: number;
  readonly rate?: RateLimit;
}

/** Figures that an operator set. They replace declared ones. `null` removes a limit, an absent figure keeps it. */
export interface LimitOverride {
  readonly global?: number | null;
  readonly perKey?: number | null;
  readonly rate?: RateLimit | null;
}

/** The key and the weight of a run. Runs of one definition with the same key share a lane. */
export interface Lane {
  /** Not empty, at most 255 characters. Runs without a key share the lane with the empty key. */
  readonly key: string;
  /** Its share among the keys of the definition. An integer from 1 to 100. The newest run's weight counts. */
  readonly weight: number;
}

/** Which limit holds back an item that is due. */
export type HoldingLimit = 'global' | 'perKey' | 'rate';

/** Why an item that is due and belongs to a limited definition has not been claimed. */
export interface LimitHold {
  /** The limit that is reached. `null`: none, the item waits for its turn or for a worker. */
  readonly limit: HoldingLimit | null;
  /** The figure of that limit. `null` without one. */
  readonly max: number | null;
  /** Places in use: of the definition with `global`, else of the key. */
  readonly running: number;
  /** With `rate`: when the next token is available. */
  readonly nextAt: number | null;
  /** Items of its lane that are claimed before it, counted up to `maxCountedItems`. */
  readonly ahead: number;
}

/** Counts of waiting items stop here. */
export const maxCountedItems = 1_000;

/** Limits that the code of a worker declares. */
export interface LimitDeclaration {
  readonly kind: LimitedKind;
  readonly name: string;
  readonly limits: Limits;
}

/** Another build's declaration of the same definition. */
export interface OtherDeclaration {
  readonly buildId: string;
  readonly limits: Limits;
}

/** The result of a declaration. */
export interface DeclaredLimits {
  readonly kind: LimitedKind;
  readonly name: string;
  /** What holds now: the newest build's declaration with the operator's figures. */
  readonly effective: Limits;
  /** The build whose declaration counts. */
  readonly declaredBy: string;
  /** Builds that declared other limits, newest first. */
  readonly contradictions: readonly OtherDeclaration[];
}

/** The limits of a definition with their state. */
export interface LimitsRecord {
  readonly kind: LimitedKind;
  readonly name: string;
  /** What the newest build declares. */
  readonly declared: Limits;
  /** `null`: no worker has declared limits. */
  readonly declaredBy: string | null;
  /** What an operator set. `null`: nothing. */
  readonly override: LimitOverride | null;
  readonly effective: Limits;
  /** Places in use. Can exceed a limit that was lowered. */
  readonly running: number;
  /** Items without a place, due or delayed, counted up to `maxCountedItems`. */
  readonly waiting: number;
  /** With a rate of the definition that is used up: when the next token is available. */
  readonly nextTokenAt: number | null;
}

/** One key of a limited definition. A key without items and without a used rate is not listed. */
export interface LaneRecord {
  /** Empty: runs without a key. */
  readonly key: string;
  readonly weight: number;
  readonly running: number;
  /** Items without a place, due or delayed, counted up to `maxCountedItems`. */
  readonly waiting: number;
  /** The limit that holds its due items back. `null`: none, or nothing is due. */
  readonly heldBy: HoldingLimit | null;
  /** When the next item can be claimed, if a delay or a rate decides it. */
  readonly nextAt: number | null;
}

/** A page of limits, or of lanes. */
export interface LimitsPage<Record> {
  readonly records: readonly Record[];
  /** Whether there are more. */
  readonly more: boolean;
}

/** A change of limits by an operator. */
export interface SetLimits {
  readonly kind: LimitedKind;
  readonly name: string;
  /** Merged into the figures that were set before. `null` deletes them all: the declared limits hold again. */
  readonly override: LimitOverride | null;
  /** Recorded in the same transaction, unless nothing changed. */
  readonly audit?: AuditEntry;
}

/** Selects lanes of a definition. */
export interface ListLanesParams {
  readonly kind: LimitedKind;
  readonly name: string;
  readonly limit: number;
  /**
   * `key`: in the order of the keys in UTF-8. `waiting`: the most waiting items first, among the first 10,000 lanes by
   * key; without pages.
   */
  readonly order: 'key' | 'waiting';
  /** With the order `key`: only larger keys. */
  readonly afterKey?: string;
}

/** Selects limited definitions, in the order of kind and name in UTF-8. */
export interface ListLimitsParams {
  readonly limit: number;
  /** Only later ones. */
  readonly after?: { readonly kind: LimitedKind; readonly name: string };
  /** Only this definition. */
  readonly only?: { readonly kind: LimitedKind; readonly name: string };
}

/** Limits of definitions, over all processes. */
export interface LimitStore {
  /** Declares the limits of a worker's code. */
  declareLimits(request: {
    readonly buildId: string;
    readonly definitions: readonly LimitDeclaration[];
  }): Promise<readonly DeclaredLimits[]>;

  /** Sets or resets the limits of a definition, as an operator. Returns the new state. */
  setLimits(request: SetLimits): Promise<LimitsRecord>;

  /** Lists the definitions with limits or keys. */
  listLimits(params: ListLimitsParams): Promise<LimitsPage<LimitsRecord>>;

  /** Lists the lanes of a definition. */
  listLanes(params: ListLanesParams): Promise<LimitsPage<LaneRecord>>;
}
