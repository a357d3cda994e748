import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { resolveOptions } from './options.ts';
import { isPostgresUrl } from './postgres-url.ts';

const url = 'postgres://shop:hunter2@db.example.com:5433/orders?sslmode=require';

describe('resolveOptions', () => {
  it('returns a store name without secrets', () => {
    expect(resolveOptions({ url }).name).toBe('postgres db.example.com:5433/orders perdure');
  });

  it.each([
    'perdure"; DROP SCHEMA public; --',
    `perdure'`,
    'Perdure',
    'a b',
    '1st',
    'pg_mine',
    '',
    'ü',
    'a'.repeat(51),
  ])('throws INVALID_OPTION for the schema %j', (schema) => {
    expect(() => resolveOptions({ url, schema })).toThrow(
      expect.objectContaining({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('schema'),
      }),
    );
  });

  it('accepts and quotes a schema name', () => {
    expect(resolveOptions({ url, schema: 'shop_jobs_2' })).toMatchObject({
      schema: 'shop_jobs_2',
      quotedSchema: '"shop_jobs_2"',
    });
  });

  it.each(['postgres://shop:hunter2@host:port/db', 'hunter2', 'postgres://shop:hunter2@[/db'])(
    'throws INVALID_OPTION for the URL %s without repeating it',
    (bad) => {
      const refusal = (): unknown => {
        try {
          return resolveOptions({ url: bad });
        } catch (error) {
          return error;
        }
      };
      expect(refusal()).toMatchObject({ code: 'INVALID_OPTION' });
      expect(inspect(refusal(), { depth: 10, showHidden: true })).not.toContain('hunter2');
    },
  );

  it.each([
    { poolSize: 0 },
    { poolSize: 1.5 },
    { pollMs: 0 },
    { retryMs: -1 },
    { connectTimeoutMs: 0 },
    { answerTimeoutMs: 0 },
    { statementTimeoutMs: Number.NaN },
    { idleInTransactionTimeoutMs: 0.5 },
  ])('throws INVALID_OPTION for %o', (options) => {
    expect(() => resolveOptions({ url, ...options })).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION' }),
    );
  });

  it('throws INVALID_OPTION for a URL that names a missing file', () => {
    expect(() => resolveOptions({ url: `${url}&sslrootcert=/not/there` })).toThrow(
      expect.objectContaining({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('/not/there'),
      }),
    );
  });

  it('sends timeouts with the connection, or per transaction behind a pooler', () => {
    expect(resolveOptions({ url }).connection.client).toMatchObject({ statement_timeout: 30_000 });
    const { client, transactionSettings } = resolveOptions({ url, prepare: false }).connection;
    expect(client).not.toHaveProperty('statement_timeout');
    expect(transactionSettings).toContain('SET LOCAL statement_timeout = 30000');
  });
});

it('isPostgresUrl accepts postgres: and postgresql: URLs only', () => {
  expect(['postgres://h/d', 'postgresql://h/d', 'POSTGRES://h/d'].every(isPostgresUrl)).toBe(true);
  expect(['app.db', 'mysql://h/d', './postgres:/x', undefined].some(isPostgresUrl)).toBe(false);
});
