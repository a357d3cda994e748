import { expect, it } from 'vitest';
import { keys, one, prepare, rowsOf, strings } from './columns.ts';
import { nowSql } from './scope.ts';

interface Row {
  readonly instanceKey: number;
  readonly item: { readonly name: string | null; readonly shielded: boolean };
}

const rows = rowsOf<Row>()({
  instance_key: 'bigint',
  name: ['text', ({ item }) => item.name],
  shielded: ['boolean', ({ item }) => item.shielded],
});

it('prepare() numbers parameters and encodes values in the declared order', () => {
  const bind = prepare(
    'perdure_test',
    { now: one<number | null>('bigint'), rows, ids: keys('int') },
    ({ now, rows, ids }) =>
      `${now} ${rows.as('new')} ${rows.withPlace('new')} ${rows.column('name')} ${rows.names} ${ids}`,
  );
  const row = { instanceKey: 7, item: { name: 'a"b', shielded: true } };
  const other = { instanceKey: 8, item: { name: null, shielded: false } };
  const [{ text }, values] = bind({ now: null, rows: [row, other], ids: [1, 2] });
  const unnest = 'unnest($2::bigint[], $3::text[], $4::boolean[])';
  expect(text).toBe(
    `$1::bigint ${unnest} AS new (instance_key, name, shielded) ${unnest} WITH ORDINALITY AS new (instance_key, name, shielded, place) $3::text[] instance_key, name, shielded $5::int[]`,
  );
  expect(values).toEqual([null, '{7,8}', '{"a\\"b",NULL}', '{true,false}', '{1,2}']);
});

it('one() and strings() escape texts like columns of rows do', () => {
  const bind = prepare('perdure_test', { id: one<string>('text'), ids: strings() }, () => '');
  expect(bind({ id: 'a\0', ids: ['a\0', 'b'] })[1]).toEqual(['a\u00010', '{"a\u00010","b"}']);
});

it('prepare() throws when nowSql is used and `now` is not the first parameter', () => {
  expect(() => prepare('perdure_test', { rows }, () => nowSql)).toThrow('must be now');
});

it('rejects wrong column types, unknown columns and missing lists at compile time', () => {
  // @ts-expect-error The property is a number.
  rowsOf<Row>()({ instance_key: 'text' });
  // @ts-expect-error The property does not exist.
  rowsOf<Row>()({ instance_kee: 'bigint' });
  // @ts-expect-error The accessor returns a string.
  rowsOf<Row>()({ name: ['int', ({ item }) => item.name] });
  const bind = prepare('perdure_test', { rows }, ({ rows }) => {
    // @ts-expect-error The column does not exist.
    rows.column('nam');
    return '';
  });
  // @ts-expect-error The rows are missing.
  expect(() => bind({})).toThrow(TypeError);
});
