import { attentionOf, type Check } from '../finding.ts';
import { formatDuration } from '../../text/format.ts';
import { counted, examples, shellQuote } from '../phrases.ts';

/** Reports schedules with missed or waiting ticks. */
export const checkLateSchedules: Check = (examination) => {
  const found = attentionOf(examination, 'lateSchedules');
  const [first] = found?.schedules ?? [];
  if (found === undefined || first === undefined) return [];
  const nowMs = examination.reads?.attention.at ?? 0;
  const run = `${shellQuote(first.lastInstanceId ?? first.name)} ${examination.selector}`;
  const names = found.schedules.map(
    ({ name, reason, since }) =>
      `${JSON.stringify(name)} (${reason === 'late' ? 'due' : 'its last run has not ended'} for ${formatDuration(nowMs - since)})`,
  );
  return [
    {
      id: 'late-schedules',
      level: 'warning',
      sentence: `${counted(found, 'schedule is', 'schedules are')} late: ${examples(names, found.count)}.`,
      remedy:
        first.reason === 'late'
          ? `Start a worker: workers run the schedules. \`perdure worker <file> ${examination.selector}\`.`
          : `See what its run waits for with \`perdure why ${run}\`. If it must not go on, end it with \`perdure cancel ${run}\`.`,
    },
  ];
};
