import type { Check } from '../finding.ts';
import { counted, examples, instanceCommand } from '../phrases.ts';

/** Reports instances that failed because their work was claimed too often without an outcome. */
export const checkPoisonedInstances: Check = (examination) => {
  const { reads } = examination;
  const [first] = reads?.poisoned ?? [];
  if (reads === undefined || first === undefined) return [];
  const { poisoned, hasMorePoisoned } = reads;
  const count = { count: poisoned.length, ...(hasMorePoisoned && { capped: true as const }) };
  const ids = poisoned.map(({ id, name }) => `${JSON.stringify(id)} (${name})`);
  return [
    {
      id: 'poisoned',
      level: 'problem',
      sentence: `${counted(count, 'instance')} failed with POISON, because its work killed or blocked every worker that claimed it: ${examples(ids)}.`,
      remedy: `Fix the handler that ${instanceCommand('why', first.id, examination)} names, deploy it, then run ${instanceCommand('retry', first.id, examination)}.`,
    },
  ];
};
