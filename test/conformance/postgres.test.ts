import { afterAll, describe, it } from 'vitest';
import { describeProvider } from '../../src/testing/conformance/describe-provider.ts';
import { limitDeclarations } from '../../src/testing/conformance/cases/limits/declarations.ts';
import { limitLanes } from '../../src/testing/conformance/cases/limits/lanes.ts';
import { limitPlaces } from '../../src/testing/conformance/cases/limits/places.ts';
import { PostgresDatabases } from './postgres-databases.ts';

const databases = new PostgresDatabases();
// Dropping hundreds of schemas is slow.
afterAll(() => databases.remove(), 120_000);

const limitCases = [limitDeclarations, limitPlaces, limitLanes].flatMap(({ cases }) => cases);

describeProvider(
  {
    name: 'PostgreSQL',
    create: databases.create,
    reopen: databases.reopen,
    corrupt: databases.corrupt,
    skip: limitCases.map(({ id }) => ({ case: id, reason: 'not implemented yet' })),
  },
  { describe, it },
);
