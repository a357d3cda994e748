import { attentionOf, type Check } from '../finding.ts';
import { formatDuration } from '../../text/format.ts';
import { counted, examples, workerCommand } from '../phrases.ts';
import { queuesHeldByLimits } from './held-by-limits.ts';

/** Reports queues whose oldest entry waits for more than a minute although a worker has the definition. */
export const checkQueueAge: Check = (examination) => {
  const found = attentionOf(examination, 'oldQueues');
  const held = queuesHeldByLimits(examination).map(({ limits }) => limits);
  const grows = found?.queues.filter(
    ({ kind, name }) => !held.some((one) => one.kind === kind && one.name === name),
  );
  if (found === undefined || grows === undefined || grows.length === 0) return [];
  const { queues: _, ...rest } = found;
  const growing = { ...rest, count: found.count - held.length };
  const nowMs = examination.reads?.attention.at ?? 0;
  const queues = grows.map(
    ({ kind, name, ready, oldestReadyAt }) =>
      `${kind} ${JSON.stringify(name)} (${ready} waiting, the oldest for ${formatDuration(nowMs - (oldestReadyAt ?? nowMs))})`,
  );
  return [
    {
      id: 'queue-age',
      level: 'warning',
      sentence: `${counted(growing, 'queue grows', 'queues grow')} faster than the workers run it: ${examples(queues, growing.count)}.`,
      remedy: `Start another worker${workerCommand(examination)}. Or raise \`activityConcurrency\`. \`perdure queues ${examination.selector}\` shows all queues.`,
    },
  ];
};
