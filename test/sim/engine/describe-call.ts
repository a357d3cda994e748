import type { ObservedCall } from './connection.ts';

/** Properties that a timeline omits. */
const omitted: ReadonlySet<string> = new Set([
  'incarnation',
  'inputHash',
  'start',
  'options',
  'turnId',
  'lastTurn',
  'buildId',
  'runnable',
  'signal',
  'firstEventId',
  'version',
  'audit',
  'payload',
  'names',
  'tasks',
  'ran',
]);

/** Describes a committed call in one line. */
export function describeCall({ process, method, args, result }: ObservedCall): string {
  const shown = (_: string, value: unknown): unknown =>
    value instanceof Error ? value.message : value instanceof Map ? [...value] : value;
  const text = (value: unknown): string =>
    (
      JSON.stringify(value, (key, one) => (omitted.has(key) ? undefined : shown(key, one))) ??
      'nothing'
    )
      .replaceAll('"', '')
      .slice(0, 600);
  return `${process.name} ${method} ${text(args)} -> ${text(result)}`;
}
