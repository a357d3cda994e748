import type { Check } from '../finding.ts';

/** Reports a server that confirms commits before they are durable. */
export const checkSynchronousCommit: Check = ({ report }) => {
  if (report?.kind !== 'postgres' || report.server === undefined) return [];
  const { synchronousCommit, database, role } = report.server;
  if (synchronousCommit !== 'off') return [];
  return [
    {
      id: 'synchronous-commit',
      level: 'problem',
      sentence:
        '`synchronous_commit` is off: a crash of the server loses commits that workers and clients rely on.',
      remedy: `Run \`psql "$PERDURE_STORE" -c 'ALTER ROLE "${role}" IN DATABASE "${database}" SET synchronous_commit = on'\`, then restart the workers.`,
    },
  ];
};
