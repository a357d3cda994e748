import type { Check } from '../finding.ts';

/** Reports a server that lets idle transactions of the application hold locks forever. */
export const checkIdleTransactions: Check = ({ report }) => {
  if (report?.kind !== 'postgres' || report.server === undefined) return [];
  const { idleInTransactionTimeoutMs, database } = report.server;
  if (idleInTransactionTimeoutMs > 0) return [];
  return [
    {
      id: 'idle-transactions',
      level: 'note',
      sentence:
        '`idle_in_transaction_session_timeout` is 0: a transaction that the application leaves open holds its row locks without limit.',
      remedy: `Run \`psql "$PERDURE_STORE" -c 'ALTER DATABASE "${database}" SET idle_in_transaction_session_timeout = 60000'\`.`,
    },
  ];
};
