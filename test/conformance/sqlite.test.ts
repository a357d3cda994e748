import { afterAll, describe, it } from 'vitest';
import { openSqlite } from '../../src/providers/sqlite/provider.ts';
import { conformanceCases } from '../../src/testing/conformance/conformance-cases.ts';
import { describeProvider } from '../../src/testing/conformance/describe-provider.ts';
import { SqliteFiles } from './sqlite-files.ts';

const unreachable = conformanceCases
  .filter(({ id }) => /^(?:shared|process|takeover|worker)\/|^data\/corrupt-/.test(id))
  .map(({ id }) => ({ case: id, reason: 'no other connection reaches a database in memory' }));

describeProvider(
  {
    name: 'SQLite in memory',
    create: ({ clock }) => openSqlite({ path: ':memory:', clock }),
    skip: unreachable,
  },
  { describe, it },
);

const files = new SqliteFiles();
afterAll(() => files.remove());

describeProvider(
  { name: 'SQLite on file', create: files.create, reopen: files.reopen, corrupt: files.corrupt },
  { describe, it },
);
