import { attentionOf, type Check } from '../finding.ts';
import { counted, examples, shellQuote } from '../phrases.ts';

/** Reports definitions that an operator paused. */
export const checkPausedDefinitions: Check = (examination) => {
  const found = attentionOf(examination, 'pausedDefinitions');
  const [first] = found?.definitions ?? [];
  if (found === undefined || first === undefined) return [];
  const names = found.definitions.map(
    ({ kind, name, reason }) =>
      `${kind} ${JSON.stringify(name)}${reason === undefined ? '' : ` (${reason})`}`,
  );
  return [
    {
      id: 'paused-definitions',
      level: 'note',
      sentence: `${counted(found, 'definition is', 'definitions are')} paused: ${examples(names, found.count)}.`,
      remedy: `Resume it with \`perdure resume --definition ${shellQuote(first.name)} --definition-kind ${first.kind} ${examination.selector}\`.`,
    },
  ];
};
