import { CliError, refused } from '../../cli-error.ts';
import type { Call, ExitCode } from '../../command.ts';
import type { SchemaState } from '../../../providers/shared/migrations.ts';
import type { StoreReport } from '../../../providers/shared/store-report.ts';
import { reportOnStore, type StoreChoice } from '../../running/store-report.ts';
import { countOf } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { writeTable } from '../../text/table.ts';

/** Shows or applies the pending migrations of a store. Creates a store that does not exist. */
export async function run(call: Call): Promise<ExitCode> {
  const { terminal, options, json } = call;
  const { stdout, stderr } = terminal;
  const choice = call.choose() as StoreChoice;
  const report = await reportOnStore(choice, { brief: true });
  const schema = readSchema(report, choice);
  const isPlan = options.flag('plan');
  const isDone = schema.kind === 'current' && !needsJournal(report);
  if (!isPlan && !isDone) {
    if (schema.kind === 'older' && !options.flag('yes')) {
      if (!json) writePlan(call, choice, schema);
      const count = schema.pending.length;
      await terminal.confirm(
        `Applying ${countOf(count, 'migration')} to ${choice.label}, which older versions cannot open afterwards,`,
      );
    }
    await apply(choice);
  }
  if (json) {
    const { kind: state, applied, pending } = schema;
    writeJson(stdout, {
      store: choice.label,
      state,
      applied,
      pending,
      migrated: !isPlan && !isDone,
    });
    return 0;
  }
  if (isPlan) writePlan(call, choice, schema);
  else if (isDone) stderr.write(`${choice.label} is up to date: migration ${schema.applied}.\n`);
  else if (schema.kind === 'new') stderr.write(`Created ${choice.label}.\n`);
  else stderr.write(`Applied ${countOf(schema.pending.length, 'migration')} to ${choice.label}.\n`);
  return 0;
}

/** Returns the state of a schema that can be migrated. Throws for any other store. */
function readSchema({ access, schema }: StoreReport, { label }: StoreChoice): SchemaState {
  const reason = access.reason ?? '';
  if (access.kind === 'locked' || access.kind === 'unreachable' || schema === undefined) {
    const problem = access.kind === 'locked' ? 'is locked by another process' : 'cannot be read';
    const next = 'Run `perdure doctor` for the cause.';
    throw new CliError(
      5,
      'PROVIDER',
      `The store ${label} ${problem}: ${reason.replace(/\.$/, '')}.`,
      next,
    );
  }
  if (schema.problem !== undefined) throw refused(schema.problem);
  if (access.kind === 'readOnly') throw refused(`The store ${label} is read-only: ${reason}.`);
  return schema;
}

/** Opening an SQLite store also switches it to a write-ahead log. */
function needsJournal(report: StoreReport): boolean {
  return report.kind === 'sqlite' && report.journalMode !== 'wal';
}

async function apply({ store, schema, isPostgres }: StoreChoice): Promise<void> {
  if (isPostgres) {
    const { migratePostgres } = await import('../../../postgres.ts');
    return migratePostgres({ url: store, ...(schema !== undefined && { schema }) });
  }
  const { openSqlite } = await import('../../../sqlite.ts');
  const provider = await openSqlite({ path: store });
  await provider.close();
}

function writePlan(
  { terminal: { stdout, stderr } }: Call,
  { label }: StoreChoice,
  { kind, applied, pending }: SchemaState,
): void {
  if (pending.length === 0) {
    stderr.write(`${label} is up to date: migration ${applied}.\n`);
    return;
  }
  stderr.write(
    kind === 'new'
      ? `${label} does not exist or is empty. These migrations create its tables:\n`
      : `${label} is at migration ${applied}. Pending:\n`,
  );
  writeTable(stdout, pending, [
    { title: 'NUMBER', value: ({ number }) => String(number), align: 'right' },
    { title: 'NAME', value: ({ name }) => name },
  ]);
}
