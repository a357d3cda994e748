import { OpenOperations, type OpenOperation } from '../client/reading/open-operations.ts';
import type { HistoryEvent } from '../model/event.ts';

/** What an execution waits for, in words, from its history. */
export function outstandingOperations(history: readonly HistoryEvent[]): readonly string[] {
  const operations = new OpenOperations();
  for (const event of history) operations.add(event);
  return operations.all.map((one) => `${inWords(one)}${one.isStopping === true ? ' to stop' : ''}`);
}

function inWords({ kind, name = '', childId = '', fireAt = 0 }: OpenOperation): string {
  switch (kind) {
    case 'activity':
      return `activity '${name}'`;
    case 'timer':
      return `a timer for ${new Date(fireAt).toISOString()}`;
    case 'child':
      return `child '${childId}'`;
    case 'detached':
      return `the start of '${childId}'`;
    case 'event':
      return `event '${name}'`;
  }
}
