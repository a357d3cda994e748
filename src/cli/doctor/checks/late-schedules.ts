import { attentionOf, type Check } from '../finding.ts';
import { formatDuration } from '../../text/format.ts';
import { counted, examples, instanceCommand, workerCommand } from '../phrases.ts';

/** Reports schedules with missed or waiting ticks. */
export const checkLateSchedules: Check = (examination) => {
  const found = attentionOf(examination, 'lateSchedules');
  const [first] = found?.schedules ?? [];
  if (found === undefined || first === undefined) return [];
  const nowMs = examination.reads?.attention.at ?? 0;
  const run = first.lastInstanceId ?? first.name;
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
          ? `Workers run the schedules. Start one${workerCommand(examination)}.`
          : `See what its run waits for with ${instanceCommand('why', run, examination)}. If it must not go on, end it with ${instanceCommand('cancel', run, examination)}.`,
    },
  ];
};
