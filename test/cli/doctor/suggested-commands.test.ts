import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { commands } from '../../../src/cli/commands.ts';
import { findProblems } from '../../../src/cli/doctor/examine.ts';
import {
  defaultLimits,
  type DoctorReads,
  type Examination,
  type Finding,
} from '../../../src/cli/doctor/finding.ts';
import { selectorsOf } from '../../../src/cli/doctor/selector.ts';
import { parseArguments } from '../../../src/cli/parse-arguments.ts';
import type { TargetChoice } from '../../../src/cli/target/choose-target.ts';
import type { StoreReport } from '../../../src/providers/shared/store-report.ts';
import { instanceStatuses } from '../../../src/model/status.ts';
import { shellWords } from './run-remedy.ts';

const at = 1_000_000_000;
const counts = Object.fromEntries(instanceStatuses.map((status) => [status, 1_000_000]));
const stale = {
  id: 'w1',
  name: 'w1',
  status: 'stale',
  host: 'h',
  lastSeenAt: at - 120_000,
  orchestrations: [],
  activities: [],
  tasks: ['fax'],
};
const queue = { kind: 'task', ready: 3, oldestReadyAt: at - 120_000, workers: 1 };
const rate = { limit: 1, perMs: 60_000, burst: 2, perKey: true };

/** What a client reads of a store that has every problem with its work. Ids and names need quotes, or begin with a dash. */
function badReads(schedule: 'late' | 'overlap', paused: boolean): DoctorReads {
  const held = { kind: 'task', name: 'it is held', effective: { global: 1, perKey: 1, rate } };
  return {
    attention: {
      at,
      findings: [
        {
          kind: 'blocked',
          count: 1,
          instances: [{ id: '-blocked', name: 'job', at, text: 'changed' }],
        },
        { kind: 'unclaimed', count: 1, work: [{ ...queue, name: 'fax', waiting: 1, dueForMs: 1 }] },
        { kind: 'leaked', count: 1, workers: [{ id: 'w2', name: 'w2', leaked: 1 }] },
        {
          kind: 'lateSchedules',
          count: 1,
          schedules: [
            { name: "it's", reason: schedule, since: at, lastInstanceId: "-it's@2026 run" },
          ],
        },
        {
          kind: 'oldQueues',
          count: 2,
          queues: [
            { ...queue, name: 'it is held' },
            { ...queue, name: 'slow' },
          ],
        },
        {
          kind: 'pausedDefinitions',
          count: 1,
          definitions: [{ kind: 'task', name: 'a b', at }],
        },
      ],
    },
    workers: [stale],
    metrics: { instances: counts, storageBytes: 1 },
    retention: { paused: paused ? { at, actor: null } : null, policies: null },
    limitsOfOldQueues: [{ ...held, running: 1, waiting: 3, holdsKey: false }],
    poisoned: [{ id: 'p 1', name: 'mail' }],
    hasMorePoisoned: false,
    skewMs: 60_000,
    skewErrorMs: 0,
  } as unknown as DoctorReads;
}

/** Reports of stores that have every problem. */
function badReports(isPostgres: boolean): readonly StoreReport[] {
  const accesses = [
    { kind: 'missing' },
    { kind: 'unreachable', reason: 'no route' },
    { kind: 'locked' },
    { kind: 'readOnly', reason: 'default_transaction_read_only' },
    { kind: 'readOnly', reason: 'cannot write in schema "perdure"' },
    { kind: 'writable' },
  ] as const;
  const pending = [{ number: 2, name: 'next' }];
  const schemas = (['new', 'older', 'newer', 'changed', 'damaged', 'current'] as const).map(
    (kind) => ({ kind, applied: 1, pending, problem: 'It differs.' }),
  );
  const store = isPostgres
    ? {
        kind: 'postgres' as const,
        name: 'host:5432/db',
        listens: false,
        server: {
          version: '13.1',
          oldestVersion: 14,
          database: 'db',
          role: 'app',
          synchronousCommit: 'off',
          idleInTransactionTimeoutMs: 0,
          connections: { used: 99, limit: 100, limitedBy: 'server' as const },
        },
        tables: [{ name: 'perdure.events', liveRows: 1, deadRows: 1_000_000 }],
      }
    : {
        kind: 'sqlite' as const,
        path: 'app store.db',
        files: [{ path: 'app store.db', mode: 0o644 }],
        journalMode: 'delete',
        bytes: 1_000_000_000,
        freeBytes: 900_000_000,
      };
  return accesses.flatMap((access) => schemas.map((schema) => ({ ...store, access, schema })));
}

/** Every finding of a target but `server-unreachable`, which suggests no command. */
function everyFinding(choice: TargetChoice): readonly Finding[] {
  const common = { nodeVersion: 'v23.0.0', ...selectorsOf(choice), limits: defaultLimits };
  const reports = choice.kind === 'store' ? badReports(choice.isPostgres) : [];
  const examinations: readonly Examination[] = [
    ...reports.map((report) => ({ ...common, report })),
    { ...common, reads: badReads('late', false) },
    { ...common, reads: badReads('overlap', true) },
  ];
  return examinations.flatMap(findProblems);
}

