import type { Check } from '../finding.ts';

/** Reports a PostgreSQL version that Perdure does not support. */
export const checkPostgresVersion: Check = ({ report }) => {
  if (report?.kind !== 'postgres' || report.server === undefined) return [];
  const { version, oldestVersion } = report.server;
  if (Number.parseInt(version, 10) >= oldestVersion) return [];
  return [
    {
      id: 'postgres-version',
      level: 'problem',
      sentence: `PostgreSQL ${version} is not supported.`,
      remedy: `Upgrade the server to version ${oldestVersion} or newer with \`pg_upgrade\`.`,
    },
  ];
};
