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

/**
 * Limits of definitions, over all processes.
 *
 * A definition is limited if limits of it were declared or set, or if a run of it had a key. A claim of a limited
 * definition takes a place, which belongs to the claimed item.
 *
 * A provider must:
 * - never claim more items than the global limit of their definition and the limit of their key allow, for tasks and
 *   activities, over all processes (limit/global-is-never-exceeded, limit/per-key-is-never-exceeded,
 *   limit/an-activity-is-limited, shared/limits-hold-over-all-processes)
 * - count the calls of a task by orchestrations, which are items of the activity `task:<name>`, with its runs. A fetch that
 *   names the task claims both (limit/calls-of-a-task-count-with-its-runs, limit/counts-calls-that-were-queued-before)
 * - count items that were queued or running before the definition was limited, without those whose lease had expired
 *   (limit/counts-what-runs-already, limit/a-lease-that-expired-before-has-no-place)
 * - claim no item of a limited definition at its insert (limit/a-limited-item-is-not-claimed-at-insert)
 * - free the place of an item when it is acked, handed back or deleted, exactly once, and change no place for an item
 *   that has none (limit/every-end-frees-its-place, limit/a-queued-item-has-no-place)
 * - free the place of an expired lease for other items, after which its token is invalid; a renewed lease keeps its
 *   place (limit/an-expired-lease-frees-its-place, limit/a-renewal-keeps-the-place)
 * - free the places of a process that died when its claims are taken over (takeover/frees-the-places-of-limits)
 * - mark claimed items that a limit or rate counts (limit/a-claim-shows-that-it-is-limited)
 * - claim a canceled item whose lease expired without a place, whatever the limits
 *   (limit/a-canceled-item-needs-no-place)
 * - let the `onFail` handler and a retry of a run wait in its lane (limit/an-on-fail-handler-takes-a-place,
 *   limit/a-rerun-keeps-its-key)
 * - claim suspect items alone, and let expired runs end without a place (limit/a-suspect-comes-alone,
 *   limit/an-expired-run-takes-no-place)
 * - not claim paused items and definitions until they are resumed (limit/a-paused-item-is-not-claimed,
 *   limit/a-paused-definition-is-not-claimed)
 * - end the waits of workers when a place is freed, a lease of a place expires, a limit is raised, a token is
 *   available or a delayed item is due (limit/a-freed-place-ends-a-wait, limit/an-expired-lease-ends-a-wait,
 *   limit/raising-ends-a-wait, rate/a-token-ends-a-wait, lane/a-delayed-run-comes-in-time)
 * - let neither limited nor unlimited definitions starve the others in one fetch (limit/starves-no-other-definition)
 * - serve the keys of a definition in proportion to their weights, and a new key next; the newest weight counts
 *   (lane/keys-share-by-weight, lane/a-new-key-comes-next, lane/the-newest-weight-counts)
 * - claim the items of a key by priority, then longest due (lane/priority-counts-within-a-key)
 * - keep keys with any characters apart, and reject invalid keys and weights without affecting other runs
 *   (lane/keys-are-only-text, lane/a-bad-key-is-rejected)
 * - admit at most `limit + burst` claims in any period of a rate, by GCRA, per definition or per key; each claim takes
 *   a token, also of a retry, and none is given back (rate/admits-a-burst-then-one-per-interval, rate/counts-per-key,
 *   rate/a-retry-takes-a-token, rate/a-key-keeps-its-rate-when-it-is-idle, rate/odd-periods-are-never-exceeded)
 * - apply a new rate from its change on, and lose at most one interval to a clock that is set back
 *   (rate/a-raised-rate-counts-from-its-change, rate/a-lowered-rate-counts-from-its-change,
 *   rate/a-raised-rate-counts-for-idle-keys, rate/a-clock-that-is-set-back-costs-one-interval)
 * - give no tokens back when limits are declared again (rate/declarations-give-no-tokens-back)
 * - count its items in queue depths and in reports of unclaimed work (limit/queues-count-its-items)
 * - return in `inspectInstance` and `inspectInstances` which limit holds an item back
 *   (limit/inspection-shows-what-holds-an-item)
 *
 * The limits of an orchestration count instances that have begun and not ended. It has no rate. A provider must:
 * - give an instance a place with its first claim, never more than the limits allow, over all processes; let the others
 *   wait in the order of their creation, also if they get messages (begin/never-more-than-the-limit,
 *   begin/waits-in-order, begin/holds-over-processes, begin/per-key, begin/a-message-does-not-pass)
 * - serve the keys of an orchestration fairly (begin/keys-take-turns, begin/an-idle-key-does-not-catch-up)
 * - give no place to an instance of a version that the claiming worker cannot run: perhaps no worker can
 *   (begin/a-version-that-is-not-runnable-takes-no-place)
 * - not run the first turn of a start (begin/a-first-turn-is-not-run)
 * - free the place with the end or the deletion of the instance, and wake workers for the next one; keep it over lost claims
 *   and executions (begin/every-end-frees-the-place, begin/an-end-wakes-who-waits, begin/keeps-its-place)
 * - let a waiting instance be stopped and paused; a paused one does not take a place before its resume
 *   (begin/what-waits-can-be-stopped, begin/a-paused-instance-does-not-take-the-place)
 * - let replaced, retried and forked instances wait like new ones; a start that replaces an instance has its own key, or none;
 *   a fork has the key and the weight of its source. One that is canceled while it waits takes a place even if none is free, so
 *   that its clean-up runs (begin/a-replacement-waits, begin/a-replacement-has-its-own-key, begin/a-retry-waits,
 *   begin/a-fork-has-the-key-of-its-source, begin/a-canceled-retry-cleans-up)
 * - let an instance without a turn that another debounced start moves give up its place, or its turn for one: it waits again
 *   once it is due, and a pause of it stays (begin/a-moved-start-gives-up-its-turn, begin/a-moved-start-frees-its-place,
 *   begin/a-moved-start-stays-paused)
 * - apply a change immediately, without stopping what has begun (begin/a-change-holds-at-once)
 * - count what began before the definition was limited, also instances whose first turn a worker then runs, without those
 *   whose lease had expired (begin/what-has-begun-counts, begin/a-claim-under-way-counts,
 *   begin/a-claim-that-expired-before-has-no-place)
 */
