import type { ClientSurface } from '../../../client/client.ts';
import type {
  LimitChange,
  LimitKeyInfo,
  LimitsInfo,
  LimitTarget,
} from '../../../client/managing/limits.ts';
import type { LimitedKind } from '../../../providers/contract/limits.ts';
import { readAudit } from '../../audit-options.ts';
import { CliError, usage } from '../../cli-error.ts';
import type { Call, ExitCode, ParsedOptions } from '../../command.ts';
import { clean, formatAge, formatCount } from '../../text/format.ts';
import { writeJson } from '../../text/json.ts';
import { limitsText, overrideText } from '../../text/limits.ts';
import { shellLine } from '../../text/shell-line.ts';
import { writeFields, writeTable } from '../../text/table.ts';

const manyWaiting = 1_000;

/** Lists the definitions that have limits or keys. */
export async function list(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const { stdout, stderr } = terminal;
  const { client } = await call.open();
  const page = await client.limits.list({
    limit: options.number('limit'),
    cursor: options.text('after'),
  });
  if (json) {
    writeJson(stdout, page);
    return 0;
  }
  if (page.items.length === 0) {
    stderr.write('No limits. Set them in the code of a worker, or with `perdure limits set`.\n');
  } else {
    const nowMs = Date.now();
    writeTable(stdout, page.items, [
      { title: 'NAME', value: ({ name }: LimitsInfo) => name, min: 10 },
      { title: 'KIND', value: ({ kind }) => kind, drop: 3 },
      { title: 'LIMITS', value: ({ effective }) => limitsText(effective), min: 10 },
      { title: 'RUNNING', value: ({ running }) => formatCount(running), align: 'right' },
      { title: 'WAITING', value: ({ waiting }) => waitingText(waiting), align: 'right' },
      {
        title: 'NEXT',
        value: ({ nextTokenAt }) =>
          nextTokenAt === undefined ? '' : formatAge(nextTokenAt, nowMs),
        drop: 1,
      },
      {
        title: 'SET',
        value: ({ override }) => (override === undefined ? '' : 'yes'),
        style: () => 'yellow',
        drop: 2,
      },
    ]);
  }
  if (page.nextCursor !== undefined) {
    stderr.write(
      `There are more limits. Continue with --after ${clean(shellLine([page.nextCursor]))}.\n`,
    );
  }
  return 0;
}

/** Shows the limits of a definition and its keys. */
export async function show(call: Call): Promise<ExitCode> {
  const { options, terminal, json } = call;
  const { stdout, stderr } = terminal;
  const { client } = await call.open();
  const target = targetOf(call);
  const limits = await client.limits.get(target);
  if (limits === undefined) {
    throw unlimited(call, '');
  }
  const keys = await client.limits.keys(limits, {
    limit: options.number('limit') ?? 20,
    after: options.text('after'),
    order: options.text('order') as 'waiting' | 'key' | undefined,
  });
  if (json) {
    writeJson(stdout, { ...limits, keys: keys.items, ...nextOf(keys) });
    return 0;
  }
  const nowMs = Date.now();
  writeLimits(call, limits, nowMs);
  if (keys.items.length > 0) {
    stdout.write('\n');
    writeTable(stdout, keys.items, [
      { title: 'KEY', value: ({ key }: LimitKeyInfo) => (key === '' ? '(none)' : key), min: 8 },
      { title: 'WEIGHT', value: ({ weight }) => String(weight), align: 'right', drop: 2 },
      { title: 'RUNNING', value: ({ running }) => formatCount(running), align: 'right' },
      { title: 'WAITING', value: ({ waiting }) => waitingText(waiting), align: 'right' },
      {
        title: 'WAITS FOR',
        value: ({ heldBy }) => (heldBy === undefined ? '' : heldText[heldBy]),
        style: () => 'yellow',
      },
      {
        title: 'NEXT',
        value: ({ nextAt }) => (nextAt === undefined ? '' : formatAge(nextAt, nowMs)),
        drop: 1,
      },
    ]);
  }
  if (keys.nextAfter !== undefined) {
    const next = clean(shellLine([keys.nextAfter]));
    stderr.write(`There are more keys. Continue with --order key --after ${next}.\n`);
  }
  return 0;
}

