import type { ListFilter } from '../../../client/reading/instance-list.ts';
import type { BulkOptions, BulkProgress } from '../../../client/managing/bulk.ts';
import type { BulkResult } from '../../../management/bulk-call.ts';
import type { InstanceStatus } from '../../../model/status.ts';
import { readAudit } from '../../audit-options.ts';
import { CliError, interrupted, usage } from '../../cli-error.ts';
import type { Call, ExitCode, Terminal } from '../../command.ts';
import { reportOf } from '../../exit-codes.ts';
import { hasFilter, readFilter } from '../../filter-options.ts';
import { clean, countOf, formatCount } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { isSecretUrl } from '../../text/secret-url.ts';
import { shellLine } from '../../text/shell-line.ts';

/** An action on all instances that match a filter. */
export interface BulkCommand {
  /** The command: `cancel`. */
  readonly verb: string;
  /** While it runs: `canceling`. */
  readonly doing: string;
  /** After it: `canceled`. */
  readonly done: string;
  /** Conditions that hold unless `--status` is given. */
  readonly defaults?: ListFilter;
  /** Whether it also applies to descendants, which the count of a dry run leaves out. */
  readonly tree?: boolean;
  readonly run: (filter: ListFilter, options: BulkOptions) => Promise<BulkResult>;
}

/** Whether the call names instances by a filter, and not by ids. Throws a usage error for both and for neither. */
export function isBulk(call: Call): boolean {
  const { operands, options, command } = call;
  const byFilter = hasFilter(options) || options.flag('all');
  if (byFilter && operands.length > 0) {
    throw usage('Pass ids or a filter, not both.');
  }
  if (byFilter || operands.length > 0) {
    if (!byFilter) rejectBulkOptions(call);
    return byFilter;
  }
  throw usage(
    'No instance is chosen.',
    `Pass ids, a filter such as --name, or --all. Run \`perdure ${command.name} --help\` for all filters.`,
  );
}

/** Options that only a filter has. An action on ids would ignore them, and change what a dry run must not. */
function rejectBulkOptions({ options, command }: Call): void {
  const only = ['cursor', 'max', ...(command.name === 'prune' ? [] : ['dry-run'])];
  const given = only.find((name) => options.has(name));
  if (given !== undefined) throw usage(`--${given} needs a filter such as --name, not ids.`);
}

/** Runs a bulk action: counts, asks, shows its progress, and reports refusals. Ctrl-C ends it after the current transactions. */
export async function runBulk(call: Call, bulk: BulkCommand): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const given = readFilter(options);
  const filter = given.status === undefined ? { ...bulk.defaults, ...given } : given;
  const isAll = options.flag('all');
  checkMax(options.number('max'));
  const preview = await bulk.run(filter, { dryRun: true, all: isAll });
  if (options.flag('dry-run')) {
    if (json) writeJson(terminal.stdout, preview);
    else {
      const reach = bulk.tree === true ? ' Applies to their descendants, too.' : '';
      terminal.stdout.write(`${describePreview(preview)}${reach} Nothing was changed.\n`);
    }
    return 0;
  }
  const cursor = options.text('cursor');
  if (preview.matched === 0 && cursor === undefined) {
    if (json) writeJson(terminal.stdout, preview);
    else terminal.stderr.write('No instances match. Nothing was changed.\n');
    return 0;
  }
  let { matched: total } = preview;
  if (!options.flag('yes')) {
    let current = preview;
    do {
      total = current.matched;
      await confirm(call, bulk, current);
      // More instances may match since the question: ask for their number again.
      current = await bulk.run(filter, { dryRun: true, all: isAll });
    } while (current.matched > total);
  }
  const result = await follow(call, bulk, { filter, isAll, total });
  return report(call, bulk, result);
}

function checkMax(max: number | undefined): void {
  if (max === undefined || (Number.isSafeInteger(max) && max >= 1)) return;
  throw usage(`Invalid --max ${max}: use a whole number from 1.`);
}

async function confirm(
  { terminal }: Call,
  { verb, tree }: BulkCommand,
  { matched, preview }: BulkResult,
): Promise<void> {
  const title = `${verb[0]?.toUpperCase() ?? ''}${verb.slice(1)}`;
  const count = preview?.capped === true ? `${formatCount(matched)} or more` : formatCount(matched);
  const reach = tree === true ? ' and all descendants' : '';
  await terminal.confirm(`${title} ${count} ${matched === 1 ? 'instance' : 'instances'}${reach}`, {
    count: matched,
  });
}