export interface LimitStore {
  /**
   * Declares the limits of a worker's code.
   *
   * A provider must, per definition:
   * - make them effective, and list them (limit/is-declared-and-listed)
   * - use the declaration of the build that declared the definition first at the latest time, and return builds with
   *   other limits, at least of the declaring build and of the 10 newest ones; a repeat of a build replaces its own
   *   declaration and keeps its rank, unless 1,000 builds are newer (limit/the-newest-build-wins,
   *   limit/a-much-older-build-does-not-win-back)
   * - accept a declaration without limits, which stores nothing for a definition that is not limited
   *   (limit/a-newer-build-can-remove-it, limit/a-declaration-without-limits-stores-nothing)
   * - reject figures out of range, changing nothing, and apply the largest valid ones (limit/bad-figures-are-rejected,
   *   limit/the-largest-figures-hold)
   */
  declareLimits(request: {
    readonly buildId: string;
    readonly definitions: readonly LimitDeclaration[];
  }): Promise<readonly DeclaredLimits[]>;

  /**
   * Sets or resets the limits of a definition, as an operator. Returns the new state.
   *
   * A provider must:
   * - merge the figures into those that were set before, and prefer them over declared ones
   *   (limit/an-operator-sets-single-figures)
   * - accept any definition, declared or not (limit/an-operator-can-limit-anything)
   * - stop nothing if a limit is lowered below what runs, and admit nothing until fewer run
   *   (limit/lowering-stops-nothing, limit/lowering-a-key-stops-nothing)
   * - record the audit entry in the same transaction, unless nothing changed (limit/a-change-is-audited)
   */
  setLimits(request: SetLimits): Promise<LimitsRecord>;

  /**
   * Lists the definitions with limits or keys.
   *
   * A provider must:
   * - return them by kind and name, in pages (limit/are-listed-in-order)
   */
  listLimits(params: ListLimitsParams): Promise<LimitsPage<LimitsRecord>>;

  /**
   * Lists the lanes of a definition.
   *
   * A provider must:
   * - return them by key, in pages, or by waiting items (lane/is-listed)
   * - delete lanes without items and with a full rate, in bounded steps (lane/an-idle-one-is-deleted,
   *   begin/an-idle-key-is-deleted)
   * - free the places of a lane whose items are deleted while they are held (lane/a-removed-one-is-free)
   */
  listLanes(params: ListLanesParams): Promise<LimitsPage<LaneRecord>>;
}
