/**
 * Named parameters for SQL statements. A list of rows is described once; its `unnest` text, parameter numbers and encoded values
 * are derived from that description.
 */
import { booleans, itself, numbers, texts, toStoredText } from './arrays.ts';
import { nowSql } from './scope.ts';
import type { DeferredStatement, Statement } from './transaction.ts';

type WholeNumber = 'bigint' | 'int' | 'smallint';

/** The SQL type of a column and the accessor of its value. Use accessors on hot paths. */
export type Column<Row> =
  | readonly [type: WholeNumber, of: (row: Row) => number | null]
  | readonly [type: 'text', of: (row: Row) => string | null]
  | readonly [type: 'boolean', of: (row: Row) => boolean];

type CamelCase<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<CamelCase<Rest>>}`
  : Name;

/** Shorthand for a property of the same name: `instance_key: 'bigint'` reads `row.instanceKey`. Slower than an accessor. */
type SameName<Row, Name extends string> =
  CamelCase<Name> extends infer Key extends keyof Row
    ? Row[Key] extends number | null
      ? WholeNumber
      : Row[Key] extends string | null
        ? 'text'
        : Row[Key] extends boolean
          ? 'boolean'
          : never
    : never;

/** SQL fragments for a list of rows. */
export interface ListText<Name extends string> {
  /** Column names, for an INSERT. */
  readonly names: string;
  /** The rows as a table, for FROM. */
  readonly as: (alias: string) => string;
  /**
   * `as`, for a plan that does not depend on the number of rows. PostgreSQL plans the first executions of a statement by
   * its values: with 500 rows, a scan of a table of 40,000 looks cheaper than 500 reads by ctid. It takes ten times as long.
   */
  readonly asOfUnknownSize: (alias: string) => string;
  /** `column`, likewise. */
  readonly columnOfUnknownSize: (name: Name) => string;
  /** The rows as a table with a column `place`: 1, 2, 3, … in input order. */
  readonly withPlace: (alias: string) => string;
  /** One column as an array, for `= ANY (…)` and `cardinality(…)`. */
  readonly column: (name: Name) => string;
}

/** A statement parameter: how many `$n` it takes, its SQL text, and its encoded values. */
export interface Parameter<Value, Text> {
  readonly size: number;
  readonly inText: (first: number) => Text;
  readonly encode: (value: Value) => readonly unknown[];
}

/** A list of rows: `rowsOf<Row>()({ instance_key: 'bigint', kind: ['text', (row) => row.message.kind], … })`. */
export function rowsOf<Row>() {
  return <Name extends string>(columns: {
    readonly [N in Name]: Column<Row> | SameName<Row, N>;
  }): Parameter<readonly Row[], ListText<Name>> => {
    const names = Object.keys(columns) as Name[];
    const list = names.map((name) => toColumn<Row>(name, columns[name]));
    return {
      size: names.length,
      encode: (rows) => list.map((column) => encode(column, rows)),
      inText: (first) => {
        const array = (place: number) => `$${first + place}::${list[place]?.[0]}[]`;
        const hidden = (place: number) => `(SELECT ${array(place)})`;
        const table = (arrays: (place: number) => string, alias: string) =>
          `unnest(${names.map((_, place) => arrays(place)).join(', ')}) AS ${alias} (${names.join(', ')})`;
        return {
          names: names.join(', '),
          as: (alias) => table(array, alias),
          asOfUnknownSize: (alias) => table(hidden, alias),
          columnOfUnknownSize: (name) => `ARRAY(SELECT unnest(${array(names.indexOf(name))}))`,
          withPlace: (alias) =>
            `unnest(${names.map((_, place) => array(place)).join(', ')}) WITH ORDINALITY AS ${alias} (${[...names, 'place'].join(', ')})`,
          column: (name) => array(names.indexOf(name)),
        };
      },
    };
  };
}

/** A single value. */
export function one<Value extends number | string | boolean | null>(
  type: WholeNumber | 'text' | 'boolean',
): Parameter<Value, string> {
  return {
    size: 1,
    inText: (number) => `$${number}::${type}`,
    encode: (value) => [typeof value === 'string' ? toStoredText(value) : value],
  };
}

/** The clock of a test, or `null` for the database clock. Must be the first parameter of a statement with `nowSql`. */
export const clock: Parameter<number | null, string> = one<number | null>('bigint');

/** A list of integers, for `= ANY (…)`. */
export function keys(type: WholeNumber = 'bigint'): Parameter<readonly number[], string> {
  return {
    size: 1,
    inText: (number) => `$${number}::${type}[]`,
    encode: (values) => [numbers(values, itself)],
  };
}

/** A list of strings, for `= ANY (…)`. */
export function strings(): Parameter<readonly string[], string> {
  return {
    size: 1,
    inText: (number) => `$${number}::text[]`,
    encode: (values) => [texts(values, itself)],
  };
}

/** A parameter that may be absent: `null` and `undefined` are sent as NULL. */
export function optional<Value, Text>(
  parameter: Parameter<Value, Text>,
): Parameter<Value | null | undefined, Text> {
  const { size, encode } = parameter;
  const absent = Array.from({ length: size }, () => null);
  return { ...parameter, encode: (value) => (value == null ? absent : encode(value)) };
}

type Parameters = Readonly<Record<string, Parameter<never, unknown>>>;
type Texts<P extends Parameters> = {
  readonly [Name in keyof P]: P[Name] extends Parameter<never, infer Text> ? Text : never;
};
type Values<P extends Parameters> = {
  readonly [Name in keyof P]: P[Name] extends Parameter<infer Value, unknown> ? Value : never;
};

/** Binds values to a statement: `tx.query(...bind({ … }))`. */
export interface Bind<V> {
  (values: V): [statement: Statement, values: readonly unknown[]];
  /** Binds values that are encoded when the statement is sent. */
  deferred(values: () => V): DeferredStatement;
}

/** Prepares a statement with named parameters. If the text contains `nowSql`, the first parameter must be `now`. */
export function prepare<const P extends Parameters>(
  name: string,
  parameters: P,
  text: (parameters: Texts<P>) => string,
): Bind<Values<P>> {
  const entries = Object.entries(parameters);
  let next = 1;
  const fragments: Record<string, unknown> = {};
  for (const [key, parameter] of entries) {
    fragments[key] = parameter.inText(next);
    next += parameter.size;
  }
  const statement: Statement = { name, text: text(fragments as Texts<P>) };
  const [first] = entries;
  if (statement.text.includes(nowSql) && first?.[0] !== 'now')
    throw new Error(`${name}: the first parameter must be now.`);
  const encode = (values: Values<P>): readonly unknown[] => {
    const encoded: unknown[] = [];
    for (const [key, parameter] of entries) {
      const value = (values as Record<string, never>)[key] as never;
      for (const item of parameter.encode(value)) encoded.push(item);
    }
    return encoded;
  };
  const bind = (values: Values<P>): [Statement, readonly unknown[]] => [statement, encode(values)];
  return Object.assign(bind, {
    deferred: (values: () => Values<P>) => ({ statement, encode: () => encode(values()) }),
  });
}

function toColumn<Row>(name: string, column: Column<Row> | string): Column<Row> {
  if (typeof column !== 'string') return column;
  const key = name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return [column, (row: Row) => row[key as keyof Row]] as unknown as Column<Row>;
}

function encode<Row>(column: Column<Row>, rows: readonly Row[]): string | Buffer {
  switch (column[0]) {
    case 'text':
      return texts(rows, column[1]);
    case 'boolean':
      return booleans(rows, column[1]);
    default:
      return numbers(rows, column[1]);
  }
}

/**
 * Joins one row of `table` to each row of the preceding list, and exposes its ctid as `found.row_id`.
 *
 * PostgreSQL plans a subquery with LIMIT on its own, as one index probe per row. A join by key may become a sequential
 * scan or a nested loop if it is planned while the table is small.
 *
 * Other conditions on the row must not match an index: write `(status = 'running') IS TRUE`. A plan made while no row
 * has that status would otherwise read the index of the status.
 *
 * Use it only for rows that an earlier statement of the transaction has locked, or that may be skipped: a concurrent
 * update gives a row a new ctid.
 */
export function rowIdOf(table: string, condition: string): string {
  return `CROSS JOIN LATERAL (SELECT one.ctid AS row_id FROM ${table} AS one WHERE ${condition} LIMIT 1) AS found`;
}
