import { attentionOf, type Check } from '../finding.ts';
import { counted, examples, instanceCommand } from '../phrases.ts';

/** Reports instances whose code and history disagree, or whose data cannot be read. */
export const checkBlockedInstances: Check = (examination) => {
  const found = attentionOf(examination, 'blocked');
  const [first] = found?.instances ?? [];
  if (found === undefined || first === undefined) return [];
  const ids = found.instances.map(({ id, name }) => `${JSON.stringify(id)} (${name})`);
  return [
    {
      id: 'blocked',
      level: 'problem',
      sentence: `${counted(found, 'instance is', 'instances are')} blocked: ${examples(ids, found.count)}. The oldest: ${first.text}.`,
      remedy: `Compare the recorded and the issued command with ${instanceCommand('why', first.id, examination)}, then deploy code that agrees with the history.`,
    },
  ];
};
