import type { OrchestrationAck } from '../../contract/orchestration-queue.ts';
import type { CommitResult } from '../../contract/turn.ts';
import { Effects } from '../../shared/effects.ts';
import { parseToken } from '../../shared/lock-token.ts';
import type { BatchResult, PathParts } from '../batches/batching.ts';
import { clock, keys, prepare, rowsOf } from '../driver/columns.ts';
import type { Connections } from '../driver/connection.ts';
import { undefinedIfRefused } from '../driver/postgres-errors.ts';
import { nowSql } from '../driver/scope.ts';
import { eventRows, type EventRow } from '../tables/history.ts';
import { hasPausedDefinitions } from '../tables/pause-rows.ts';
import { isEligible } from './turn-acks.ts';

/**
 * Commits turns of steps in one round trip: turns that only append history, under claims that are kept. The first
 * statement locks the instances and their claims, the second checks all fences and writes only if all of them hold. Any other ack, and any
 * pause in the store, takes the general path.
 */
export class SingleStatementKeptTurns {
  readonly #connections: Connections;
  readonly #lock: ReturnType<typeof lockStatement>;
  readonly #commit: ReturnType<typeof commitStatement>;

  constructor({ connections, schema }: PathParts) {
    this.#connections = connections;
    this.#lock = lockStatement(schema);
    this.#commit = commitStatement(schema);
  }

  /** Commits the turns, or returns `undefined` if the caller has to use the general path. */
  async commit(
    acks: readonly OrchestrationAck[],
    now: number | null,
  ): Promise<BatchResult<CommitResult> | undefined> {
    const turns = acks.map((ack) => ({ ...parseToken(ack.lockToken), turn: ack.turn }));
    const instanceKeys = turns.map(({ key }) => key);
    if (!acks.every(isKept) || new Set(instanceKeys).size < acks.length) return undefined;
    const committed = await undefinedIfRefused(
      this.#connections.lockedStatement<{ readonly ok: boolean }>(
        'ackOrchestrationItems',
        this.#lock({ instanceKeys }),
        this.#commit.deferred(() => ({ now, turns, events: turns.flatMap(toEvents) })),
      ),
    );
    if (committed?.[0]?.ok !== true) return undefined;
    const results = acks.map((): CommitResult => ({ ok: true, claimed: [], kept: true }));
    return { results, effects: new Effects() };
  }
}

function isKept({ keep, messageKeys, turn }: OrchestrationAck): boolean {
  return (
    keep === true &&
    messageKeys.length === 0 &&
    turn.outcome.status === 'running' &&
    turn.workItems.length === 0 &&
    isEligible(turn)
  );
}

// Locks the claims too: until the commit, no other worker can claim an instance whose lease expires meanwhile. The count
// makes the second list wait for the first.
function lockStatement(schema: string) {
  return prepare(
    'perdure_lock_for_kept_turns',
    { instanceKeys: keys() },
    ({ instanceKeys }) => `WITH instance AS MATERIALIZED (
          SELECT FROM ${schema}.instances WHERE instance_key = ANY (${instanceKeys}) ORDER BY instance_key FOR NO KEY UPDATE
        )
        SELECT FROM ${schema}.instance_locks
        WHERE instance_key = ANY (${instanceKeys}) AND (SELECT count(*) FROM instance) IS NOT NULL
        ORDER BY instance_key FOR KEY SHARE`,
  );
}

interface KeptTurn {
  readonly key: number;
  readonly secret: string;
  readonly turn: OrchestrationAck['turn'];
}

const turnRows = rowsOf<KeptTurn>()({
  instance_key: ['bigint', ({ key }) => key],
  secret: ['text', ({ secret }) => secret],
  first_event_id: ['int', ({ turn }) => turn.firstEventId],
  version: ['text', ({ turn }) => turn.version],
  turn_id: ['text', ({ turn }) => turn.turnId],
  history_length: ['int', ({ turn }) => turn.firstEventId - 1 + turn.events.length],
});

function toEvents({ key, turn }: KeptTurn): readonly EventRow[] {
  return turn.events.map((event, index) => ({
    instanceKey: key,
    // The statement takes it from the instance.
    executionId: 0,
    eventId: turn.firstEventId + index,
    ...event,
  }));
}

/**
 * The statement that commits turns of steps. `turn` has the turns whose instances and claims pass their fences. A claim with
 * a count must be reset, so its turn takes the general path. The lease is not renewed: the row of the claim is only read.
 */
function commitStatement(schema: string) {
  const ifOk = 'WHERE (SELECT ok FROM verdict)';
  return prepare(
    'perdure_commit_kept_turns',
    { now: clock, turns: turnRows, events: eventRows },
    ({ turns, events }) => `WITH turn AS MATERIALIZED (
      SELECT turn.*, instance.row_id, instance.execution_id
      FROM ${turns.as('turn')}
      CROSS JOIN LATERAL (
        SELECT one.ctid AS row_id, one.definition_key, one.status, one.execution_id, one.history_length, one.paused_at
        FROM ${schema}.instances AS one WHERE one.instance_key = turn.instance_key LIMIT 1) AS instance
      CROSS JOIN LATERAL (
        SELECT lock_token, locked_until, claims
        FROM ${schema}.instance_locks AS one WHERE one.instance_key = turn.instance_key LIMIT 1) AS lock
      WHERE instance.status = 'running' AND instance.history_length = turn.first_event_id - 1
        AND instance.paused_at IS NULL AND lock.lock_token = turn.secret AND lock.locked_until > ${nowSql}
        AND lock.claims = 0 AND turn.version = (
          SELECT version FROM ${schema}.definitions AS definition
          WHERE definition.definition_key = instance.definition_key)
    ), verdict AS MATERIALIZED (
      SELECT (SELECT count(*) FROM turn) = cardinality(${turns.column('instance_key')})
        AND NOT ${hasPausedDefinitions(schema)} AS ok
    ), recorded AS (
      INSERT INTO ${schema}.history (${events.names})
      SELECT event.instance_key, turn.execution_id, ${withoutKeys(events.names, 'event')}
      FROM ${events.as('event')} JOIN turn ON turn.instance_key = event.instance_key
      ${ifOk}
    ), committed AS (
      UPDATE ${schema}.instances AS instance
      SET last_turn = turn.turn_id, history_length = turn.history_length
      FROM turn ${ifOk} AND instance.ctid = turn.row_id
    )
    SELECT ok FROM verdict`,
  );
}

/** The columns of events after the first two, which are the keys of the execution. */
function withoutKeys(names: string, alias: string): string {
  const [instanceKey, executionId, ...others] = names.split(',').map((name) => name.trim());
  if (instanceKey !== 'instance_key' || executionId !== 'execution_id')
    throw new Error('The columns of events begin with the keys of their execution.');
  return others.map((name) => `${alias}.${name}`).join(', ');
}
