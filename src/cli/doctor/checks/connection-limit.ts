import type { Check } from '../finding.ts';

/** Reports a server without enough free connections for another worker process. */
export const checkConnectionLimit: Check = ({ report, limits }) => {
  if (report?.kind !== 'postgres' || report.server === undefined) return [];
  const { connections, database, role } = report.server;
  const { used, limit, limitedBy } = connections;
  if (limit - used >= limits.freeConnections) return [];
  const wanted = used + 4 * limits.freeConnections;
  const statement = {
    server: `ALTER SYSTEM SET max_connections = ${wanted}`,
    database: `ALTER DATABASE "${database}" CONNECTION LIMIT ${wanted}`,
    role: `ALTER ROLE "${role}" CONNECTION LIMIT ${wanted}`,
  }[limitedBy];
  const what = limitedBy === 'server' ? '`max_connections`' : `the limit of the ${limitedBy}`;
  const after = limitedBy === 'server' ? ' and restart the server' : '';
  return [
    {
      id: 'connection-limit',
      level: 'warning',
      sentence: `${used} of ${limit} connections are in use (${what}). A worker process uses up to ${limits.freeConnections}.`,
      remedy: `Run \`psql "$PERDURE_STORE" -c '${statement}'\`${after}, or lower \`poolSize\` of the workers.`,
    },
  ];
};
