import type { Payload } from '../../../model/values/payload.ts';
import type { Turn } from '../../contract/turn.ts';

// PostgreSQL stores longer values out of line, and compresses each copy.
const maxInlineLength = 2_000;

/** The output that the row of an instance stores. A large one is only in the last event. */
export function ownOutput({ outcome, events }: Pick<Turn, 'outcome' | 'events'>): Payload | null {
  if (outcome.status !== 'completed') return null;
  const { payload } = outcome;
  const last = events.at(-1);
  const isInHistory = last?.kind === 'executionCompleted' && last.payload === payload;
  return payload !== null && payload.length > maxInlineLength && isInHistory ? null : payload;
}

/** SQL of the output of an instance. `row` is a row of `instances`. */
export function outputOf(schema: string, row = 'instances'): string {
  return `CASE WHEN ${row}.output IS NULL AND ${row}.completed_at IS NOT NULL AND ${row}.priority IS NULL
    THEN (SELECT last.payload FROM ${schema}.history AS last WHERE last.instance_key = ${row}.instance_key
          AND last.execution_id = ${row}.execution_id AND last.event_id = ${row}.history_length
          AND last.kind = 'executionCompleted')
    ELSE ${row}.output END`;
}