async function follow(
  call: Call,
  bulk: BulkCommand,
  { filter, isAll, total }: { filter: ListFilter; isAll: boolean; total: number },
): Promise<BulkResult> {
  const { options, terminal } = call;
  const cursor = options.text('cursor');
  const max = options.number('max');
  const bar = terminal.progress(bulk.doing);
  let last: BulkProgress | undefined;
  try {
    return await bulk.run(filter, {
      ...readAudit(call),
      all: isAll,
      ...(max !== undefined && { limit: max }),
      ...(cursor !== undefined && { cursor }),
      signal: terminal.interrupted,
      onProgress: (progress) => {
        last = progress;
        bar.update(progress.matched, Math.max(total, progress.matched));
      },
    });
  } catch (error) {
    const failed = terminal.interrupted.aborted ? interrupted() : error;
    throw last?.cursor === undefined ? failed : withPosition(failed, call, bulk, last, last.cursor);
  } finally {
    bar.end();
  }
}

function report(call: Call, bulk: BulkCommand, result: BulkResult): ExitCode {
  const { terminal, json } = call;
  const refused = result.refused.length + result.refusedMore;
  if (json) writeJson(terminal.stdout, result);
  else if (result.done) {
    const note = refused === 0 ? '' : `, ${formatCount(refused)} refused`;
    terminal.stdout.write(`${countOf(result.changed, 'instance')} ${bulk.done}${note}.\n`);
  }
  if (!json) reportRefusals(terminal, result);
  if (result.done || result.cursor === undefined) return refused > 0 ? 4 : 0;
  const visited = { ...result, refused };
  if (terminal.interrupted.aborted) {
    throw withPosition(interrupted(), call, bulk, visited, result.cursor);
  }
  // The JSON document has the counts and the cursor.
  if (!json) {
    const { stderr } = terminal;
    stderr.write(`${position(bulk, visited)}\n${clean(continuation(call, result.cursor))}\n`);
  }
  return refused > 0 ? 4 : 0;
}

function reportRefusals({ stderr }: Terminal, { refused, refusedMore }: BulkResult): void {
  for (const { id, code, reason } of refused) {
    stderr.write(
      `${stderr.style('yellow', 'refused:')} ${clean(id)}  ${clean(reason)} (${clean(code)})\n`,
    );
  }
  if (refusedMore > 0) stderr.write(`and ${formatCount(refusedMore)} more were refused.\n`);
}

interface Visited {
  readonly matched: number;
  readonly changed: number;
  readonly refused: number;
}

/** Adds to an error how far the operation came, and the command that continues it. */
function withPosition(
  error: unknown,
  call: Call,
  bulk: BulkCommand,
  visited: Visited,
  cursor: string,
): CliError {
  const { exitCode, code, message, next } = reportOf(error);
  const steps = [...(next === undefined ? [] : [next]), continuation(call, cursor)];
  return new CliError(exitCode, code, `${message} ${position(bulk, visited)}`, steps.join(' '));
}

function position({ done }: BulkCommand, { matched, changed, refused }: Visited): string {
  return `${countOf(matched, 'instance')} visited so far: ${formatCount(changed)} ${done}, ${formatCount(refused)} refused.`;
}

/** The variables that have the URLs of options in the place of a command. */
const variables: Readonly<Record<string, string>> = {
  '--store': 'PERDURE_STORE',
  '--server': 'PERDURE_SERVER',
};

/** The command that continues an operation. A URL with a password is not repeated. */
function continuation({ argv }: Call, cursor: string): string {
  const notes: string[] = [];
  const rest = withoutCursor(argv);
  const words = rest.map((word, index) => {
    const [, inline, value = word] = /^(--[a-z]+)=(.*)$/s.exec(word) ?? [];
    const option = inline ?? rest[index - 1] ?? '';
    const variable = variables[option];
    if (variable === undefined || !isSecretUrl(value)) return shellLine([word]);
    notes.push(`Set ${variable} to the URL of the option ${option} first. `);
    return `${inline === undefined ? '' : `${inline}=`}"$${variable}"`;
  });
  const line = ['perdure', ...words, '--cursor', shellLine([cursor])].join(' ');
  return `${notes.join('')}Continue with: ${line}`;
}

function withoutCursor(argv: readonly string[]): readonly string[] {
  return argv.filter(
    (word, index) =>
      word !== '--cursor' && argv[index - 1] !== '--cursor' && !word.startsWith('--cursor='),
  );
}

/** `1,284 instances match: 1,280 running, 4 canceling.` */
function describePreview({ matched, preview }: BulkResult): string {
  const states = Object.entries(preview?.byStatus ?? {}) as [InstanceStatus, number][];
  const parts = states
    .toSorted(([, one], [, other]) => other - one)
    .map(([status, count]) => `${formatCount(count)} ${status}`);
  const or = preview?.capped === true ? ' or more' : '';
  const verb = matched === 1 ? 'matches' : 'match';
  if (matched === 0) return 'No instances match.';
  return `${formatCount(matched)}${or} ${matched === 1 ? 'instance' : 'instances'} ${verb}: ${parts.join(', ')}.`;
}
