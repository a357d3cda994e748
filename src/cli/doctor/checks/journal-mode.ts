import type { Check } from '../finding.ts';

/** Reports an SQLite file that does not use a write-ahead log. */
export const checkJournalMode: Check = ({ report, selector }) => {
  if (report?.kind !== 'sqlite' || report.schema?.kind === 'new') return [];
  const { journalMode } = report;
  if (journalMode === undefined || journalMode === 'wal') return [];
  return [
    {
      id: 'journal-mode',
      level: 'warning',
      sentence: `The file uses journal mode ${journalMode}, in which readers and writers block each other.`,
      remedy: `Switch it to a write-ahead log with \`perdure migrate ${selector} --yes\`. Keep the file on a local disk.`,
    },
  ];
};
