import { attentionOf, type Check } from '../finding.ts';
import { counted, examples } from '../phrases.ts';

/** Reports handlers that ignore their signal and still run after their grace. */
export const checkLeakedHandlers: Check = (examination) => {
  const found = attentionOf(examination, 'leaked');
  if (found === undefined) return [];
  const workers = found.workers.map(({ name, leaked }) => `${leaked} on ${name}`);
  return [
    {
      id: 'leaked-handlers',
      level: 'warning',
      sentence: `${counted(found, 'handler')} of canceled work ignored the signal and still hold a slot: ${examples(workers)}.`,
      remedy: `Restart these workers, and pass \`ctx.signal\` to the calls of the handler. \`perdure list --leaked ${examination.selector}\` names the instances.`,
    },
  ];
};
