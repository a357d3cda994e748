import type { Check, Finding } from '../finding.ts';
import { shellQuote } from '../phrases.ts';
import type { StoreReport } from '../../../providers/shared/store-report.ts';

/** Reports a store that is missing, unreachable, locked or read-only. */
export const checkStoreAccess: Check = ({ report, selector }) => {
  if (report === undefined) return [];
  const { kind, reason = '' } = report.access;
  const what = nameOf(report);
  const found = (id: string, sentence: string, remedy: string): readonly Finding[] => [
    { id, level: 'problem', sentence, remedy },
  ];
  switch (kind) {
    case 'writable':
      return [];
    case 'missing':
      return found(
        'store-missing',
        `${what} does not exist.`,
        `Create it with \`perdure migrate ${selector} --yes\`, or pass the path of an existing store.`,
      );
    case 'locked':
      return found(
        'store-locked',
        `Another process has locked ${what.replace('The', 'the')} for more than two seconds.`,
        'End the other write: a `sqlite3` shell in a transaction, a backup tool or a `VACUUM`.',
      );
    case 'readOnly':
      return found('store-read-only', `${what} is read-only: ${reason}.`, writeRemedy(report));
    case 'unreachable':
      return found(
        'store-unreachable',
        `${what} cannot be read: ${reason.replace(/\.$/, '')}.`,
        report.kind === 'sqlite'
          ? 'Check the path and its permissions. Restore a damaged file from a backup.'
          : 'Check that the server runs, and the host, port, user and password in the URL.',
      );
  }
};

function nameOf(report: StoreReport): string {
  return report.kind === 'sqlite'
    ? `The store ${JSON.stringify(report.path)}`
    : `The store ${report.name}`;
}

function writeRemedy(report: StoreReport): string {
  if (report.kind === 'sqlite') {
    // SQLite gives the -wal and -shm files beside the file its permissions.
    return `Give this user write access to the directory, the file and those beside it: \`chmod u+w ${shellQuote(report.path)}*\`.`;
  }
  if (report.access.reason?.includes('default_transaction_read_only') === true) {
    const database = report.server?.database ?? '';
    return `Run \`psql "$PERDURE_STORE" -c 'ALTER DATABASE "${database}" RESET default_transaction_read_only'\`.`;
  }
  if (report.access.reason?.includes('standby') === true) return 'Connect to the primary server.';
  const { role = '' } = report.server ?? {};
  const schema = / in schema (".+")$/.exec(report.access.reason ?? '')?.[1] ?? 'perdure';
  return `As the owner of the schema, run \`psql "$PERDURE_STORE" -c 'GRANT USAGE ON SCHEMA ${schema} TO "${role}"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO "${role}"; GRANT USAGE ON ALL SEQUENCES IN SCHEMA ${schema} TO "${role}"'\`.`;
}
