import { recentMs } from '../../../client/explaining/read-attention.ts';
import type { WorkerInfo } from '../../../client/reading/workers.ts';
import type { Check, Finding } from '../finding.ts';
import { formatDuration } from '../../text/format.ts';
import { counted, examples, workerCommand } from '../phrases.ts';

/** Reports a store without a live worker while instances wait, and workers that were lost. */
export const checkLiveWorkers: Check = (examination) => {
  const { reads, selector } = examination;
  if (reads === undefined) return [];
  const { workers, metrics, attention } = reads;
  const findings: Finding[] = [];
  const { pending, running, canceling } = metrics.instances;
  const open = pending + running + canceling;
  if (open > 0 && workers.every(({ status }) => status !== 'live')) {
    findings.push({
      id: 'no-workers',
      level: 'problem',
      sentence: `${counted({ count: open }, 'instance has', 'instances have')} not ended, and no worker is live.`,
      remedy: `Start one${workerCommand(examination)}.`,
    });
  }
  const lost = lostWorkers(workers, attention.at);
  if (lost.length > 0) {
    const names = lost.map(
      ({ name, host, lastSeenAt }) =>
        `${name} on ${host}, last seen ${formatDuration(attention.at - lastSeenAt)} ago`,
    );
    findings.push({
      id: 'stale-workers',
      level: 'warning',
      sentence: `${counted({ count: lost.length }, 'worker')} did not stop and sent no heartbeat: ${examples(names, lost.length)}.`,
      remedy: `Read the log of its process and restart it${workerCommand(examination)}. List all workers with \`perdure workers ${selector}\`.`,
    });
  }
  return findings;
};

/** The workers that were lost in the last hour and not replaced, the last ones first. */
function lostWorkers(workers: readonly WorkerInfo[], nowMs: number): readonly WorkerInfo[] {
  const later = workers.filter(({ status }) => status === 'live');
  return workers
    .filter(({ status, lastSeenAt }) => status === 'stale' && nowMs - lastSeenAt < recentMs)
    .toSorted((a, b) => b.lastSeenAt - a.lastSeenAt)
    .filter((lost) => {
      const index = later.findIndex((live) => replaces(live, lost));
      // Each live worker replaces one, so that a worker that crashes again and again is reported.
      if (index >= 0) later.splice(index, 1);
      return index < 0;
    });
}

/** Whether a worker started after another one was lost, and has all its definitions. */
function replaces(live: WorkerInfo, lost: WorkerInfo): boolean {
  if (live.startedAt <= lost.lastSeenAt || lost.definitionsOmitted === true) return false;
  const has = (kind: 'activities' | 'tasks'): boolean =>
    lost[kind].every((name) => live[kind].includes(name));
  const versions = new Set(live.orchestrations.map(versionText));
  return (
    has('activities') &&
    has('tasks') &&
    lost.orchestrations.every((one) => versions.has(versionText(one)))
  );
}

function versionText({ name, version }: WorkerInfo['orchestrations'][number]): string {
  return JSON.stringify([name, version]);
}
