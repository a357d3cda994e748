import { afterAll, describe, it } from 'vitest';
import { describeProvider } from '../../src/testing/conformance/describe-provider.ts';
import { PostgresDatabases } from './postgres-databases.ts';

const databases = new PostgresDatabases();
// Dropping hundreds of schemas is slow.
afterAll(() => databases.remove(), 120_000);

describeProvider(
  {
    name: 'PostgreSQL',
    create: databases.create,
    reopen: databases.reopen,
    corrupt: databases.corrupt,
    skip: [
      'limit/a-declaration-without-limits-stores-nothing',
      'limit/a-canceled-item-needs-no-place',
      'limit/a-suspect-comes-alone',
      'lane/a-bad-key-is-rejected',
    ].map((id) => ({ case: id, reason: 'not implemented yet' })),
  },
  { describe, it },
);