/** Changes limits for all workers. */
export async function set(call: Call): Promise<ExitCode> {
  const change = readChange(call.options);
  const { client } = await call.open();
  await assertKnown(call, client);
  return changed(call, await client.limits.set(targetOf(call), change, readAudit(call)));
}

/** Returns to the limits of the code. */
export async function reset(call: Call): Promise<ExitCode> {
  const { client } = await call.open();
  await assertKnown(call, client);
  return changed(call, await client.limits.reset(targetOf(call), readAudit(call)));
}

/** Throws for a definition without limits, unless `--kind` says what it is. */
async function assertKnown(call: Call, { limits }: ClientSurface): Promise<void> {
  const target = targetOf(call);
  if (typeof target === 'string' && (await limits.get(target)) === undefined) {
    throw unlimited(call, ' For a definition that has none yet, pass --kind.');
  }
}

function unlimited({ operands }: Call, next: string): CliError {
  const [name = ''] = operands;
  return new CliError(
    3,
    'NOT_FOUND',
    `No definition ${JSON.stringify(name)} has limits or keys.`,
    `Run \`perdure limits list\` to see the definitions that have.${next}`,
  );
}

function changed(call: Call, limits: LimitsInfo): ExitCode {
  const { terminal, json } = call;
  if (json) writeJson(terminal.stdout, limits);
  else writeLimits(call, limits, Date.now());
  return 0;
}

function writeLimits({ terminal }: Call, limits: LimitsInfo, nowMs: number): void {
  const { declaredBy, override, nextTokenAt } = limits;
  writeFields(terminal.stdout, [
    ['name', limits.name],
    ['kind', limits.kind],
    ['limits', limitsText(limits.effective)],
    [
      'in the code',
      `${limitsText(limits.declared)}${declaredBy === undefined ? '' : ` (build ${declaredBy})`}`,
    ],
    ['set', override && overrideText(override)],
    ['running', formatCount(limits.running)],
    ['waiting', waitingText(limits.waiting)],
    ['next start', nextTokenAt === undefined ? undefined : formatAge(nextTokenAt, nowMs)],
  ]);
}

const heldText = { global: 'a place', perKey: 'a place of its key', rate: 'its rate' } as const;

function waitingText(waiting: number): string {
  return `${formatCount(waiting)}${waiting >= manyWaiting ? '+' : ''}`;
}

function nextOf({ nextAfter }: { readonly nextAfter?: string }): { readonly nextAfter?: string } {
  return nextAfter === undefined ? {} : { nextAfter };
}

function targetOf({ operands, options }: Call): LimitTarget {
  const [name = ''] = operands;
  const kind = options.text('kind') as LimitedKind | undefined;
  return kind === undefined ? name : { kind, name };
}

function readChange(options: ParsedOptions): LimitChange {
  const global = readCount(options, 'global');
  const perKey = readCount(options, 'per-key');
  const rate = readRate(options);
  if (global === undefined && perKey === undefined && rate === undefined) {
    throw usage('Nothing to change: pass --global, --per-key or --rate.');
  }
  return { concurrency: { global, perKey }, rate };
}

/** A number, or `null` for `none`. The client checks its range. */
function readCount(options: ParsedOptions, name: 'global' | 'per-key'): number | null | undefined {
  const text = options.text(name);
  if (text === undefined) return undefined;
  if (text === 'none') return null;
  if (/^-?\d+(\.\d+)?$/.test(text)) return Number(text);
  throw usage(`Invalid --${name} ${text}: use a number, or none.`);
}

function readRate(options: ParsedOptions): LimitChange['rate'] {
  const text = options.text('rate');
  const burst = options.number('burst');
  const perKey = options.flag('rate-per-key');
  if (text === undefined || text === 'none') {
    if (burst !== undefined) throw usage('--burst needs --rate.');
    if (perKey) throw usage('--rate-per-key needs --rate.');
    return text === undefined ? undefined : null;
  }
  const [limit, per = ''] = text.split('/');
  if (!/^\d+$/.test(limit ?? '') || per === '') {
    throw usage(`Invalid --rate ${text}: use <count>/<period>, such as 100/1m, or none.`);
  }
  return { limit: Number(limit), per, burst, perKey };
}
