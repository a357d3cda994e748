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
  },
  { describe, it },
);