const store = (parts: Partial<Extract<TargetChoice, { kind: 'store' }>>): TargetChoice => ({
  kind: 'store',
  source: { kind: 'option' },
  store: 'postgres://app:secret-4711@db.example/app',
  isPostgres: true,
  label: 'postgres://db.example/app',
  ...parts,
});
const server = (parts: Partial<Extract<TargetChoice, { kind: 'server' }>>): TargetChoice => ({
  kind: 'server',
  source: { kind: 'option' },
  url: 'https://perdure.example',
  allowInsecureHttp: false,
  label: 'https://perdure.example',
  ...parts,
});
const profile = { kind: 'profile', name: 'my store' } as const;

const targets: Readonly<Record<string, TargetChoice>> = {
  'an SQLite file': store({ isPostgres: false, store: '/a b/app.db', label: 'app store.db' }),
  'a PostgreSQL URL of the environment': store({ source: { kind: 'environment' } }),
  'a PostgreSQL URL of an option, with a schema': store({
    schema: 'my schema',
    givenSchema: 'my schema',
  }),
  'a PostgreSQL profile': store({ source: profile, schema: 'other' }),
  'a PostgreSQL profile with another schema': store({
    source: profile,
    schema: "it's",
    givenSchema: "it's",
  }),
  'a server with a token file': server({ givenTokenFile: 'my token' }),
  'a server of a profile': server({ source: profile }),
};

describe.each(Object.entries(targets))('the commands that doctor suggests for %s', (_, choice) => {
  const findings = everyFinding(choice);
  const all = findings.flatMap(({ id, remedy }) =>
    [...remedy.matchAll(/`perdure ([^`]+)`/g)].map(([, line = '']) => ({ id, line })),
  );
  const lines = [...new Map(all.map((one) => [one.line, one])).values()];

  it('parse, and select the same target', () => {
    expect(new Set(all.map(({ id }) => id)).size).toBeGreaterThan(9);
    for (const { id, line } of lines) {
      const filled = line.replace('<file>', 'worker.ts').replace('<path | url>', 'app.db');
      const words = shellWords(filled, 'postgres://x');
      const terminal = { cwd: '/', readStdin: () => Promise.resolve('') };
      const parsed = parseArguments(words, commands, terminal);
      if ('help' in parsed) throw new Error(`${id} suggests help: ${line}`);
      const { command, options } = parsed;
      if (choice.kind === 'server' && command.needs === 'store') {
        // Such as `worker`, which a server cannot run.
        expect(options.text('store')).toBe('app.db');
        continue;
      }
      const isProfile = choice.source.kind === 'profile';
      expect({ line, profile: options.text('profile') }).toEqual({
        line,
        profile: isProfile ? profile.name : undefined,
      });
      if (choice.kind === 'store') {
        const schema = isProfile ? choice.givenSchema : choice.schema;
        expect(options.text('schema')).toBe(schema);
        const path = choice.isPostgres ? 'postgres://x' : choice.label;
        expect(options.text('store')).toBe(isProfile ? undefined : path);
      } else {
        expect(options.text('server')).toBe(isProfile ? undefined : choice.label);
        expect(options.text('token-file')).toBe(choice.givenTokenFile);
      }
    }
  });

  it('have no secret, and name the variable that they need', () => {
    expect(JSON.stringify(findings)).not.toContain('secret-4711');
    const isSet = choice.source.kind === 'environment';
    for (const { remedy } of findings.filter((one) => one.remedy.includes('$PERDURE_STORE'))) {
      expect(remedy.startsWith('Set PERDURE_STORE to the URL of ')).toBe(!isSet);
    }
  });
});

it('the findings of this test are all that the guide lists', () => {
  const guide = readFileSync('docs/guides/command-line.md', 'utf8');
  const [, table = ''] = /\n\| Id [^\n]+\n([^]*?)\n\n/.exec(guide) ?? [];
  const listed = table
    .split('\n')
    .slice(1)
    .flatMap((row) =>
      [...(row.split('|')[1] ?? '').matchAll(/`([a-z-]+)`/g)].map(([, id = '']) => id),
    );
  const found = Object.values(targets)
    .flatMap(everyFinding)
    .map(({ id }) => id);
  // Derived from the error of a connection.
  const ids = new Set([...found, 'server-unreachable']);
  expect(ids).toEqual(new Set(listed));
});

it('a PostgreSQL URL without a user, a password and a query is named itself', () => {
  const url = 'postgres://db.example/app';
  const { selector } = selectorsOf(store({ store: url, label: url }));
  expect(selector).toBe(`--store ${url}`);
});
