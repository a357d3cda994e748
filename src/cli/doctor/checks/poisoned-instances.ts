import type { Check } from '../finding.ts';
import { counted, examples, shellQuote } from '../phrases.ts';

/** Reports instances that failed because their work was claimed too often without an outcome. */
export const checkPoisonedInstances: Check = ({ reads, selector }) => {
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
      remedy: `Fix the handler that \`perdure why ${shellQuote(first.id)} ${selector}\` names, deploy it, then run \`perdure retry ${shellQuote(first.id)} ${selector}\`.`,
    },
  ];
};
