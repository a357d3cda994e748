import type { HistoryEvent } from '../../model/event.ts';
import { formatTime } from './format.ts';

/** Describes an event of a history in one line: its name, its outcome and its payload. */
export function describeEvent(event: HistoryEvent): string {
  const fields = event as unknown as Readonly<Record<string, unknown>>;
  const text = (key: string): string | undefined =>
    typeof fields[key] === 'string' && fields[key] !== '' ? String(fields[key]) : undefined;
  const failure = fields['failure'] as
    | { readonly message?: string; readonly code?: string }
    | undefined;
  const code = failure?.code === undefined ? '' : ` (${failure.code})`;
  const fireAt = fields['fireAt'];
  return [
    text('name'),
    text('key'),
    text('childId'),
    typeof fireAt === 'number' ? `at ${formatTime(fireAt)}` : undefined,
    text('targetKind'),
    text('reason'),
    failure?.message === undefined ? undefined : `${failure.message}${code}`,
    // The payload of an awakeable is its token.
    event.kind === 'awakeableCreated' ? undefined : text('payload'),
  ]
    .filter((part) => part !== undefined)
    .join('  ');
}

/** The number of the operation of an event; empty if it has none. */
export function operationOf(event: HistoryEvent): string {
  const { operation, target } = event as {
    readonly operation?: number;
    readonly target?: number;
  };
  return String(operation ?? target ?? '');
}
