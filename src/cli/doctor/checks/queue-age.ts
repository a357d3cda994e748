import { attentionOf, type Check } from '../finding.ts';
import { formatDuration } from '../../text/format.ts';
import { counted, examples } from '../phrases.ts';

/** Reports queues whose oldest entry waits for more than a minute although a worker has the definition. */
export const checkQueueAge: Check = (examination) => {
  const found = attentionOf(examination, 'oldQueues');
  if (found === undefined) return [];
  const nowMs = examination.reads?.attention.at ?? 0;
  const queues = found.queues.map(
    ({ kind, name, ready, oldestReadyAt }) =>
      `${kind} ${JSON.stringify(name)} (${ready} waiting, the oldest for ${formatDuration(nowMs - (oldestReadyAt ?? nowMs))})`,
  );
  return [
    {
      id: 'queue-age',
      level: 'warning',
      sentence: `${counted(found, 'queue grows', 'queues grow')} faster than the workers run it: ${examples(queues, found.count)}.`,
      remedy: `Start another worker with \`perdure worker <file> ${examination.selector}\`, or raise \`activityConcurrency\`. \`perdure queues ${examination.selector}\` shows all queues.`,
    },
  ];
};
