import type { Check, DoctorLimits, Finding } from '../finding.ts';
import { formatBytes } from '../../text/format.ts';
import { counted, shellQuote } from '../phrases.ts';
import type { PostgresReport, SqliteReport } from '../../../providers/shared/store-report.ts';

/** Reports space of deleted rows: free pages of an SQLite file, dead rows of PostgreSQL tables. */
export const checkBloat: Check = ({ report, limits }) => {
  if (report === undefined) return [];
  return report.kind === 'sqlite' ? checkPages(report, limits) : checkTables(report, limits);
};

function checkPages(
  { path, bytes: size = 0, freeBytes = 0 }: SqliteReport,
  { bloatBytes, bloatRatio }: DoctorLimits,
): readonly Finding[] {
  if (freeBytes < bloatBytes || freeBytes < size * bloatRatio) return [];
  return [
    {
      id: 'bloat',
      level: 'warning',
      sentence: `${formatBytes(freeBytes)} of ${formatBytes(size)} of the file are free pages.`,
      remedy: `Stop the workers and run \`sqlite3 ${shellQuote(path)} 'VACUUM'\`.`,
    },
  ];
}

function checkTables(
  { tables = [] }: PostgresReport,
  { bloatRows, bloatRatio }: DoctorLimits,
): readonly Finding[] {
  return tables
    .filter(
      ({ liveRows, deadRows }) =>
        deadRows >= bloatRows && deadRows >= (liveRows + deadRows) * bloatRatio,
    )
    .map(({ name, liveRows, deadRows }) => ({
      id: 'bloat',
      level: 'warning',
      sentence: `Table ${name} has ${counted({ count: deadRows }, 'dead row')} beside ${counted({ count: liveRows }, 'live row')}: autovacuum does not keep up.`,
      remedy: `Run \`psql "$PERDURE_STORE" -c 'VACUUM (ANALYZE) ${name}'\`, and lower \`autovacuum_vacuum_scale_factor\` of the table.`,
    }));
}
