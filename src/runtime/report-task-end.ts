import type { TerminalStatus } from '../model/status.ts';
import type { WorkItem } from '../providers/work-queue.ts';
import type { ResolvedOptions } from './options.ts';
import { reportSafely } from './report-safely.ts';

/** Tells whoever watches that a task run has ended, by a write of this worker that the store has accepted. */
export function reportTaskEnd(
  { logger, hooks }: Pick<ResolvedOptions, 'logger' | 'hooks'>,
  { instanceId, name: task }: WorkItem,
  status: TerminalStatus,
): void {
  reportSafely(logger, () => hooks.taskEnded?.({ instanceId, task, status }));
}
