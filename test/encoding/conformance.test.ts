import { afterAll, describe, it } from 'vitest';
import { silentLogger } from '../../src/model/logger.ts';
import { PayloadSealer } from '../../src/model/encoding/payload-sealer.ts';
import type { Provider } from '../../src/providers/contract/provider.ts';
import { encodingProvider } from '../../src/providers/encoding/encoding-provider.ts';
import { conformanceCases } from '../../src/testing/conformance/conformance-cases.ts';
import { describeProvider } from '../../src/testing/conformance/describe-provider.ts';
import { PostgresDatabases } from '../conformance/postgres-databases.ts';
import { SqliteFiles } from '../conformance/sqlite-files.ts';
import { xorCodec } from './xor-codec.ts';

/** Cases that a store with a codec passes in another form, and why. */
const different = [
  ...[
    'session/list-ends-at-its-bytes',
    'stream/is-bounded-in-bytes',
    'stream/reading-makes-room',
    'record/drops-the-oldest',
    'record/reads-by-bytes',
    'read/instances-end-at-their-bytes',
    'read/list-ends-at-its-bytes',
    'read/history-ends-at-its-bytes',
    'view/event-pages-end-at-their-bytes',
  ].map((id) => ({ case: id, reason: 'the limit counts encoded bytes' })),
  {
    case: 'retry-run/replaces-the-state',
    reason: 'equal values are encoded differently, so a retry gives each key a new version',
  },
  ...['list/by-failure-text', 'list/pairs-of-conditions-combine'].map((id) => ({
    case: id,
    reason: 'the messages of failures are encoded',
  })),
];

/** Cases in which a store changes data that the codec has encoded: run always. */
const always = ['conflict/ends-the-tree'];

const isLong = process.env['MODE'] === 'all-modes';

/** Runs one of `every` cases by default, and all of them with `npm run test:modes`. */
const sampled = (every: number) => [
  ...different,
  ...conformanceCases
    .filter(({ id }, index) => {
      const isDifferent = different.some((one) => one.case === id);
      const isChosen = always.includes(id) || index % every === 0;
      return !isLong && !isDifferent && !isChosen;
    })
    .map(({ id }) => ({ case: id, reason: 'runs with npm run test:modes' })),
];

function wrap(provider: Provider): Provider {
  const sealer = new PayloadSealer(xorCodec());
  return encodingProvider(provider, { sealer, logger: silentLogger });
}

const files = new SqliteFiles();
afterAll(() => files.remove());

function wrapFile(provider: Provider): Provider {
  const wrapped = wrap(provider);
  files.add(wrapped, files.pathOf(provider));
  return wrapped;
}

describeProvider(
  {
    name: 'SQLite with a codec',
    create: async (params) => wrapFile(await files.create(params)),
    reopen: async (params) => wrapFile(await files.reopen(params)),
    corrupt: files.corrupt,
    skip: sampled(12),
  },
  { describe, it },
);

const databases = new PostgresDatabases();
afterAll(() => databases.remove(), 120_000);
const wrappedStores = new WeakMap<Provider, Provider>();

function wrapSchema(provider: Provider): Provider {
  const wrapped = wrap(provider);
  wrappedStores.set(wrapped, provider);
  return wrapped;
}

const storeOf = (wrapped: Provider): Provider => wrappedStores.get(wrapped) ?? wrapped;

describeProvider(
  {
    name: 'PostgreSQL with a codec',
    create: async (params) => wrapSchema(await databases.create(params)),
    reopen: async ({ clock, first }) =>
      wrapSchema(await databases.reopen({ clock, first: storeOf(first) })),
    corrupt: (provider, rows) => databases.corrupt(storeOf(provider), rows),
    skip: sampled(24),
  },
  { describe, it },
);
