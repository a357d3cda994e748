import { afterAll, describe, it } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { conformanceCases } from '../../src/testing/conformance/conformance-cases.ts';
import { describeProvider } from '../../src/testing/conformance/describe-provider.ts';
import { SqliteFiles } from './sqlite-files.ts';

const unreachable = conformanceCases
  .filter(({ id }) =>
    /^(?:shared|process|takeover|worker)\/|^data\/corrupt-|-over-processes$|^update\/a-reply-sends-a-hint$/.test(
      id,
    ),
  )
  .map(({ id }) => ({ case: id, reason: 'no other connection reaches a database in memory' }));

// A database in memory runs the same code without other connections: `npm run test:modes` runs the other cases.
const isLong = process.env['MODE'] === 'all-modes';
const left = conformanceCases
  .filter((_, index) => !isLong && index % 5 !== 0)
  .map(({ id }) => ({ case: id, reason: 'runs with npm run test:modes' }));

describeProvider(
  {
    name: 'SQLite in memory',
    create: ({ clock }) => openSqlite({ path: ':memory:', clock }),
    skip: [...unreachable, ...left],
  },
  { describe, it },
);

const files = new SqliteFiles();
afterAll(() => files.remove());

describeProvider(
  { name: 'SQLite on file', create: files.create, reopen: files.reopen, corrupt: files.corrupt },
  { describe, it },
);
