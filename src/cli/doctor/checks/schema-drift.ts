import type { Check } from '../finding.ts';
import { counted, examples } from '../phrases.ts';

/** Reports a schema that is older or newer than this version, or was changed. */
export const checkSchemaDrift: Check = ({ report, selector }) => {
  const schema = report?.schema;
  if (schema === undefined || schema.kind === 'current') return [];
  if (report?.access.kind === 'missing') return [];
  const { kind, pending, problem = '' } = schema;
  const level = 'problem';
  const migrate = `perdure migrate ${selector} --yes`;
  switch (kind) {
    case 'new': {
      const sentence = 'The store has no tables yet.';
      return [{ id: 'schema-new', level, sentence, remedy: `Create them: \`${migrate}\`.` }];
    }
    case 'older': {
      const names = examples(pending.map(({ number, name }) => `${number} ${name}`));
      const sentence = `The schema is older than this version: ${counted({ count: pending.length }, 'migration')} pending (${names}).`;
      const remedy = `Show them with \`perdure migrate ${selector} --plan\`, make a backup, then run \`${migrate}\`.`;
      return [{ id: 'schema-older', level, sentence, remedy }];
    }
    case 'newer': {
      const remedy = 'Install the version that wrote it: `npm install perdure@latest`.';
      return [{ id: 'schema-newer', level, sentence: problem, remedy }];
    }
    case 'changed':
    case 'damaged': {
      const remedy = 'Open it with the version that wrote it, or restore a backup.';
      return [{ id: `schema-${kind}`, level, sentence: problem, remedy }];
    }
  }
};
