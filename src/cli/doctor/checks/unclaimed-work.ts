import { attentionOf, type Check } from '../finding.ts';
import { formatCount, formatDuration } from '../../text/format.ts';
import { counted, examples, workerCommand } from '../phrases.ts';

/** Reports due work that no live worker can run. */
export const checkUnclaimedWork: Check = (examination) => {
  const found = attentionOf(examination, 'unclaimed');
  if (found === undefined) return [];
  const names = found.work.map(
    ({ kind, name, version, waiting, dueForMs }) =>
      `${kind} ${JSON.stringify(name)}${version === undefined ? '' : ` version ${version}`} (${formatCount(waiting)} waiting for ${formatDuration(dueForMs)})`,
  );
  return [
    {
      id: 'unclaimed-work',
      level: 'problem',
      sentence: `No live worker has ${counted(found, 'definition')} with due work: ${examples(names, found.count)}.`,
      remedy: `Start a worker with this code${workerCommand(examination)}. The file must export the definition.`,
    },
  ];
};
