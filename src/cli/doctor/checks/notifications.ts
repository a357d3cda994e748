import type { Check } from '../finding.ts';

/** Reports a connection through which notifications do not arrive. */
export const checkNotifications: Check = ({ report }) => {
  if (report?.kind !== 'postgres' || report.listens !== false) return [];
  return [
    {
      id: 'notifications',
      level: 'warning',
      sentence:
        'A notification by NOTIFY did not arrive within 2 s. Workers find new work only by polling.',
      remedy:
        'Connect to the server directly, or through a pooler in session mode: a pooler in transaction mode does not support LISTEN.',
    },
  ];
};
