import { attentionOf, type Check, type Finding } from '../finding.ts';
import { formatDuration } from '../../text/format.ts';
import { counted, examples } from '../phrases.ts';

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
      remedy: `Start one: \`perdure worker <file> ${selector}\`.`,
    });
  }
  const stale = attentionOf(examination, 'staleWorkers');
  if (stale !== undefined) {
    const names = stale.workers.map(
      ({ name, host, lastSeenAt }) =>
        `${name} on ${host}, last seen ${formatDuration(attention.at - lastSeenAt)} ago`,
    );
    findings.push({
      id: 'stale-workers',
      level: 'warning',
      sentence: `${counted(stale, 'worker')} did not stop and sent no heartbeat: ${examples(names, stale.count)}.`,
      remedy: `Read the log of its process and restart it. List all workers with \`perdure workers ${selector}\`.`,
    });
  }
  return findings;
};
