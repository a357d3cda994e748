import type { TerminalStatus } from '../../model/status.ts';
import type { WorkItem } from '../../providers/contract/work-queue.ts';
import type { Outcome } from '../turns/settled-activity.ts';
import type { ResolvedOptions } from '../options.ts';
import { reportFailedTask } from '../maintenance/report-failures.ts';
import { reportSafely } from '../maintenance/report-safely.ts';

/** Tells whoever watches that a task run has ended, by a write of this worker that the store has accepted. */
export function reportTaskEnd(
  { logger, hooks }: Pick<ResolvedOptions, 'logger' | 'hooks'>,
  item: WorkItem,
  status: TerminalStatus,
  outcome?: Outcome,
): void {
  const { instanceId, name: task } = item;
  if (status === 'failed' && outcome?.kind === 'failed')
    reportFailedTask(logger, item, outcome.failure);
  reportSafely(logger, () => hooks.taskEnded?.({ instanceId, task, status }));
}
