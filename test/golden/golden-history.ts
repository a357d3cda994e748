import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { HistoryEvent } from '../../src/model/event.ts';
import type { Failure } from '../../src/model/failures/failure.ts';

const folder = join(import.meta.dirname, 'histories');

const pathOf = (name: string): string => join(folder, `${name}.json`);

export function readHistory(name: string): readonly HistoryEvent[] {
  return JSON.parse(readFileSync(pathOf(name), 'utf8')) as HistoryEvent[];
}

/** One event per line, for readable diffs. */
export function writeHistory(name: string, history: readonly HistoryEvent[]): void {
  const lines = history.map((event) => JSON.stringify(withoutStacks(event)));
  writeFileSync(pathOf(name), `[\n${lines.map((line) => `  ${line}`).join(',\n')}\n]\n`);
}

/** A stack contains file paths of the machine that recorded it. */
export function withoutStacks(event: HistoryEvent): HistoryEvent {
  return 'failure' in event ? { ...event, failure: withoutStack(event.failure) } : event;
}

function withoutStack({ cause, ...failure }: Failure): Failure {
  const kept = { ...failure, ...(cause !== undefined && { cause: withoutStack(cause) }) };
  delete kept.stack;
  return kept;
}
